"""What an interrupted user sees and can do while the program is deep in a solver, where no handler of Python's runs."""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

from planner.errors import EXIT_INTERRUPTED
from planner.processes.interrupts import SAME_KEY_S, Interrupts, heeded

PATIENCE_S = 25.0
"""After SIGTERM: what sends it mostly kills after half a minute."""

SOON_S = 1.0
SHOWN = b"\x1b[?25h"  # a progress bar hides the cursor
NOTE = b"\nInterrupted: ends with the best so far once what is under way has ended; Ctrl-C again ends at once.\n"


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """SIGINT and SIGTERM end what is done within the block; a second Ctrl-C ends the process at once, and so does a
    SIGTERM that has had no effect in time."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with heeded(_leave) as interrupts:
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            _start(reader, interrupts)
            yield interrupts
        finally:
            signal.set_wakeup_fd(before)
            os.close(writer)  # which ends the thread


def _leave() -> NoReturn:
    """At once; files on the disk are complete, as after a kill."""
    if sys.stderr.isatty():
        os.write(2, SHOWN)
    os._exit(EXIT_INTERRUPTED)


def _start(reader: int, interrupts: Interrupts) -> None:
    """Start the thread that notices signals while the main thread is busy. It blocks them for itself, so that those
    deferred in the main thread stay deferred."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        threading.Thread(target=_Watch(reader, interrupts).run, daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Watch:
    """Reads the numbers of signals as they arrive, and does what the main thread has not got to."""

    def __init__(self, reader: int, interrupts: Interrupts) -> None:
        self.reader = reader
        self.interrupts = interrupts
        self.pressed = 0
        self.first_s = 0.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def run(self) -> None:
        """Until the other end of the pipe is closed."""
        while True:
            self.due.sort(key=lambda row: row[0])
            wait = max(0.0, self.due[0][0] - time.monotonic()) if self.due else None
            if not select.select([self.reader], [], [], wait)[0]:
                self.due.pop(0)[1]()
                continue
            numbers = os.read(self.reader, 64)
            if not numbers:
                os.close(self.reader)
                return
            for number in numbers:
                self._hear(number)

    def _hear(self, number: int) -> None:
        now = time.monotonic()
        if number == signal.SIGTERM:
            self.due.append((now + PATIENCE_S, partial(os._exit, 128 + number)))
        elif number == signal.SIGINT:
            self.pressed += 1
            if self.pressed == 1:
                self.first_s = now
                self.due.append((now + SOON_S, self._note))
            elif now - self.first_s >= SAME_KEY_S:
                self.due.append((now + SOON_S, _leave))

    def _note(self) -> None:
        if self.interrupts.deferring and sys.stderr.isatty():
            os.write(2, NOTE)
