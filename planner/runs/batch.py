"""One scenario from file to run folder, an interrupted search resumed, and many scenarios side by side.

Each scenario has a process of its own, so that one that fails, or is killed, leaves the others alone.
"""

import multiprocessing
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from planner import files, pipeline
from planner.domain import Plan, ReportProgress, Scenario, no_progress
from planner.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, PlannerError
from planner.interrupts import heeded
from planner.plans.provenance import versions
from planner.processes import deaf_to_interrupts, end_with_parent
from planner.runs import publication
from planner.runs.resuming import evaluations_to_repeat, require_same_plan, require_same_search, with_way_on
from planner.workload import summarize

PATIENCE_S = 10.0
"""How long a worker may take to end with its best so far; a solver deep in a branch tree may take longer, and is not
waited for."""


ENGINE = "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A scenario file, its run folder, and what the command line changes. None keeps the scenario's own value, or that
    of the search in the folder where the job resumes one."""

    scenario: Path | None
    folder: Path
    force: bool = False
    seed: int | None = None
    processes: int | None = None
    engine: str | None = None

    @property
    def name(self) -> str:
        """The job's name before anything is read."""
        return self.scenario.stem if self.scenario else self.folder.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended: `status` is the exit status it would have alone, `message` its error, or what was different.

    `low_rps`, `high_rps`: P10 and P90 of the throughput, where its estimates have bands.
    """

    scenario: str
    folder: str
    status: int
    message: str = ""
    throughput_rps: float | None = None
    low_rps: float | None = None
    high_rps: float | None = None
    prefill_rps: float | None = None
    decode_rps: float | None = None
    price_usd_per_hour: float | None = None
    price_usd_per_million_tokens: float | None = None
    warnings: tuple[str, ...] = ()


def run_job(job: Job, progress: ReportProgress = no_progress) -> Outcome:
    """Plan one scenario and write its run folder.

    Raises PlannerError; then nothing has been written but the journal of a search that has evaluated something. An
    interrupt makes a run of the best so far, with its journal; KeyboardInterrupt where nothing serves yet.
    """
    scenario = _altered(_read(job), job)
    engine = job.engine or scenario.engine.name or ENGINE
    publication.require_deployable(scenario, engine)
    if not scenario.search.method.row.solves:
        undertaking = files.Undertaking(scenario=scenario, versions=versions(), engine=engine)
        with closing(files.Journal.begin(job.folder, undertaking, force=job.force)) as journal:
            return _searched(job, journal, progress)
    files.claim_run_folder(job.folder, force=job.force)
    plan = pipeline.plan(scenario, progress)
    published = publication.publish(plan, engine=engine)
    files.write_run(job.folder, published.files, force=job.force)
    return _outcome(job.folder, plan, published.warnings)


def resume_job(job: Job, progress: ReportProgress = no_progress) -> Outcome:
    """Resume the search in `job.folder`, with the job's scenario where it has one; a finished run is only reported.

    Raises as `run_job` does, and InputError where there is no search, or one that the job's scenario would make
    otherwise.
    """
    files.recover(job.folder)
    if files.holds_run(job.folder) and not files.holds_search(job.folder):
        plan = pipeline.recheck(files.load_run(job.folder), str(job.folder))
        require_same_plan(job.folder, plan.scenario, _wanted(job, plan.scenario))
        return replace(_outcome(job.folder, plan, ()), message="is finished, nothing is left to do")
    with closing(files.Journal.reopen(job.folder, versions())) as journal:
        begun = journal.undertaking
        scenario = _wanted(job, begun.scenario)
        require_same_search(job.folder, begun.scenario, scenario)
        journal.forget(evaluations_to_repeat(begun.scenario, scenario, journal.rounds))
        journal.adopt(replace(begun, scenario=scenario, engine=job.engine or begun.engine))
        return _searched(job, journal, progress)


def _searched(job: Job, journal: files.Journal, progress: ReportProgress) -> Outcome:
    undertaking = journal.undertaking
    try:
        plan = pipeline.plan(undertaking.scenario, progress, journal)
    except Exception as error:
        if journal.empty:  # else the evaluations made so far stay, whatever the error
            journal.discard()
        if isinstance(error, PlannerError):
            raise with_way_on(error, journal, _command_to_resume(job)) from error
        raise
    published = publication.publish(plan, engine=undertaking.engine)
    remains = journal.remains(interrupted=plan.search.interrupted)
    files.write_run(job.folder, {**published.files, **remains}, searched=True)
    return _outcome(job.folder, plan, published.warnings)


def _command_to_resume(job: Job) -> list[str]:
    scenario = "SCENARIO" if job.scenario is None else str(job.scenario)
    seed = [] if job.seed is None else ["--seed", str(job.seed)]
    engine = [] if job.engine is None else ["--engine", job.engine]
    return ["planner", "plan", scenario, "--resume", str(job.folder), *seed, *engine]


def _outcome(folder: Path, plan: Plan, warnings: tuple[str, ...]) -> Outcome:
    cut_short, band = plan.search.interrupted, plan.rate_band
    return Outcome(
        scenario=plan.scenario.name,
        folder=str(folder),
        status=EXIT_INTERRUPTED if cut_short else EXIT_DONE,
        message=f"interrupted after {len(plan.search.trials)} layouts" if cut_short else "",
        throughput_rps=plan.throughput_rps,
        low_rps=band.low_rps if band else None,
        high_rps=band.high_rps if band else None,
        prefill_rps=plan.prefill_rps,
        decode_rps=plan.decode_rps,
        price_usd_per_hour=plan.price_usd_per_hour,
        price_usd_per_million_tokens=plan.price_usd_per_million_tokens,
        warnings=warnings,
    )


def _read(job: Job) -> Scenario:
    assert job.scenario is not None
    return files.load_scenario(job.scenario, summarize)


def _altered(scenario: Scenario, job: Job) -> Scenario:
    search = scenario.search
    seed = search.seed if job.seed is None else job.seed
    processes = search.processes if job.processes is None else job.processes
    engine = scenario.engine if job.engine in (None, scenario.engine.name) else files.load_engine(job.engine)
    return replace(scenario, search=replace(search, seed=seed, processes=processes), engine=engine)


def _wanted(job: Job, begun: Scenario) -> Scenario:
    """The scenario that `job` asks for; where it names none, the one that the search began with."""
    return _altered(_read(job) if job.scenario else begun, job)


def run_scenarios(jobs: Sequence[Job], workers: int) -> Generator[Outcome, None, None]:
    """Run `jobs`, at most `workers` at once; outcomes come as they end, failures among them."""
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(jobs))
    running: dict[Connection, tuple[Job, multiprocessing.process.BaseProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(job, sender))
                with deaf_to_interrupts():
                    process.start()
                sender.close()
                running[receiver] = (job, process)
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                yield _received(ready, *running.pop(ready))
    finally:
        _stop(process for _, process in running.values())


def _received(receiver: Connection, job: Job, process: multiprocessing.process.BaseProcess) -> Outcome:
    try:
        outcome = receiver.recv()
        assert isinstance(outcome, Outcome)
    except EOFError:
        process.join()
        outcome = _failed(job, EXIT_FAILURE, f"its process ended without an answer (exit code {process.exitcode})")
    finally:
        receiver.close()
    process.join()
    return outcome


def _failed(job: Job, status: int, message: str) -> Outcome:
    return Outcome(scenario=job.name, folder=str(job.folder), status=status, message=message)


def _stop(processes: Iterable[multiprocessing.process.BaseProcess]) -> None:
    stopped = list(processes)
    for process in stopped:
        process.terminate()
    for process in stopped:
        process.join(PATIENCE_S)
        process.kill()
        process.join()


def _work(job: Job, sender: Connection) -> None:
    """A worker's whole life. Whatever goes wrong becomes an outcome, or an end that the parent reports."""
    with heeded() as interrupts:
        end_with_parent()
        try:
            outcome = run_job(job)
        except PlannerError as error:
            outcome = _failed(job, error.exit_status, str(error))
        except KeyboardInterrupt:
            outcome = _failed(job, interrupts.status, "interrupted")
        except Exception as error:  # noqa: BLE001  (the report of a defect must not be lost with the process)
            outcome = _failed(job, EXIT_FAILURE, f"internal error: {type(error).__name__}: {error}")
        with suppress(BrokenPipeError):  # nobody listens any more
            sender.send(outcome)
        sender.close()
