"""Steps that a signal must not cut in two."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_back() -> Iterator[None]:
    """SIGINT and SIGTERM that come within the block act when it is left. Does nothing outside the main thread.

    Handlers are exchanged, not signals masked: a mask is one thread's, and the interpreter acts on a signal whichever
    thread the system gave it to.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = [(number, signal.signal(number, note)) for number in HELD]
    try:
        yield
    finally:
        for number, handler in reversed(before):  # None: a handler that Python did not set
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if came:
            signal.raise_signal(came[0])
