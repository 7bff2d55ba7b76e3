"""Feeds with a history: a CSV file with a row a value, in order of time.

    time,gpu,usd_per_hour            time,gpu,count             time,requests_per_s
    2026-11-23T08:00:00Z,H20,1.1     0,H20,128                  0,14.9

| column | names that are understood | holds |
|---|---|---|
| time | time, time_s, timestamp, date, window_start, window_start_s, start, start_s | ISO 8601, or seconds |
| GPU type | gpu | a type of the scenario |
| node | node | a node of the scenario's cluster |
| price | usd_per_hour, usd_per_gpu_hour, price | USD per GPU and hour |
| inventory | count, gpus | GPUs that can be had from then on |
| lost | lost | GPUs of the type, or 1 for the node, that are out of service from then on |
| load | requests_per_s, requests_per_second, rate_rps, rps, qps, rate, load_rps | requests/s |
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.domain.watching import Feed, FeedKind, FeedValue, Refusal
from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_cells, listed
from planner.files.disk.names import same_names
from planner.files.tables.traces.times import iso_microseconds

_TIMES = ("time", "time_s", "timestamp", "date", "window_start", "window_start_s", "start", "start_s")
_LOADS = ("requests_per_s", "requests_per_second", "rate_rps", "rps", "qps", "rate", "load_rps")
_PRICES = ("usd_per_hour", "usd_per_gpu_hour", "price")
_COUNTS = ("count", "gpus")
_HINT = (
    "Give a time (time, ISO 8601 or seconds) with gpu and usd_per_hour, gpu and count, gpu and lost, node and lost, or "
    "requests_per_s."
)
_POOLS = ("pool", "service")
MOST_GPUS = 1_000_000
MOST_VALUE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Which columns a table's values stand in; `name` is empty for the load."""

    kind: FeedKind
    time: str
    value: str
    name: str = ""


def read_table(path: Path, gpus: Collection[str], *, torn: bool = False) -> Feed:
    """The values of a table; `torn`: its last row is being written. Raises InputError where it has no such columns, no
    rows, or times that are dates in some rows and numbers in others."""
    cells = csv_cells(path)
    header = [cell.strip() for cell in next(cells, [])]
    columns = _columns(path, header)
    rows = list(enumerate(cells, start=1))
    if torn and rows:
        rows.pop()
    values, refused, clocks = list[FeedValue](), list[Refusal](), set[bool]()
    for place, row in rows:
        at_s = None
        try:
            read = _row(path, place, header, row)
            at_s, iso = _time(read, columns.time)
            clocks.add(iso)
            values.append(_value(read, columns, gpus, at_s))
        except InputError as error:
            refused.append(Refusal(text=f"{error.message} The value before stands.", at_s=at_s))
    if len(clocks) > 1:
        raise InputError(f"{path}: times must be all dates or all numbers, got both.", hint="Give one kind of time.")
    if not clocks and not torn:
        fault = refused[0].text if refused else "only a header came." if header else "it is empty."
        raise InputError(f"{path}: must have a row with a time: {fault}", hint=_HINT)
    return Feed(file=path.name, values=tuple(values), refused=tuple(refused), iso=True in clocks if clocks else None)


def _columns(path: Path, header: Sequence[str]) -> _Columns:
    if pool := next((name for name in _POOLS if name in header), ""):
        raise InputError(
            f"{path}: must be of one service, got a column {pool}.", hint="Cut the rows of the service that is planned."
        )
    time = _first(_TIMES, header)
    forms = (
        (FeedKind.PRICE, "gpu", _PRICES),
        (FeedKind.INVENTORY, "gpu", _COUNTS),
        (FeedKind.LOST, "gpu", ("lost",)),
        (FeedKind.LOST_NODE, "node", ("lost",)),
        (FeedKind.LOAD, "", _LOADS),
    )
    fits = [
        _Columns(kind=kind, time=time, value=value, name=name)
        for kind, name, names in forms
        if time and (not name or name in header) and (value := _first(names, header))
    ]
    if len(fits) != 1 or len(set(header)) < len(header):
        came = listed(header) if header else "no header"
        raise InputError(f"{path}: must have the columns of one feed, got {came}.", hint=_HINT)
    return fits[0]


def _first(names: Sequence[str], header: Sequence[str]) -> str:
    return next((name for name in names if name in header), "")


def _row(path: Path, place: int, header: Sequence[str], cells: Sequence[str]) -> CsvRow:
    if len(cells) != len(header):
        raise InputError(
            f"{path}: row {place} must have {len(header)} cells like the header, got {len(cells)}.",
            hint="Quote cells that hold commas.",
        )
    return CsvRow(path, place, {name: cell.strip() for name, cell in zip(header, cells, strict=True)})


def _time(row: CsvRow, column: str) -> tuple[float, bool]:
    """Seconds, and whether they are of a date."""
    number = row.number(column)
    if math.isfinite(number):
        return number, False
    microseconds = iso_microseconds(row.text(column))
    if not math.isfinite(microseconds):
        raise row.fault(column, "must be a time, ISO 8601 or seconds", "")
    return microseconds / 1e6, True


def _value(row: CsvRow, columns: _Columns, gpus: Collection[str], at_s: float) -> FeedValue:
    if columns.kind in (FeedKind.INVENTORY, FeedKind.LOST):
        value = float(row.whole(columns.value, high=MOST_GPUS))
    elif columns.kind is FeedKind.LOST_NODE:
        value = float(row.whole(columns.value, high=1))
    else:
        value = row.number(columns.value)
        least = "above" if columns.kind is FeedKind.PRICE else "of at least"
        if not 0 <= value <= MOST_VALUE or (columns.kind is FeedKind.PRICE and not value):
            raise row.fault(columns.value, f"must be a number {least} 0, at most {MOST_VALUE:g}", "")
    name = row.name(columns.name) if columns.name else ""
    where = f"{row.path}: row {row.place}"
    return FeedValue(kind=columns.kind, name=type_of(name, gpus), value=value, where=where, at_s=at_s)


def type_of(name: str, gpus: Collection[str]) -> str:
    """The type that a name stands for, as scenarios read them; the name where it is none."""
    return next(iter(same_names(name, gpus)), name) if name else ""
