"""A job executed wherever that is: every end of it becomes an outcome, with what it took."""

import errno
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from planner import files
from planner.errors import EXIT_FAILURE, InputError, PlannerError
from planner.runs.batches.jobs import Job, Outcome
from planner.runs.batches.running import resume_job, run_or_resume

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
