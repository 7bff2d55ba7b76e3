"""A server that dies while requests come in."""

import os
import signal
import time
from collections.abc import Callable

from routers_run.programs_run import Running


def kill_when(programs: Running, victim: str, answers: int) -> tuple[list[float], Callable[[int], None]]:
    """When `victim` was killed (monotonic clock, s), to be filled, and what kills it once so many requests are
    answered."""
    killed: list[float] = []

    def kill(answered: int) -> None:
        if answered >= answers and not killed:
            killed.append(time.monotonic())
            os.kill(programs.processes[victim].pid, signal.SIGKILL)
            programs.processes[victim].wait(timeout=3)

    return killed, kill
