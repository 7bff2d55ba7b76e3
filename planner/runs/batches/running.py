"""One scenario from file to run folder, an interrupted search resumed; every end of it becomes an outcome."""

import errno
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from planner import files, pipeline
from planner.domain import Plan, ReportProgress, Scenario, SearchJournal, Trial, no_progress
from planner.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, InputError, PlannerError
from planner.evaluation.evaluator import open_evaluator
from planner.plans.comparing import plan_figures
from planner.plans.provenance import versions
from planner.processes.workers import TaskPool
from planner.proposing.feasibility import posed
from planner.runs import publication
from planner.runs.batches.jobs import ENGINE, Job, Outcome, altered, read_job, require_content


def require_same_search(folder: Path, begun: Scenario, resumed: Scenario) -> None:
    """InputError where `came` would evaluate otherwise, or something else, than the search in `folder`."""
    differing = files.deciding_differences(begun, resumed)
    if differing:
        raise InputError(
            f"{folder}: its search is of another scenario: {'; '.join(differing)}.",
            hint="Put back what differs, leave out the scenario and --seed to resume the search as it is, or plan into "
            "another folder.",
        )


def require_same_plan(folder: Path, finished: Scenario, resumed: Scenario) -> None:
    """InputError where `came` asks for another plan than the finished one in `folder`."""
    differing = files.all_differences(finished, resumed)
    if differing:
        raise InputError(
            f"{folder}: is finished, and its plan is of another scenario: {'; '.join(differing)}.",
            hint=f"Plan into another folder; `search.warm_start: [{folder}]` begins with its best layouts.",
        )


def evaluations_to_repeat(begun: Scenario, resumed: Scenario, rounds: Sequence[Sequence[Trial]]) -> tuple[int, ...]:
    """Indices of failed evaluations to repeat: all where the limits are others now, or where the search would end
    because of them again.

    None where the search would have continued past them, so that a killed search ends as an undisturbed one does.
    """
    trials = [trial for judged in rounds for trial in judged]
    failed = tuple(trial.index for trial in trials if trial.failed)
    other_limit = begun.assignment.work_limit != resumed.assignment.work_limit
    over = len(rounds) >= resumed.search.iterations and not any(trial.throughput_rps > 0 for trial in trials)
    return failed if other_limit or over or _gave_up(resumed, rounds) else ()


def _gave_up(scenario: Scenario, rounds: Sequence[Sequence[Trial]]) -> bool:
    judged = failed = 0
    for trials in rounds:
        judged, failed = judged + len(trials), failed + sum(trial.failed for trial in trials)
        if scenario.search.too_many_failures(failed, judged):
            return True
    return False


def with_way_on(error: PlannerError, journal: files.Journal, command: Sequence[str]) -> PlannerError:
    """The error of a search that has been evaluated in part; its hint says what is kept, and how to resume."""
    if not journal.evaluations:
        return error
    way = (
        f"Its {journal.evaluations} evaluations are kept: after a change that leaves them valid, resume with "
        f"`{shlex.join(command)}`."
    )
    return type(error)(error.message, hint=f"{error.hint} {way}".strip())


def run_job(job: Job, progress: ReportProgress = no_progress, pool: TaskPool | None = None) -> Outcome:
    """Plan one scenario and write its run folder. `pool`: who evaluates layouts; None: `search.processes` processes.

    Raises PlannerError; then nothing has been written but the journal of a search that has evaluated something. An
    interrupt makes a run of the best so far, with its journal; KeyboardInterrupt where nothing serves yet.
    """
    scenario = altered(read_job(job), job)
    engine = job.engine or scenario.engine.name or ENGINE
    require_content(job, scenario, engine)
    publication.require_deployable(scenario, engine)
    if not scenario.search.method.row.solves:
        undertaking = files.Undertaking(scenario=scenario, versions=versions(), engine=engine)
        with closing(files.Journal.begin(job.folder, undertaking, force=job.force)) as journal:
            return _searched(job, journal, progress, pool)
    files.claim_run_folder(job.folder, force=job.force)
    plan = _planned(scenario, progress, None, pool)
    published = publication.publish(plan, engine=engine, figures=job.figures)
    files.write_run(job.folder, published.files, force=job.force, durable=bool(job.content))
    return _outcome(job.folder, plan, published.warnings)


def run_or_resume(job: Job, progress: ReportProgress = no_progress) -> Outcome:
    """Plan a scenario, as `run_job` does; a job that knows its content resumes an unfinished search of its own."""
    if job.content and files.holds_search(job.folder):
        return resume_job(replace(job, force=False), progress)
    return run_job(job, progress)


def resume_job(job: Job, progress: ReportProgress = no_progress, pool: TaskPool | None = None) -> Outcome:
    """Resume the search in `job.folder`, with the job's scenario where it has one; a finished run is only reported.

    Raises as `run_job` does, and InputError where there is no search, or one that the job's scenario would make
    otherwise.
    """
    files.recover(job.folder)
    if files.holds_run(job.folder) and not files.holds_search(job.folder):
        plan = pipeline.recheck(files.load_run(job.folder), str(job.folder))
        require_same_plan(job.folder, plan.scenario, _scenario_of(job, plan.scenario))
        return replace(_outcome(job.folder, plan, ()), message="is finished, nothing is left to do")
    with closing(files.Journal.reopen(job.folder, versions())) as journal:
        begun = journal.undertaking
        scenario = _scenario_of(job, begun.scenario)
        require_same_search(job.folder, begun.scenario, scenario)
        journal.forget(evaluations_to_repeat(begun.scenario, scenario, journal.rounds))
        journal.adopt(replace(begun, scenario=scenario, engine=job.engine or begun.engine))
        return _searched(job, journal, progress, pool)


def _planned(
    scenario: Scenario, progress: ReportProgress, journal: SearchJournal | None, pool: TaskPool | None
) -> Plan:
    with open_evaluator(posed(scenario), pool) as evaluator:
        return pipeline.plan(scenario, progress, journal, opened=evaluator, odds=True)


def _searched(job: Job, journal: files.Journal, progress: ReportProgress, pool: TaskPool | None) -> Outcome:
    undertaking = journal.undertaking
    try:
        plan = _planned(undertaking.scenario, progress, journal, pool)
    except Exception as error:
        if journal.empty:  # else the evaluations made so far stay, whatever the error
            journal.discard()
        if isinstance(error, PlannerError):
            raise with_way_on(error, journal, _command_to_resume(job)) from error
        raise
    published = publication.publish(plan, engine=undertaking.engine, figures=job.figures)
    remains = journal.remains(interrupted=plan.search.interrupted)
    files.write_run(job.folder, {**published.files, **remains}, searched=True)
    return _outcome(job.folder, plan, published.warnings)


def _command_to_resume(job: Job) -> list[str]:
    scenario = "SCENARIO" if job.scenario is None else str(job.scenario)
    seed = [] if job.seed is None else ["--seed", str(job.seed)]
    engine = [] if job.engine is None else ["--engine", job.engine]
    settings = [word for setting in job.settings for word in ("--set", setting.text)]
    return ["planner", "plan", scenario, "--resume", str(job.folder), *seed, *engine, *settings]


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
        price_usd_per_hour=plan.price_usd_per_hour if plan.priced else None,
        price_usd_per_million_tokens=plan.price_usd_per_million_tokens if plan.priced else None,
        warnings=warnings,
        figures=plan_figures(plan, folder.name),
    )


def _scenario_of(job: Job, begun: Scenario) -> Scenario:
    """The scenario that `job` asks for; where it names none, the one that the search began with."""
    return altered(read_job(job) if job.scenario else begun, job)


_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
"""What the system says of a disk that takes no more: no other job will fare better."""


def outcome_of(job: Job) -> Outcome:
    """Plan a scenario, as `run_or_resume` does; what goes wrong is an outcome, too. KeyboardInterrupt is raised."""
    return _as_outcome(run_or_resume, job)


def outcome_again(job: Job) -> Outcome:
    """The job once more, where nobody knows how far it came: what it finished is reported, what it began goes on."""
    return _as_outcome(_run_again, job)


def _run_again(job: Job) -> Outcome:
    files.recover(job.folder)
    if job.content and files.holds_run(job.folder) and not files.holds_search(job.folder):
        with suppress(InputError):  # a run of another scenario, which the job is to replace
            return replace(resume_job(replace(job, force=False)), message="")
    return run_or_resume(job)


def _as_outcome(run: Callable[[Job], Outcome], job: Job) -> Outcome:
    wall_s, cpu_s = time.monotonic(), time.process_time()
    try:
        outcome = run(job)
    except PlannerError as error:
        outcome = failure(job, error.exit_status, str(error), unwritable=disk_refuses(error))
    except Exception as error:  # noqa: BLE001  (the report of a defect must not be lost with the process)
        outcome = failure(job, EXIT_FAILURE, f"internal error: {type(error).__name__}: {error}")
    return replace(outcome, wall_s=time.monotonic() - wall_s, cpu_s=time.process_time() - cpu_s)


def failure(job: Job, status: int, message: str, *, worker_died: bool = False, unwritable: bool = False) -> Outcome:
    """The outcome of a job that made no plan."""
    return Outcome(
        scenario=job.name,
        folder=str(job.folder),
        status=status,
        message=message,
        worker_died=worker_died,
        unwritable=unwritable,
    )


def disk_refuses(error: BaseException | None) -> bool:
    """Whether an error comes of a disk that is full or may not be written."""
    passed: list[BaseException] = []  # an error may be its own cause
    while error is not None and error not in passed:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            return True
        passed.append(error)
        error = error.__cause__ or error.__context__
    return False
