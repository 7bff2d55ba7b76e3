"""One call of the program in this process: what it printed, which error it told, whether it hung, what it left."""

import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from plain_pictures import copied_pictures

from planner.cli import main, screen
from planner.errors import PlannerError

MOST_CPU_S, MOST_WALL_S = 10, 300  # a laden machine takes longer by the clock, not by the processor
MOST_BYTES = 6 << 30
HANGS = "hangs"


class HangError(BaseException):
    """The time is up. Not an Exception, so that nobody takes it for one of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`status` None: it did not end by itself; `crash` says how. `error`: what it told with `show_error`."""

    status: int | None
    out: str
    err: str
    error: PlannerError | None
    crash: str
    cpu_s: float = 0.0


class Terminal(TextIOWrapper):
    """A stream that says it is a terminal; its width is in COLUMNS."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def call(words: Sequence[str], folder: Path, *, on_terminal: bool = False) -> Call:
    """`planner WORDS` in `folder`."""
    kinds = (Terminal if on_terminal else TextIOWrapper, TextIOWrapper)
    ways = ("strict", "backslashreplace")
    out, err = (kind(BytesIO(), encoding="utf-8", errors=way) for kind, way in zip(kinds, ways, strict=True))
    status, crash, told = None, "", []
    shown = screen.show_error

    def hear(error: PlannerError) -> None:
        told.append(error)
        shown(error)

    began = _cpu_s()
    few = patch("planner.runs.replays.router_losses._REQUESTS", 200)  # every export replays its router
    with copied_pictures(), few, _as_command(words, folder), _limited(), redirect_stdout(out), redirect_stderr(err):
        screen.show_error = hear
        try:
            main()
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else int(left.code is not None)
        except HangError:
            crash = HANGS
        except BaseException as error:  # noqa: BLE001 - what leaves by another door is what is looked for
            crash = f"{type(error).__name__}: {error}"[:300]
        finally:
            screen.show_error = shown
    return Call(
        status=status, out=_text(out), err=_text(err), error=told[-1] if told else None, crash=crash,
        cpu_s=_cpu_s() - began,
    )  # fmt: skip


def _cpu_s() -> float:
    """Of this process and of those that it waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _text(stream: TextIOWrapper) -> str:
    stream.flush()
    data = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return str(data.decode("utf-8"))


@contextmanager
def _as_command(words: Sequence[str], folder: Path) -> Iterator[None]:
    argv, here, term = sys.argv, Path.cwd(), signal.getsignal(signal.SIGTERM)
    sys.argv = ["planner", *words]
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        sys.argv = argv
        signal.signal(signal.SIGTERM, term)


@contextmanager
def _limited() -> Iterator[None]:
    """An alarm by CPU and by the clock, and a bound on memory: a fuzzer must not bring down its machine."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise HangError

    before: dict[Any, Any] = {kind: signal.signal(kind, end) for kind in (signal.SIGPROF, signal.SIGALRM)}
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_in_use() + MOST_BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    signal.setitimer(signal.ITIMER_REAL, MOST_WALL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _in_use() -> int:
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 0


def tree(folder: Path) -> dict[str, tuple[int, ...]]:
    """Everything below a folder: kind, and of files size, inode and time of change."""
    found = {}
    for path in folder.rglob("*"):
        at = path.lstat()
        known = (at.st_mode, at.st_size, at.st_ino, at.st_mtime_ns)
        found[path.relative_to(folder).as_posix()] = known[:1] if path.is_dir() else known
    return found
