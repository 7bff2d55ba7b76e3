"""Tasks for workers: some end well, some take their process with them."""

import os
import signal
import time
from pathlib import Path


def square(number: int, fate: str = "well") -> int:
    """Its square; `kill`: ends its process, `raise`: an error."""
    if fate == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fate == "raise":
        raise ValueError("made up")
    return number * number


def parent_after(notes: Path, go: Path) -> int:
    """Notes the ids of its own process and of its worker's, and answers the latter when `go` is there."""
    (notes / f"{os.getpid()}").write_text(str(os.getppid()))
    while not go.exists():
        time.sleep(0.02)
    return os.getppid()
