"""Worker processes end with their parent, however it ends, and leave interrupts to it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
