"""Tasks for worker processes, in a module that loads at once."""

import os
import signal
import time
from pathlib import Path


def answer(number: int, how: str) -> int:
    """A task of a worker: an answer, or a death."""
    match how:
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "slow":
            time.sleep(0.3)
        case "raise":
            raise ValueError("made up")
    return number * number


def answer_the_second_time(number: int, mark: str) -> int:
    """The first process that takes up the task is killed; the mark tells the second that it is not the first."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(number, "well")


def answer_late(number: int, mark: str) -> int:
    """A long task that leaves a mark at its end; without a mark, an error at once."""
    if not mark:
        raise ValueError("made up")
    time.sleep(20)
    Path(mark).touch()
    return number
