"""Tables kept as a file an hour (day=109/hour=03/part-000.csv), or as one file: where their parts are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.opening import is_folder, is_there

SUFFIXES = (".csv", ".csv.gz")
MOST_PARTS = 100_000
_PART = re.compile(r"day=(\d{1,6})/hour=(\d{1,2})/[^/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """A file of a table and the hour that it is of; None: its rows say so, or it has no hours."""

    path: Path
    day: int | None = None
    hour: int | None = None


def table_parts(folder: Path, names: Sequence[str]) -> tuple[TablePart, ...]:
    """The parts of the first of these tables that the folder has, by day and hour; none where it has none of them.

    InputError: no such folder, Parquet alone, more files than `MOST_PARTS`.
    """
    if not is_folder(folder):
        raise InputError(f"{folder}: there is no such folder.", hint="Give the folder that holds the trace's tables.")
    for name in names:
        for suffix in SUFFIXES:
            if is_there(folder / f"{name}{suffix}"):
                return (TablePart(path=folder / f"{name}{suffix}"),)
        if is_folder(folder / name):
            return _hours(folder / name)
    return ()


def _hours(folder: Path) -> tuple[TablePart, ...]:
    parts: list[TablePart] = []
    parquet = 0
    for path in folder.glob("**/*"):
        parquet += path.suffix == ".parquet"
        if not path.name.endswith(SUFFIXES):
            continue
        match = _PART.fullmatch(path.relative_to(folder).as_posix())
        parts.append(TablePart(path=path, day=int(match[1]), hour=int(match[2])) if match else TablePart(path=path))
        if len(parts) > MOST_PARTS:
            raise InputError(f"{folder}: must hold at most {MOST_PARTS:,} files.", hint="Take fewer days.")
    if parquet and not parts:
        raise InputError(
            f"{folder}: must hold CSV files, got {parquet:,} Parquet files alone.",
            hint="Convert them, as DuckDB does: COPY (SELECT * FROM 'x.parquet') TO 'x.csv'.",
        )
    return tuple(sorted(parts, key=lambda part: (part.day or 0, part.hour or 0, part.path.as_posix())))
