"""How every study runs: its runs in order, one after the other or several at once, and how far it is.

An interrupt ends a study at once; in several processes those end with it.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from planner.errors import InputError, SolverError
from planner.processes.workers import Processes, pool_of

Run = TypeVar("Run")
Task = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsDone(Generic[Run]):
    """How far a study is: `done` of `total` runs, parts of one included; `last` is a run that has just ended."""

    done: float
    total: int
    last: Run | None = None


def run_tasks(
    study: str,
    function: Callable[..., Run],
    tasks: Sequence[Task],
    *,
    processes: Processes = 1,
    listen: Callable[[RunsDone[Run]], None] = lambda _: None,
) -> Iterator[Run]:
    """`function` of each task's arguments, in order; the same runs in any number of processes.

    In one process `function` is also handed `progress`, which hears the share of its run that is done. `study` is its
    name in errors. SolverError where a process died twice over its run; an exception of `function` is raised here.
    """
    in_order = _one_by_one(function, tasks, listen) if processes == 1 else _at_once(study, function, tasks, processes)
    with closing(in_order) as runs:
        for number, run in enumerate(runs, start=1):
            listen(RunsDone(done=number, total=len(tasks), last=run))
            yield run


def require_each_once(name: str, listed: Sequence[object]) -> None:
    """InputError where nothing is there to compare, or the same twice."""
    if not listed or len(set(listed)) < len(listed):
        received = ", ".join(map(str, listed)) or "none"
        raise InputError(f"{name}: must be at least one, each once, got {received}.", hint="Drop what came twice.")


def _one_by_one(
    function: Callable[..., Run], tasks: Sequence[Task], listen: Callable[[RunsDone[Run]], None]
) -> Generator[Run, None, None]:
    for number, task in enumerate(tasks):

        def progress(share: float, number: int = number) -> None:
            listen(RunsDone(done=number + share, total=len(tasks)))

        yield function(*task, progress=progress)


def _at_once(
    study: str, function: Callable[..., Run], tasks: Sequence[Task], processes: Processes
) -> Generator[Run, None, None]:
    with pool_of(processes, most_processes=len(tasks)) as pool:
        for run in pool.run(function, tasks):
            if isinstance(run, BrokenExecutor):
                raise SolverError(
                    f"{study}: the process of a run died twice.", hint="Give it more memory, or fewer --processes."
                ) from run
            yield run
