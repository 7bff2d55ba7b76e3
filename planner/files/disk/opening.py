"""The one door to files that others wrote: regular files alone, packed or not, read up to a size or line by line.

| first bytes | packing |
|---|---|
| 1f 8b | gzip (also told by the name .gz) |
| 42 5a 68 | bzip2 |
| fd 37 7a 58 5a | xz |
| 50 4b 03 04 | zip with one file in it; a spreadsheet is refused by name |
| 28 b5 2f fd | zstd, where Python has it (3.14) |
| 50 41 52 31 | Parquet, which needs a library that the planner does not ask for: refused with what to do |

A FIFO would wait for a writer, a device never ends, a socket cannot be read: none of them is even opened.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from planner.domain import InputHash
from planner.errors import InputError
from planner.files.disk.budget import MEANT, Blanks, Growth, with_few_empty

if sys.version_info >= (3, 14):
    from compression import zstd

BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""What unpacking raises of a file that was cut off or altered."""

_GZIP, _BZIP2, _XZ, _ZIP, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"
_PARQUET = b"PAR1"


def packing_of(path: Path, stream: io.BufferedReader) -> str:
    """gzip, bzip2, xz, zip or zstd; empty of a plain file. Raises InputError of Parquet."""
    head = stream.peek(6)[:6]
    if head.startswith(_PARQUET):
        raise InputError(
            f"{path}: must be text, is Parquet, which takes a library that the planner does without.",
            hint="Save it as CSV: `pandas.read_parquet(FILE).to_csv('trace.csv', index=False)`; in Python hand the "
            "data frame to planner.workload(...).",
        )
    if path.suffix.lower() == ".gz" or head.startswith(_GZIP):
        return "gzip"
    words = {_BZIP2: "bzip2", _XZ: "xz", _ZIP: "zip", _ZSTD: "zstd"}
    return next((word for magic, word in words.items() if head.startswith(magic)), "")


def unpacked(path: Path, stream: io.BufferedReader, packing: str) -> IO[bytes]:
    """The bytes of the text. Raises InputError for an archive of several files, a spreadsheet, and zstd before Python
    3.14; `BROKEN` where the file is not whole."""
    if packing == "gzip":
        return io.BufferedReader(gzip.GzipFile(fileobj=stream))
    if packing == "bzip2":
        return io.BufferedReader(bz2.BZ2File(stream))
    if packing == "xz":
        return io.BufferedReader(lzma.LZMAFile(stream))
    if packing == "zip":
        return _zipped(path, stream)
    return _zstd(path, stream) if packing == "zstd" else stream


def _zipped(path: Path, stream: io.BufferedReader) -> IO[bytes]:
    archive = zipfile.ZipFile(stream)
    names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    if "[Content_Types].xml" in names:
        raise InputError(f"{path}: must be text, is a spreadsheet.", hint="Save the sheet as CSV.")
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if len(names) != 1:
        raise InputError(
            f"{path}: must hold one file, holds {len(names)}: {', '.join(names[:5])}.", hint="Unpack the right one."
        )
    try:
        return archive.open(names[0])
    except (RuntimeError, NotImplementedError) as error:  # a password, a method that Python lacks
        raise InputError(f"{path}: cannot be unpacked: {error}.", hint="Unpack it first.") from None


def _zstd(path: Path, stream: io.BufferedReader) -> IO[bytes]:
    if sys.version_info >= (3, 14):
        return zstd.ZstdFile(stream)
    raise InputError(
        f"{path}: is packed by zstd, which Python unpacks from 3.14 on.", hint=f"Unpack it first: `zstd -d {path}`."
    )


MIB = 2**20
MOST_OF_A_DOCUMENT = 32 * MIB
"""Scenarios, models, workloads, prices: the largest of sense, a workload of a million lengths, has some 20 MiB."""

MOST_OF_A_LIST = 512 * MIB
"""Clusters, lists from kubectl, plans, journals and tables: a hundred thousand pods have some 300 MiB."""

MOST_OF_A_LINE = MIB
_PIECE = 65_536
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; False also for a name that no system takes, which `Path.is_dir` raises for."""
    return os.path.isdir(path)  # noqa: PTH112


def is_there(path: Path) -> bool:
    """Whether there is anything of that name, a link that leads nowhere among it; False as for `is_folder`."""
    return os.path.lexists(path)


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """The file for reading, links followed. InputError where there is none, it is no regular file or not readable."""
    try:
        require_regular(path)
        # without waiting, should a pipe have taken its place meanwhile
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            _require_regular(path, os.fstat(stream.fileno()).st_mode)
            yield stream
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file.", hint="Check the path; it is relative to the referring file."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from None


def require_regular(path: Path) -> None:
    """InputError where there is something else than a regular file; OSError where there is nothing."""
    _require_regular(path, path.stat().st_mode)


def _require_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise _unreadable(path, next((f"it is {name}" for is_kind, name in _KINDS if is_kind(mode)), "it is no file"))


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(f"{path}: cannot be read: {reason}.", hint="Give a readable file, not a folder or a device.")


def read_bytes(path: Path, *, most_bytes: int = MOST_OF_A_DOCUMENT) -> bytes:
    """The file's bytes. InputError where `opened` raises it, or there are more than `most_bytes`."""
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(most_bytes + 1) if size <= most_bytes else b""
    if size > most_bytes or len(data) > most_bytes:
        shown = f"has {size / MIB:,.0f}" if size > most_bytes else "has more"
        raise InputError(
            f"{path}: must have at most {most_bytes // MIB} MiB, {shown}.",
            hint=MEANT,
        )
    return data


def read_text(path: Path, *, most_bytes: int = MOST_OF_A_DOCUMENT) -> str:
    """The file as UTF-8 text, a byte-order mark dropped; InputError names the first other byte."""
    data = read_bytes(path, most_bytes=most_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text(path, data.count(b"\n", 0, error.start) + 1, data[error.start]) from None


def _no_text(path: Path, line: int, byte: int) -> InputError:
    return InputError(
        f"{path}: must be UTF-8 text; line {line} has the byte 0x{byte:02x}.", hint="Save the file in UTF-8."
    )


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a file of any length, their ends kept, a byte-order mark dropped; one line is held at a time. A
    packed file is unpacked (see `unpacking`).

    Raises InputError as `read_text` does, for a line of more than 1 MiB, for far more empty lines than others, and for
    what cannot be unpacked or grows beyond measure.
    """
    lines = with_few_empty(_texts(path, lambda text: text.readline(MOST_OF_A_LINE + 1)), path)
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_OF_A_LINE:
            raise InputError(
                f"{path}: line {number} must have at most {MOST_OF_A_LINE // MIB} MiB, has more.",
                hint="Give a text file with one row a line.",
            )
        yield line


def text_pieces(path: Path) -> Iterator[str]:
    """The text of a file of any length in pieces of 64 KiB, wherever its lines end; raises as `text_lines` does."""
    blanks = Blanks(path)
    for piece in _texts(path, lambda text: text.read(_PIECE)):
        blanks.look(piece)
        yield piece


def _texts(path: Path, read: Callable[[io.TextIOWrapper], str]) -> Iterator[str]:
    with opened(path) as packed:
        packing, number, fresh = packing_of(path, packed), 0, 0
        growth = Growth(path)
        try:
            text = io.TextIOWrapper(unpacked(path, packed, packing), encoding="utf-8-sig", newline="")
            while part := read(text):
                yield part
                number += part.count("\n")
                fresh += len(part)
                if packing and fresh > _PIECE:
                    growth.take(fresh, packed.tell())
                    fresh = 0
        except UnicodeDecodeError:
            raise _first_bad_line(path) from None
        except BROKEN as error:
            raise InputError(
                f"{path}: must be a whole {packing} file; behind line {number}: {error}.",
                hint="Fetch or pack it again.",
            ) from None


def read_unpacked(path: Path, *, most_bytes: int) -> bytes:
    """The bytes of a file, unpacked where it is packed. InputError where `opened` raises it, there are more than
    `most_bytes`, it grows beyond measure, or it is not whole."""
    pieces = []
    with opened(path) as packed:
        packing, growth = packing_of(path, packed), Growth(path, most_bytes)
        try:
            stream = unpacked(path, packed, packing)
            while piece := stream.read(_PIECE):
                pieces.append(piece)
                growth.take(len(piece), packed.tell())
        except BROKEN as error:
            raise InputError(
                f"{path}: must be a whole {packing} file: {error}.", hint="Fetch or pack it again."
            ) from None
    return b"".join(pieces)


def _first_bad_line(path: Path) -> InputError:
    """Where the text ends: decoding runs ahead of the lines, so they are looked through once more."""
    with opened(path) as packed:
        stream = unpacked(path, packed, packing_of(path, packed))
        for number, line in enumerate(iter(lambda: stream.readline(MOST_OF_A_LINE), b""), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return _no_text(path, number, line[error.start])
    return InputError(f"{path}: must be UTF-8 text.", hint="Save the file in UTF-8.")


def input_hash(path: Path) -> InputHash:
    """The file's name (without folder) and SHA-256."""
    with opened(path) as stream:
        return InputHash(name=path.name, sha256=hashlib.file_digest(stream, "sha256").hexdigest())
