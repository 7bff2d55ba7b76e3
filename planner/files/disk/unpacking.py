"""Packed files, unpacked a piece at a time; how one is packed is told by its first bytes, whatever its name.

| first bytes | packing |
|---|---|
| 1f 8b | gzip (also told by the name .gz) |
| 42 5a 68 | bzip2 |
| fd 37 7a 58 5a | xz |
| 50 4b 03 04 | zip with one file in it; a spreadsheet is refused by name |
| 28 b5 2f fd | zstd, where Python has it (3.14) |
| 50 41 52 31 | Parquet, which needs a library that the planner does not ask for: refused with what to do |
"""

import bz2
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from pathlib import Path
from typing import IO

from planner.errors import InputError

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
