"""Ctrl-C and SIGTERM: acted on between the steps of long work, and never lost.

What a signal handler raises comes up wherever Python happens to be. In a callback of its garbage collector (jax has
one), in a finaliser or in a library's bare `except` it is lost, or taken for an error of the work. So a search defers:
the signal is noted, and `check`, called before anything is recorded, raises. Elsewhere the handler raises at once, and
once more where Python says that the exception went nowhere.
"""

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from planner.errors import EXIT_INTERRUPTED

HEEDED = (signal.SIGINT, signal.SIGTERM)
SAME_KEY_S = 0.1  # `timeout` sends its signal twice, to the process and to its group
AGAIN_S = 0.02
DROPS = frozenset({"__del__", "_unraisable"})


class Interrupts:
    """A handler of SIGINT and SIGTERM, both of which become KeyboardInterrupt; `number` is the first that came.

    `leave` is called for a second SIGINT; without it that raises at once. `deferring`: what comes is raised by `check`.
    `holding`: not even a second SIGINT acts now. SIGALRM, which we send ourselves, stands for the signal before it.
    """

    def __init__(self, leave: Callable[[], object] | None = None) -> None:
        self.number: int | None = None
        self.deferring = False
        self.holding = False
        self._leave = leave
        self._due = False
        self._leaving = False
        self._came_s = 0.0

    @property
    def status(self) -> int:
        """Exit status of a process that ends because of the signal."""
        return EXIT_INTERRUPTED if self.number is None else 128 + self.number

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a first signal; raise, unless that is deferred. Further ones of SIGTERM say nothing new."""
        now = time.monotonic()
        if self.number is None and number in HEEDED:
            self.number, self._came_s = number, now
        elif number == signal.SIGINT and now - self._came_s >= SAME_KEY_S:
            self._leaving = True
            self.leave()
            return
        elif number != signal.SIGALRM or self.number is None:
            return
        if self.deferring:
            self._due = True
        elif _goes_nowhere(frame):
            self.raise_again()
        else:
            raise KeyboardInterrupt

    def leave(self) -> None:
        """After a second SIGINT: at once, but for steps that are held together."""
        if self._leaving and not self.holding:
            self._leaving = False
            if self._leave is None:
                raise KeyboardInterrupt
            self._leave()

    def check(self) -> None:
        """Raise for a signal that came while that was deferred; once."""
        if self._due:
            self._due = False
            raise KeyboardInterrupt

    def raise_again(self) -> None:
        """The handler's exception was lost, or would have been: call it again a moment later."""
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)  # a thread must not be started wherever a signal may come


@contextmanager
def heeded(leave: Callable[[], object] | None = None) -> Iterator[Interrupts]:
    """SIGINT and SIGTERM are ours within the block, which the main thread must enter."""
    handler, hook = Interrupts(leave), sys.unraisablehook

    def _unraisable(lost: Any, /) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt):
            handler.raise_again()
        else:
            hook(lost)

    sys.unraisablehook = _unraisable
    try:
        with _exchanged((*HEEDED, signal.SIGALRM), handler):
            yield handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook


def _goes_nowhere(frame: FrameType | None) -> bool:
    """Whether Python would drop an exception that is raised in `frame`."""
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code in callbacks or frame.f_code.co_name in DROPS:
            return True
        frame = frame.f_back
    return False


@contextmanager
def deferred() -> Iterator[None]:
    """Interrupts that come within the block are raised by `check`, at the latest when it is left without an error.

    Outside the main thread, and where somebody else heeds SIGINT, nothing changes.
    """
    present = signal.getsignal(signal.SIGINT)
    if not _in_main_thread() or not (isinstance(present, Interrupts) or present is signal.default_int_handler):
        yield
    elif isinstance(present, Interrupts):
        with _deferring(present):
            yield
    else:
        handler = Interrupts()
        with _exchanged((signal.SIGINT,), handler), _deferring(handler):
            yield


@contextmanager
def _deferring(handler: Interrupts) -> Iterator[None]:
    before, handler.deferring = handler.deferring, True
    try:
        yield
    finally:
        handler.deferring = before
    handler.check()


def check() -> None:
    """Raise KeyboardInterrupt if an interrupt is pending."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, Interrupts) and _in_main_thread():
        handler.check()


@contextmanager
def held_back() -> Iterator[None]:
    """Steps that a signal must not cut in two: SIGINT and SIGTERM that come within the block act when it is left.

    Does nothing outside the main thread. Handlers are told or exchanged, not signals masked: a mask is one thread's,
    and the interpreter acts on a signal whichever thread the system gave it to.
    """
    present = signal.getsignal(signal.SIGINT)
    if not _in_main_thread():
        yield
    elif isinstance(present, Interrupts):
        with _holding(present):
            yield
    else:
        signals: list[int] = []
        try:
            with _exchanged(HEEDED, lambda number, _frame: signals.append(number)):
                yield
        finally:
            if signals:
                signal.raise_signal(signals[0])


@contextmanager
def _holding(handler: Interrupts) -> Iterator[None]:
    before, handler.holding = handler.holding, True
    try:
        with _deferring(handler):
            yield
    finally:
        handler.holding = before
        handler.leave()


@contextmanager
def _exchanged(
    numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """Another handler of these signals within the block; one that raises while they are put back does not stop that."""
    with ExitStack() as stack:
        for number in numbers:
            before = signal.getsignal(number)  # None: a handler that Python did not set
            stack.callback(signal.signal, number, signal.SIG_DFL if before is None else before)
            signal.signal(number, handler)
        yield


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
