"""A trace's tables, row by row, an hour at a time; kept as a file an hour, or as one file."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_rows
from planner.files.disk.opening import is_folder, is_there
from planner.studies.asi.records import Hour, Table

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


HOURLY = (Table.PODS, Table.SERVERS, Table.NETWORK)
LONGEST_DAY = 100_000
LARGEST, LONGEST_S = 1e9, 1e10
"""No count, no share and no GiB of one row is larger; nor are the seconds of a list of jobs."""

_SECONDS = ("submit_time", "duration")
_NUMBERS = (
    *("gpu_request", "cpu_request_cores", "used_gpu_hours", "avg_gpu_sm_util", "avg_gpu_mem_gib"),
    *(
        "avg_cpu_request_util",
        "avg_memory_util",
        "gpu_count",
        "cpu_capacity_cores",
        "rx_gibps_avg",
        "tx_gibps_avg",
        "duration_hours",
    ),
    *("duration_hours", "cpu_request", "worker_num", "gpu_capacity_num", *_SECONDS),
)
_ALIASES = {Table.JOBS: ("job_info", "job_info_df"), Table.NODES: ("node_info", "node_info_df")}


@dataclass(frozen=True, slots=True, kw_only=True)
class AsiTrace:
    """The tables of a folder: their parts and their columns."""

    folder: Path
    parts: dict[Table, tuple[TablePart, ...]]
    columns: dict[Table, frozenset[str]]


def open_trace(folder: Path) -> AsiTrace:
    """What a folder holds of the tables of the ASI trace (asi_opensource_NAME or NAME, as CSV), or of the spot trace
    (job_info, node_info). InputError where it holds none of them."""
    parts = {}
    for table in Table:
        names = _ALIASES.get(table, (f"asi_opensource_{table.value}", table.value))
        listed = table_parts(folder, names)
        if listed:
            parts[table] = listed
    if not parts:
        raise InputError(
            f"{folder}: must hold a table of a trace, as pod_hourly, server_hourly, job_execution_summary or job_info.",
            hint="Name them as the published trace does, as CSV.",
        )
    return AsiTrace(folder=folder, parts=parts, columns={table: _columns(parts[table]) for table in parts})


def _columns(parts: Sequence[TablePart]) -> frozenset[str]:
    """Columns of a table's first row; all parts have to have those that are used."""
    with closing(csv_rows(parts[0].path, ())) as rows:  # type: ignore[type-var]  # a generator
        return frozenset(next(rows).cells)


def rows_of(trace: AsiTrace, table: Table) -> Iterator[tuple[Hour, CsvRow]]:
    """Rows of a table with their hours: its partition's, else columns `day` and `hour`; day 0 where there is none.

    InputError: an hour that is none, or hours that do not ascend.
    """
    for part in trace.parts.get(table, ()):
        for row in csv_rows(part.path, ()):
            _require_numbers(row)
            yield _hour(part, row, timed=table in HOURLY), row


def hours_of(trace: AsiTrace, table: Table) -> Iterator[tuple[Hour, Iterator[CsvRow]]]:
    """The rows of each hour of a table, hours ascending."""
    last: Hour | None = None
    for at, rows in groupby(rows_of(trace, table), key=lambda item: item[0]):
        if last is not None and (last.day, last.hour) >= (at.day, at.hour):
            raise InputError(
                f"{trace.folder}: {table.value}: hours must ascend, got day {at.day} hour {at.hour} after "
                f"day {last.day} hour {last.hour}.",
                hint="Sort the table by day and hour.",
            )
        last = at
        yield at, (row for _, row in rows)


def _require_numbers(row: CsvRow) -> None:
    """Cells that should be numbers are, or are empty."""
    for column in _NUMBERS:
        text = row.text(column)
        limit = LONGEST_S if column in _SECONDS else LARGEST
        if text and not 0 <= row.number(column) <= limit:
            raise row.fault(column, f"must be a number from 0 to {limit:g}, or empty")


def _hour(part: TablePart, row: CsvRow, *, timed: bool) -> Hour:
    if part.day is not None and part.hour is not None:
        return Hour(day=part.day, hour=part.hour)
    if not timed:
        return Hour(day=0, hour=0)
    return Hour(day=row.whole("day", high=LONGEST_DAY), hour=row.whole("hour", high=23))
