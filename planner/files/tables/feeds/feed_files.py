"""A feed as a file, whatever is written to it meanwhile.

Whoever writes a feed need not know that it is read: a file that changes while it is read, is not there for a moment or
ends in the middle of a line is tried again, and only then refused.
"""

import os
import time
from collections.abc import Collection
from pathlib import Path

from planner.domain.watching import Feed
from planner.errors import InputError
from planner.files.disk.opening import opened
from planner.files.tables.feeds.feed_states import read_state
from planner.files.tables.feeds.feed_tables import read_table

TRIES, PAUSE_S = 3, 0.1
"""A script that rewrites a file of some kilobytes is done within milliseconds."""

_STATES = (".yaml", ".yml")
_TABLES = (".csv", ".gz", ".xz", ".zst")


def load_feed(path: Path, gpus: Collection[str], *, live: bool = False, tries: int = TRIES) -> Feed:
    """The feed of a CSV file (a history) or a YAML file (the current state); `gpus`: types that may be named.

    Values that are none (negative, no number, of an unknown type) are refused one by one, and told in the feed. `live`:
    others write to the file, so a line without its end is not all there. Raises InputError where it cannot be used at
    all, after so many tries.
    """
    for _ in range(tries - 1):
        try:
            return _read(path, gpus, live=live)
        except InputError:
            time.sleep(PAUSE_S)
    return _read(path, gpus, live=live)


def written_at_s(path: Path) -> float | None:
    """When a feed was written last, in seconds since 1970; None where it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _read(path: Path, gpus: Collection[str], *, live: bool) -> Feed:
    before = _stamp(path)
    if path.suffix in _STATES:
        feed = read_state(path, gpus, live=live)
    elif path.suffix in _TABLES:
        feed = read_table(path, gpus, torn=live and not _ends_a_line(path))
    else:
        raise InputError(
            f"{path}: must be a feed, a .csv or .yaml file.", hint="Name a table with times, or a file of the state."
        )
    if _stamp(path) != before:
        raise InputError(f"{path}: must not change while it is read.", hint="Write it beside its place and rename it.")
    return feed


def _stamp(path: Path) -> tuple[int, int, int]:
    with opened(path) as stream:
        status = os.fstat(stream.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


def _ends_a_line(path: Path) -> bool:
    if path.suffix != ".csv":
        return True  # a packed file that is not all there cannot be unpacked
    with opened(path) as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
