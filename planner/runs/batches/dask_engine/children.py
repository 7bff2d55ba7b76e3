"""What happens on a Dask worker: a task is answered by a process of its own, which can be ended.

Dask cannot stop a task that is being worked on; a process it can. So a worker hands every task to a child, looks a few
times a second whether somebody still waits for the answer, and ends the child where nobody does: its client has gone,
or the worker itself is to close. A child ends with its worker, however that ends.
"""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread
from typing import Any, TypeVar

from distributed import Worker, get_worker
from distributed.core import Status

from planner.errors import PlannerError
from planner.processes.workers import Workers

Answer = TypeVar("Answer")
CHILDREN = "llm-fleet-planner"
"""Where a worker has its children, by thread, among its extensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildDeath:
    """In place of an answer: the process that worked on it died, and so did the next one."""

    reason: str


class UnwantedError(PlannerError):
    """Nobody waits for the answer any more."""


def answer_in_child(folder: Path | None, function: Callable[..., Answer], task: tuple[Any, ...]) -> Answer | ChildDeath:
    """`function` of the arguments `task`, in a child of this worker; `folder`: its current one, None for any.

    An exception of `function` is raised here; UnwantedError where the task was called off meanwhile.
    """
    worker = get_worker()
    children = worker.extensions.setdefault(CHILDREN, {})
    thread = current_thread().name
    child: Workers = children.pop(thread, None) or _new_child(worker)
    try:
        answers: list[Answer | BrokenExecutor] = list(child.run(_call_in, [(folder, function, task)]))
    except UnwantedError as error:
        child.__exit__(type(error), error, None)
        raise
    except BaseException:
        children[thread] = child
        raise
    children[thread] = child
    (answer,) = answers
    if isinstance(answer, BrokenExecutor):
        return ChildDeath(reason="its process ended without an answer, and so did the next one")
    return answer


def end_children(dask_worker: Worker) -> None:
    """End the processes that wait for tasks. `dask_worker`: handed in by Dask, by this name."""
    children = dask_worker.extensions.pop(CHILDREN, {})
    for child in children.values():
        child.__exit__(None, None, None)


def _new_child(worker: Worker) -> Workers:
    """A process of its own, also where the worker is one that Dask does not want to have children."""
    multiprocessing.current_process().daemon = False  # it would be refused; they end with the worker all the same
    return Workers(1, _Wanted(worker))


class _Wanted:
    """Raises UnwantedError where the task of the calling thread has been called off, or its worker closes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __call__(self) -> None:
        """Look once."""
        state = self._worker.state.tasks.get(self._worker.get_current_task())
        if state is None or state.state != "executing" or self._worker.status not in (Status.running, Status.paused):
            raise UnwantedError("The task was called off.")


def _call_in(folder: Path | None, function: Callable[..., Answer], task: tuple[Any, ...]) -> Answer:
    if folder is not None:
        os.chdir(folder)
    return function(*task)
