"""Worker processes end with their parent, however it ends, and leave interrupts to it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from planner.errors import InputError
from planner.processes.interrupts import check, held_back

Answer = TypeVar("Answer")
WAKE_S = 0.2
"""How long a wait may last before it looks for an interrupt."""
_ONE_STARTS = threading.Lock()  # whose process is new is told by the list of all


class TaskPool(Protocol):
    """Who answers tasks: processes of this machine, or of others."""

    def run(
        self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]], /
    ) -> Iterator[Answer | BrokenExecutor]:
        """`function` of each task's arguments, in order; an error in place of the answer where processes died of it.

        An exception of `function` is raised here.
        """


Processes = int | TaskPool
"""How many processes of this machine, or a pool that is open."""


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """SIGINT and SIGTERM wait until the block is left; processes started within never see SIGINT.

    Ctrl-C reaches every process of a terminal at once, and the parent decides what becomes of the others. An executor
    that is interrupted while it takes up work may wait for that work for ever.
    """
    with held_back():  # the mask is for the processes: other threads of this one may be given the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Called in a worker: from now on SIGTERM ends it, and is sent to it when its parent is gone."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


class Workers:
    """Processes that answer tasks in order. One that dies takes no other task with it.

    Each process is an executor of its own and holds one task at a time: who died with a process is known, and no task
    is handed to an executor that is just finding out that it broke (before Python 3.12 it may then hang, or raise).
    """

    def __init__(self, count: int, check: Callable[[], None] = check) -> None:
        """Of `count` processes, each started when it is first needed. InputError: fewer than one.

        `check` is called while answers are waited for; what it raises ends the run.
        """
        if count < 1:
            raise InputError(f"processes: must be at least 1, got {count}.", hint="Give 1, or the number of cores.")
        self._check = check
        self._idle = [_opened() for _ in range(count)]
        self._busy: dict[Future[Any], ProcessPoolExecutor] = {}
        self._started: set[BaseProcess] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes; the results of running tasks are dropped."""
        if kind is not None or self._busy:
            for process in self._started & set(multiprocessing.active_children()):
                process.terminate()
        for executor in (*self._idle, *self._busy.values()):
            executor.shutdown(cancel_futures=True)

    def run(
        self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]], /
    ) -> Iterator[Answer | BrokenProcessPool]:
        """`function` of each task's arguments, in order; the error itself for a task that no process survived, twice.

        An exception of `function` is raised here.
        """
        while self._busy:  # left over from an interrupted run
            self._next_ended()
        waiting = [(place, 0) for place in reversed(range(len(tasks)))]
        running: dict[Future[Answer], tuple[int, int]] = {}
        ended: dict[int, Future[Answer]] = {}
        for next_place in range(len(tasks)):
            while next_place not in ended:
                while waiting and self._idle:
                    place, deaths = waiting.pop()
                    running[self._submit(function, tasks[place])] = (place, deaths)
                for future in self._next_ended():
                    place, deaths = running.pop(future)
                    if _died(future) and not deaths:  # it may have been killed for what others did
                        waiting.append((place, deaths + 1))
                    else:
                        ended[place] = future
            future = ended.pop(next_place)
            error = future.exception()
            yield error if isinstance(error, BrokenProcessPool) else future.result()

    def _submit(self, function: Callable[..., Answer], task: tuple[Any, ...]) -> Future[Answer]:
        with _ONE_STARTS, deaf_to_interrupts():  # the executor starts its process when it is first asked
            executor = self._idle.pop()
            before = set(multiprocessing.active_children())
            try:
                future = executor.submit(function, *task)
            except BrokenProcessPool as error:  # its process died with nothing to do
                future = Future()
                future.set_exception(error)
            self._started |= set(multiprocessing.active_children()) - before
            self._busy[future] = executor
        return future

    def _next_ended(self) -> set[Future[Any]]:
        """Wait for the next futures to end; their processes, or new ones for the dead, are idle again.

        KeyboardInterrupt where interrupts are deferred and one comes.
        """
        ended: set[Future[Any]] = set()
        while not ended:
            self._check()
            ended, _ = wait(self._busy, WAKE_S, return_when=FIRST_COMPLETED)
        for future in ended:
            executor = self._busy.pop(future)
            if _died(future):
                executor.shutdown(wait=False)
                executor = _opened()
            self._idle.append(executor)
        return ended


@contextmanager
def pool_of(processes: Processes, most_processes: int) -> Iterator[TaskPool]:
    """The pool that `processes` is, or one of so many processes, at most `most_processes`, that ends with the block."""
    if not isinstance(processes, int):
        yield processes
        return
    with Workers(max(1, min(processes, most_processes))) as workers:
        yield workers


def _opened() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        max_workers=1,
        mp_context=multiprocessing.get_context("spawn"),  # a forked torch may hang on its own threads
        initializer=end_with_parent,
    )


def _died(future: Future[Any]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)
