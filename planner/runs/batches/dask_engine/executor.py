"""Jobs and tasks on Dask workers: of a cluster that lives as long as they do, or of one that is there already."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from planner.errors import EXIT_FAILURE, InputError
from planner.files.plan.batches.locks import present
from planner.runs.batches.dask_engine.admission import Admission, Tell
from planner.runs.batches.dask_engine.children import end_children
from planner.runs.batches.dask_engine.clusters import open_client, openness, require_address
from planner.runs.batches.dask_engine.dispatching import ABSENCE_S, Dispatcher, Ended
from planner.runs.batches.jobs import Job, Outcome
from planner.runs.batches.running import failure, outcome_again, outcome_of

PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskSettings:
    """Workers of the Dask scheduler at `scheduler`; None: `workers` processes of a cluster on this machine.

    `patience_s`: how long a scheduler may take to answer, and a first worker to be there; `absence_s`: how long work
    waits where all workers have gone; `tell`: hears of workers that get no work, and of a scheduler that asks for no
    key. InputError: fewer than one worker, what cannot be an address, or one of another machine without TLS.
    """

    workers: int
    scheduler: str | None = None
    patience_s: float = PATIENCE_S
    absence_s: float = ABSENCE_S
    tell: Tell = lambda _: None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"processes: must be at least 1, got {self.workers}.", hint="Give one or more.")
        if self.scheduler is not None:
            require_address(self.scheduler)


@contextmanager
def open_dispatcher(
    settings: DaskSettings, *, current: Path | None = None, folders: Sequence[Path] = (), files: Sequence[Path] = ()
) -> Iterator[Dispatcher]:
    """Workers ready for tasks, which have `current` as their current folder and see `folders` and `files`.

    Raises InputError where the scheduler does not answer, nobody works for it, or workers are not fit for it.
    """
    shared = folders if current is None else (current, *folders)
    if settings.scheduler is not None and (warning := openness(settings.scheduler)):
        settings.tell(warning)
    with open_client(settings.scheduler, settings.workers, settings.patience_s) as client:
        admission = Admission(client, shared, files, settings.tell)
        admission.begin(settings.patience_s)
        try:
            yield Dispatcher(client, admission, current=current, absence_s=settings.absence_s)
        finally:
            if client.status == "running":
                with suppress(Exception):  # they end with their worker, too
                    client.run(end_children, on_error="ignore")


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


Answer = TypeVar("Answer")


class DaskPool:
    """A `TaskPool` of the workers behind a dispatcher."""

    def __init__(self, workers: Dispatcher) -> None:
        self._workers = workers

    def run(
        self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]], /
    ) -> Iterator[Answer | BrokenExecutor]:
        """Answers in order; see `TaskPool`. Raises PlannerError where the scheduler goes, or all workers."""
        early: dict[int, Ended[Answer]] = {}
        with closing(self._workers.run(function, tasks)) as endings:
            for next_place in range(len(tasks)):
                while next_place not in early:
                    ended = next(endings)
                    early[ended.place] = ended
                ended = early.pop(next_place)
                yield BrokenExecutor(ended.death) if ended.death else _answer(ended)


@contextmanager
def open_dask_pool(settings: DaskSettings) -> Iterator[DaskPool]:
    """A pool that ends with the block. Raises InputError where the workers are not fit for it."""
    with open_dispatcher(settings) as workers:
        yield DaskPool(workers)


def _answer(ended: Ended[Answer]) -> Answer:
    if ended.error is not None:
        raise ended.error
    assert ended.answer is not None, "tasks answer something"
    return ended.answer
