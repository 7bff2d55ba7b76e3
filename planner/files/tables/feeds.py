"""Feeds of prices, inventory, load and lost GPUs: tables with times, and files of the current state.

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

    load_rps: 120
    prices_usd_per_gpu_hour: {H200: 3.1, H20: 0.9}
    inventory: {H200: 64, H20: 128}
    lost: {H20: 8}
    lost_nodes: [node-3]

What it does not name stays as it was; but where `lost` or `lost_nodes` stands, all others of that kind serve.

Whoever writes a feed need not know that it is read: a file that changes while it is read, is not there for a moment or
ends in the middle of a line is tried again, and only then refused.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from planner.domain.watching import Feed, FeedKind, FeedValue, Refusal
from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_cells, listed
from planner.files.disk.names import same_names
from planner.files.disk.opening import opened, read_text
from planner.files.disk.strict_yaml import parse_yaml
from planner.files.sections import Section
from planner.files.tables.traces.clocks import iso_microseconds

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
        shown = listed(header) if header else "no header"
        raise InputError(f"{path}: must have the columns of one feed, got {shown}.", hint=_HINT)
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
        bound = "above" if columns.kind is FeedKind.PRICE else "of at least"
        if not 0 <= value <= MOST_VALUE or (columns.kind is FeedKind.PRICE and not value):
            raise row.fault(columns.value, f"must be a number {bound} 0, at most {MOST_VALUE:g}", "")
    name = row.name(columns.name) if columns.name else ""
    where = f"{row.path}: row {row.place}"
    return FeedValue(kind=columns.kind, name=type_of(name, gpus), value=value, where=where, at_s=at_s)


def type_of(name: str, gpus: Collection[str]) -> str:
    """The type that a name stands for, as scenarios read them; the name where it is none."""
    return next(iter(same_names(name, gpus)), name) if name else ""


_MAPPINGS = (
    ("prices_usd_per_gpu_hour", FeedKind.PRICE),
    ("inventory", FeedKind.INVENTORY),
    ("lost", FeedKind.LOST),
)
_KEYS = ("load_rps", *(key for key, _ in _MAPPINGS), "lost_nodes")


def read_state(path: Path, gpus: Collection[str], *, live: bool = False) -> Feed:
    """The values of a state; `live`: it must end with a line break, as a number that is cut short is another number.
    Raises InputError where it is no mapping of these keys."""
    text = read_text(path)
    if live and not text.endswith("\n"):
        raise InputError(f"{path}: must end with a line break, it may be half-written.", hint="End its last line.")
    document = parse_yaml(text, file=str(path))
    document.allow_only(*_KEYS)
    if not len(document):
        raise InputError(f"{path}: must name a state, it is empty.", hint=f"Give one of {', '.join(_KEYS)}.")
    values, refused = list[FeedValue](), list[Refusal]()
    for read in _readings(document, gpus):
        try:
            values.append(read())
        except InputError as error:
            refused.append(Refusal(text=f"{error.message} The value before stands."))
    return Feed(file=path.name, values=tuple(values), refused=tuple(refused))


class _Reading:
    """A value that is still to be read: each may be refused by itself."""

    def __init__(self, section: Section, key: str, kind: FeedKind, name: str) -> None:
        self.section, self.key, self.kind, self.name = section, key, kind, name

    def __call__(self) -> FeedValue:
        if self.kind in (FeedKind.INVENTORY, FeedKind.LOST):
            value = float(self.section.integer(self.key, low=0, high=MOST_GPUS))
        elif self.kind is FeedKind.PRICE:
            value = self.section.number(self.key, above=0, high=MOST_VALUE)
        else:
            value = self.section.number(self.key, low=0, high=MOST_VALUE)
        where = f"{self.section.file}: {self.section.key_path(self.key)}"
        return FeedValue(kind=self.kind, name=self.name, value=value, where=where)


def _readings(document: Section, gpus: Collection[str]) -> Iterator[Callable[[], FeedValue]]:
    """One a value; what the document says by naming something needs no reading."""
    if "load_rps" in document:
        yield _Reading(document, "load_rps", FeedKind.LOAD, "")
    for key, kind in _MAPPINGS:
        section = document.section(key, optional=True)
        if key in document and kind is FeedKind.LOST:
            yield partial(FeedValue, kind=kind, name="", value=0.0, where=f"{document.file}: {key}")
        for gpu in section:
            yield _Reading(section, gpu, kind, type_of(gpu, gpus))
    if "lost_nodes" in document:
        lost = partial(FeedValue, kind=FeedKind.LOST_NODE, where=f"{document.file}: lost_nodes")
        yield partial(lost, name="", value=0.0)
        for node in document.entries("lost_nodes"):
            yield partial(lost, name=str(node), value=1.0)


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
