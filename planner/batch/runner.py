"""One scenario from file to run folder, and many of them side by side.

Each scenario has a process of its own, so that one that fails, or is killed, leaves the others alone.
"""

import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from planner import files, pipeline, publication
from planner.domain import ReportProgress, Scenario, no_progress
from planner.errors import EXIT_FAILURE, PlannerError
from planner.processes import deaf_to_interrupts, end_with_parent
from planner.workload import summarize

PATIENCE_S = 5.0
"""How long a worker may take to unwind; a solver deep in a branch tree may take longer, and is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A scenario file, its run folder, and what the command line changes. None leaves the scenario's own value."""

    scenario: Path
    folder: Path
    force: bool = False
    seed: int | None = None
    processes: int | None = None
    engine: str = "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended: `status` is the exit status it would have alone, `message` its error."""

    scenario: str
    folder: str
    status: int
    message: str = ""
    throughput_rps: float | None = None
    prefill_rps: float | None = None
    decode_rps: float | None = None
    price_usd_per_hour: float | None = None
    price_usd_per_million_tokens: float | None = None
    warnings: tuple[str, ...] = ()


def run_job(job: Job, progress: ReportProgress = no_progress) -> Outcome:
    """Plan one scenario and write its run folder. Raises PlannerError; then nothing has been written."""
    scenario = _altered(files.load_scenario(job.scenario, summarize), job)
    files.claim_run_folder(job.folder, force=job.force)
    plan = pipeline.plan(scenario, progress)
    published = publication.publish(plan, engine=job.engine)
    files.write_run(job.folder, published.files, force=job.force)
    return Outcome(
        scenario=scenario.name,
        folder=str(job.folder),
        status=0,
        throughput_rps=plan.throughput_rps,
        prefill_rps=plan.prefill_rps,
        decode_rps=plan.decode_rps,
        price_usd_per_hour=plan.price_usd_per_hour,
        price_usd_per_million_tokens=plan.price_usd_per_million_tokens,
        warnings=published.warnings,
    )


def _altered(scenario: Scenario, job: Job) -> Scenario:
    search = scenario.search
    seed = search.seed if job.seed is None else job.seed
    processes = search.processes if job.processes is None else job.processes
    return replace(scenario, search=replace(search, seed=seed, processes=processes))


def run_scenarios(jobs: Sequence[Job], workers: int) -> Iterator[Outcome]:
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
    return Outcome(scenario=job.scenario.stem, folder=str(job.folder), status=status, message=message)


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
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # unwinds: own processes end too
    end_with_parent()
    try:
        outcome = run_job(job)
    except PlannerError as error:
        outcome = _failed(job, error.exit_status, str(error))
    except Exception as error:  # noqa: BLE001  (the report of a defect must not be lost with the process)
        outcome = _failed(job, EXIT_FAILURE, f"internal error: {type(error).__name__}: {error}")
    sender.send(outcome)
    sender.close()
