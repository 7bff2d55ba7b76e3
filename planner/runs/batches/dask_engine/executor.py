"""Jobs of a batch on Dask workers: of a cluster that lives as long as the batch, or of one that is there already."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from planner.errors import EXIT_FAILURE
from planner.files.plan.batches.shared_folders import present
from planner.runs.batches.dask_engine.dispatching import Ended
from planner.runs.batches.dask_engine.sessions import DaskSettings, open_dispatcher
from planner.runs.batches.executing import failure, outcome_again, outcome_of
from planner.runs.batches.jobs import Job, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskExecutor:
    """Executes jobs on the workers of `settings`, which see the same files by the same paths.

    A job whose worker dies is run once more, by another; where that one dies as well, it has failed. Interrupted, jobs
    are ended at once: a search has its journal, and resumes.
    """

    settings: DaskSettings

    def run(self, jobs: Sequence[Job], /) -> Generator[Outcome, None, None]:
        """Outcomes as jobs end; see `Executor`. Raises InputError before any job runs where the workers are not fit
        for it, PlannerError where the scheduler goes, or all workers."""
        if not jobs:
            return
        scenarios = dict.fromkeys(job.scenario for job in jobs if job.scenario is not None)
        folders = dict.fromkeys(job.folder.parent for job in jobs)
        relative = any(not path.is_absolute() for path in (*scenarios, *folders))
        current = Path.cwd() if relative else None
        tasks = [(job,) for job in jobs]
        with (
            open_dispatcher(
                self.settings, current=current, folders=tuple(folders), files=present(scenarios)
            ) as workers,
            closing(workers.run(outcome_of, tasks, again=outcome_again)) as endings,
        ):
            for ended in endings:
                yield _outcome(jobs[ended.place], ended)


def _outcome(job: Job, ended: Ended[Outcome]) -> Outcome:
    if ended.answer is not None:
        return ended.answer
    if ended.error is not None:
        return failure(job, EXIT_FAILURE, f"internal error: {type(ended.error).__name__}: {ended.error}")
    return failure(job, EXIT_FAILURE, f"{ended.death}, and so had that of a first try")
