"""Reference data that tests compare with, read from this folder; where each file came from stands in SOURCES.md."""

import csv
import lzma
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent


def reference_text(name: str) -> str:
    """The text of a file, by its path in this folder without the ending `.xz` of those that are packed."""
    packed = FOLDER / f"{name}.xz"
    data = lzma.decompress(packed.read_bytes()) if packed.exists() else (FOLDER / name).read_bytes()
    return data.decode("utf-8")


def reference_rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(StringIO(reference_text(name))))


def reference_names(pattern: str) -> list[str]:
    """The names (without the ending `.xz`) of the files that match a pattern as they lie there, sorted."""
    paths = (path for path in FOLDER.glob(pattern) if path.suffix != ".pyc")
    return sorted({path.relative_to(FOLDER).as_posix().removesuffix(".xz") for path in paths})


@cache
def reference_path(name: str) -> Path:
    """A file of that name and content for readers that take a path; unpacked ones go when the tests end."""
    if (FOLDER / name).exists():
        return FOLDER / name
    path = Path(_unpacked().name) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(reference_text(name), encoding="utf-8")
    return path


@cache
def _unpacked() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="reference-data-")
