"""Worker processes end with their parent, however it ends, and leave interrupts to it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

Answer = TypeVar("Answer")


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """SIGINT and SIGTERM wait until the block is left; processes started within never see SIGINT.

    Ctrl-C reaches every process of a terminal at once, and it is the parent's to say what becomes of the others. An
    executor that is interrupted while it takes up work may wait for that work for ever.
    """
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
    """Processes that answer tasks in order. One that dies takes no other task with it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = self._opened()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _opened(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            max_workers=self._count,
            mp_context=multiprocessing.get_context("spawn"),  # a forked torch may hang on its own threads
            initializer=end_with_parent,
        )

    def run(
        self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[Answer | BrokenProcessPool]:
        """`function` of each task's arguments, in order; the error itself for a task that its process did not survive.

        An exception of `function` is raised here.
        """
        waiting = self._submitted(function, tasks)
        try:
            for place, task in enumerate(tasks):
                try:
                    yield waiting[place].result()
                except BrokenProcessPool:
                    yield self._once_more(function, task)
                    for later in range(place + 1, len(tasks)):
                        if not _answered(waiting[later]):
                            (waiting[later],) = self._submitted(function, [tasks[later]])
        finally:
            for future in waiting:
                future.cancel()

    def _once_more(self, function: Callable[..., Answer], task: tuple[Any, ...]) -> Answer | BrokenProcessPool:
        """Whoever broke the pool, this task now has it to itself."""
        self._reopen()
        (alone,) = self._submitted(function, [task])
        try:
            return alone.result()
        except BrokenProcessPool as error:
            self._reopen()
            return error

    def _reopen(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._opened()

    def _submitted(self, function: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> list[Future[Answer]]:
        with deaf_to_interrupts():  # the pool starts its processes when it is first asked
            return [self._submit(function, task) for task in tasks]

    def _submit(self, function: Callable[..., Answer], task: tuple[Any, ...]) -> Future[Answer]:
        """A pool that broke meanwhile (by an earlier task of the same batch) is told as the future's error."""
        try:
            return self._pool.submit(function, *task)
        except BrokenProcessPool as error:
            future: Future[Answer] = Future()
            future.set_exception(error)
            return future


def _answered(future: Future[Answer]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
