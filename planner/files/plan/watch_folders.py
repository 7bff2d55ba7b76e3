"""The folder of a watch: its decision log, a run folder for each plan, and which of them stands.

| entry | holds |
|---|---|
| watch.jsonl | a header, then a line for each observation and what was decided; it alone says what happened |
| plans/0001 ... | the plans in the order in which they took their place |
| current | `plans/0003`: the run folder of the plan that stands, for scripts |
| .watch.lock | the process that is at work in it; empty where none is |

A plan is on the disk before the line that names it, and the line before `current` points there. What a kill leaves is
therefore at most a torn line, which counts as never written, and a plan that no line names, which is written again.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from planner.domain.keys import Mapped
from planner.domain.watching import WatchSettings, WatchStep, clock_text
from planner.errors import InputError
from planner.files.disk.folders import PAGE_FILE, errors_told, place_of, sync, write_run
from planner.files.disk.opening import is_there
from planner.files.disk.single_files import write_file
from planner.files.plan.batches.locks import locked
from planner.files.plan.digests import require_schema
from planner.files.plan.journal_lines import append, damaged, line_of, rows_of
from planner.files.records import load_record, record_document
from planner.processes.interrupts import held_back

FORMAT = 1
LOG_FILE, PLANS_FOLDER, CURRENT_FILE, LOCK_FILE = "watch.jsonl", "plans", "current", ".watch.lock"
_ENTRIES = frozenset({LOG_FILE, PLANS_FOLDER, CURRENT_FILE, LOCK_FILE, PAGE_FILE})
_ANEW = "Restore the file, or watch into another folder."


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchHeader:
    """What a watch was begun with. `facts`: name -> value of everything that has to stay as it is. `iso`: times are
    seconds since 1970."""

    name: str
    settings: WatchSettings
    facts: Annotated[tuple[tuple[str, str], ...], Mapped()]
    every_s: float
    iso: bool


class WatchFolder:
    """An open folder, which no other watch can open meanwhile; `steps`: of the processes before."""

    def __init__(
        self, folder: Path, descriptor: int, ending: ExitStack, header: WatchHeader, steps: list[WatchStep]
    ) -> None:
        self.folder, self.header, self.steps = folder, header, steps
        self._descriptor, self._ending = descriptor, ending

    @classmethod
    def open(cls, folder: Path, header: WatchHeader, *, force: bool = False) -> Self:
        """The folder, begun with `header` where it is new or empty; `force`: begun anew in place of another watch.

        Raises InputError where it holds anything else than a watch, a watch begun with other facts, another watch is
        at work in it, its log is damaged, or it cannot be written.
        """
        with errors_told(folder):
            place_of(folder).mkdir(parents=True, exist_ok=True)
            names = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE)
            strangers = [name for name in names if name not in _ENTRIES]
            if strangers or (names and LOG_FILE not in names):
                raise InputError(
                    f"{folder}: must be a new or empty folder, or that of a watch, holds "
                    f"{', '.join(strangers[:3]) or 'no log'}.",
                    hint="Choose another output folder; this one is left alone even with --force.",
                )
        with ExitStack() as stack:
            stack.enter_context(locked(folder, LOCK_FILE, "watch"))
            with errors_told(folder):
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                descriptor = os.open(folder / LOG_FILE, flags, 0o666)
            stack.callback(os.close, descriptor)
            if force:
                _clear(folder, descriptor)
            begun, steps = _begun(folder, descriptor, header)
            return cls(folder, descriptor, stack.pop_all(), begun, steps)

    def add(self, step: WatchStep, *, durable: bool = True) -> None:
        """One more line; `durable`: it is on the disk before this returns, else written and safe from a kill of the
        process. InputError where the disk does not take it."""
        line = line_of(
            "step", {"time": clock_text(step.observation.at_s, iso=self.header.iso), **record_document(step)}
        )
        with errors_told(self.folder), held_back():
            if durable:
                append(self._descriptor, line)
            else:
                while line:
                    line = line[os.write(self._descriptor, line) :]
        self.steps.append(step)

    def put_plan(self, number: int, contents: Mapping[str, bytes]) -> None:
        """The run folder of a plan, on the disk; one that a killed watch left there is replaced."""
        write_run(plan_folder(self.folder, number), contents, force=True, durable=True)

    def point(self, number: int) -> None:
        """Say which plan stands."""
        path = self.folder / CURRENT_FILE
        text = f"{PLANS_FOLDER}/{plan_folder(self.folder, number).name}\n".encode()
        if not (path.is_file() and path.read_bytes() == text):
            write_file(path, text, force=True)

    def close(self) -> None:
        """Let go of the folder; all of the log is on the disk then."""
        with suppress(OSError):
            os.fsync(self._descriptor)
        self._ending.close()


def holds_watch(folder: Path) -> bool:
    """Whether the folder is that of a watch."""
    return is_there(folder / LOG_FILE)


def plan_folder(folder: Path, number: int) -> Path:
    """Where the plan of that number lies."""
    return folder / PLANS_FOLDER / f"{number:04d}"


def load_watch(folder: Path) -> tuple[WatchHeader, tuple[WatchStep, ...]]:
    """The log of a watch, which may be at work meanwhile. InputError where it is damaged or missing."""
    path = folder / LOG_FILE
    with errors_told(folder):
        if not is_there(path):
            raise InputError(f"{folder}: holds no watch.", hint="Give the folder that `planner watch` wrote.")
        descriptor = os.open(path, os.O_RDONLY)
    try:
        header, steps = _read(path, rows_of(path, descriptor, heal=False))
    finally:
        os.close(descriptor)
    return header, tuple(steps)


def _begun(folder: Path, descriptor: int, header: WatchHeader) -> tuple[WatchHeader, list[WatchStep]]:
    """What the watch was begun with, now or by an earlier process, and its steps."""
    path = folder / LOG_FILE
    with errors_told(folder):
        if not _has_line(descriptor):
            with held_back():
                os.ftruncate(descriptor, 0)
                append(descriptor, line_of("header", {"format": FORMAT, **record_document(header)}))
            sync(folder)
            return header, []
    begun, steps = _read(path, rows_of(path, descriptor))
    _require_same(folder, begun, header)
    return begun, steps


def _clear(folder: Path, descriptor: int) -> None:
    """Leave of an earlier watch nothing but its lock; the log goes last, so that a kill leaves a watch."""
    with errors_told(folder):
        (folder / CURRENT_FILE).unlink(missing_ok=True)
        (folder / PAGE_FILE).unlink(missing_ok=True)
        shutil.rmtree(folder / PLANS_FOLDER, ignore_errors=True)
        os.ftruncate(descriptor, 0)


def _has_line(descriptor: int) -> bool:
    """Whether there is a whole line: a watch that was killed before its header was written has done nothing."""
    return b"\n" in os.pread(descriptor, 1 << 20, 0)


def _read(path: Path, rows: list[dict[str, Any]]) -> tuple[WatchHeader, list[WatchStep]]:
    number = 1
    try:
        document = rows[0]["header"]
        if document["format"] != FORMAT:
            raise ValueError
        require_schema(WatchSettings, document["settings"], f"{path}: line 1: settings", hint=_ANEW)
        header = load_record(WatchHeader, document)
        steps = []
        for number, row in enumerate(rows[1:], start=2):
            row["step"].pop("time")
            require_schema(WatchStep, row["step"], f"{path}: line {number}", hint=_ANEW)
            steps.append(load_record(WatchStep, row["step"]))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(damaged(path, number, "is no line of a watch").message, hint=_ANEW) from None
    return header, steps


def _require_same(folder: Path, begun: WatchHeader, resumed: WatchHeader) -> None:
    before, now = dict(begun.facts), dict(resumed.facts)
    differing = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
    if begun.settings != resumed.settings:
        differing.append("settings")
    if differing:
        raise InputError(
            f"{folder}: its watch was begun with another {', '.join(differing)}.",
            hint="Go on with what it was begun with, watch into another folder, or give --force to begin anew.",
        )
