"""Files of checksummed lines, each on the disk before the work goes on.

What a kill leaves is whole lines, and perhaps a torn one at the end, which counts as never written.
"""

import fcntl
import json
import os
import zlib
from pathlib import Path
from typing import Any

from planner.errors import InputError
from planner.files.disk.opening import MOST_OF_A_LIST, read_bytes

Document = dict[str, Any]


def lock(descriptor: int) -> None:
    """BlockingIOError where another planner holds it. A file system without locks lets everybody in."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


def line_of(kind: str, row: Document) -> bytes:
    """A row of that kind as a line."""
    return (json.dumps({kind: row, "crc32": _checksum({kind: row})}) + "\n").encode()


def _checksum(row: Document) -> str:
    return f"{zlib.crc32(json.dumps(row).encode()):08x}"


def append(descriptor: int, data: bytes) -> None:
    """Write to the end, and wait until it is on the disk."""
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)


def write_all(path: Path, data: bytes) -> None:
    """A file of `data`, on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        append(descriptor, data)
    finally:
        os.close(descriptor)


def rows_of(path: Path, descriptor: int, *, heal: bool = True) -> list[Document]:
    """The whole lines; what a kill left of one more is cut off, or with `heal` False passed over."""
    data = read_bytes(path, most_bytes=MOST_OF_A_LIST)
    *lines, torn = data.split(b"\n")
    if not lines:
        raise damaged(path, 1, "is not whole")
    rows = [_row(path, number, line) for number, line in enumerate(lines, start=1)]
    if torn and heal:
        os.ftruncate(descriptor, len(data) - len(torn))
        os.fsync(descriptor)
    return rows


def _row(path: Path, number: int, line: bytes) -> Document:
    try:
        row = json.loads(line)
        checksum = row.pop("crc32")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise damaged(path, number, "is no line of a journal") from None
    if checksum != _checksum(row):
        raise damaged(path, number, "is not as it was written")
    return dict(row)


def damaged(path: Path, number: int, fault: str) -> InputError:
    """The error of a line that cannot be trusted."""
    return InputError(
        f"{path}: line {number}: {fault}.",
        hint="Restore the file, or begin anew: `planner plan SCENARIO --out DIR --force`.",
    )
