"""Tasks of studies and searches on Dask workers, in the place of processes of this machine."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from planner.runs.batches.dask_engine.dispatching import Dispatcher, Ended
from planner.runs.batches.dask_engine.sessions import DaskSettings, open_dispatcher

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
            for wanted in range(len(tasks)):
                while wanted not in early:
                    ended = next(endings)
                    early[ended.place] = ended
                ended = early.pop(wanted)
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
