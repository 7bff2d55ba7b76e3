"""A job executed wherever that is: every end of it becomes an outcome, with what it took."""

import errno
import time
from dataclasses import replace

from planner.errors import EXIT_FAILURE, EXIT_INTERRUPTED, PlannerError
from planner.runs.batches.jobs import Job, Outcome
from planner.runs.batches.running import run_or_resume

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
"""What the system says of a disk that takes no more: no other job will fare better."""


def outcome_of(job: Job) -> Outcome:
    """The job's outcome, whatever goes wrong; KeyboardInterrupt alone is raised."""
    wall_s, cpu_s = time.monotonic(), time.process_time()
    outcome = _executed(job)
    return replace(outcome, wall_s=time.monotonic() - wall_s, cpu_s=time.process_time() - cpu_s)


def _executed(job: Job) -> Outcome:
    try:
        return run_or_resume(job)
    except PlannerError as error:
        return failed(job, error.exit_status, str(error), unwritable=disk_refuses(error))
    except Exception as error:  # noqa: BLE001  (the report of a defect must not be lost with the process)
        return failed(job, EXIT_FAILURE, f"internal error: {type(error).__name__}: {error}")


def failed(job: Job, status: int, message: str, *, worker_died: bool = False, unwritable: bool = False) -> Outcome:
    """The outcome of a job without a plan."""
    return Outcome(
        scenario=job.name,
        folder=str(job.folder),
        status=status,
        message=message,
        worker_died=worker_died,
        unwritable=unwritable,
    )


def interrupted(job: Job, status: int = EXIT_INTERRUPTED) -> Outcome:
    """The outcome of a job that was interrupted before there was anything to make a run of."""
    return failed(job, status, "interrupted")


def disk_refuses(error: BaseException | None) -> bool:
    """Whether an error comes of a disk that is full or may not be written."""
    passed: list[BaseException] = []  # an error may be its own cause
    while error is not None and error not in passed:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            return True
        passed.append(error)
        error = error.__cause__ or error.__context__
    return False
