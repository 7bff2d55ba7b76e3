"""What the times of a trace count: ISO 8601 tells itself, a unit is stated, named by the column, or told by size.

| size of a time | taken for | as an epoch from 2001 to 2050 |
|---|---|---|
| 1.0e9 to 2.5e9 | s | 1 700 000 000 = 2023-11-14 |
| 1.0e12 to 2.5e12 | ms | |
| 1.0e15 to 2.5e15 | us | |
| 1.0e18 to 2.5e18 | ns | |
| below 1.0e9 | s | not an epoch: counted from a start of the trace's own, which may be in any unit |

What was not stated must be plausible, or the unit is asked for: read as seconds, the milliseconds of a trace give a
rate a thousand times too small.

| as logs write it | read as |
|---|---|
| 2023-11-16T18:17:03.98+01:00, 2023-11-16 18:17:03.98Z, ...+00 | with its zone |
| 2023-11-16 18:17:03.98 | UTC |
| 2023-11-16 18:17:03,98 | a decimal comma |
| 2023-11-16 18:17:03 UTC | UTC, as BigQuery writes it |
| 2023/11/16 18:17:03 | year, month, day |
| 11/16/2023 18:17 | refused: which is the month? |
| 1700000000,5 | 1 700 000 000.5 where commas do not separate columns |
| 12,345 | refused there: 12.345 or 12 345? |
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.csv_rows import number_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAST_RPS, MOST_RPS = 0.01, 10_000.0
"""Mean rates that are believed unasked. Of public traces RAGPulse's week has 0.012 requests/s, the least; Mooncake's
hour in milliseconds, read as seconds, 0.0034. The most is what the largest services have, all fleets together."""

LONGEST_S = 10 * 365.25 * 86_400.0
"""No trace spans ten years: one of its times is wrong."""

_STATE = (
    "`planner workload summarize trace.csv --time-unit ms --out trace.yaml` (or s, us, ns) writes a workload that "
    "every command takes; in a scenario `workload: {kind: trace, file: trace.csv, time_unit: ms}`"
)
_EARLIEST_EPOCH_S, _LATEST_EPOCH_S = 1.0e9, 2.5e9


class TimeUnit(StrEnum):
    """What a number in the column of times counts."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"

    @property
    def per_second(self) -> float:
        """How many there are in a second."""
        return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[self.value]


_UNIT_NAME = re.compile(
    r"(?:^|[^a-z])(?:(?P<s>s|secs?|seconds?)|(?P<ms>ms|msecs?|millis|milliseconds?)|(?P<us>us|µs|usecs?|micros|"
    r"microseconds?)|(?P<ns>ns|nsecs?|nanos|nanoseconds?))\)?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A column of times as numbers: how many, the first and the last of them and the data rows they stand in."""

    path: Path | str
    column: str
    count: int = 0
    least: float = 0.0
    greatest: float = 0.0
    least_row: int = 0
    greatest_row: int = 0


def named_unit(column: str) -> TimeUnit | None:
    """The unit that a column's name ends in (`arrival_s`, `timestamp (ms)`, `seconds`); None where it tells none."""
    match = _UNIT_NAME.search(_worded(column))
    return TimeUnit(match.lastgroup) if match and match.lastgroup else None


def column_stem(column: str) -> str:
    """The column's name without its unit: `timestamp` of `timestamp_ms`."""
    return _UNIT_NAME.sub("", _worded(column))


def _worded(column: str) -> str:
    """Small letters, `arrivalMs` as two words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column.strip()).lower()


def read_clock(times: Times, stated: TimeUnit | None) -> tuple[TimeUnit, str]:
    """The unit of numbers, and how it was found, in words for the user.

    Raises InputError where the unit cannot be told, or the trace would be implausible with it.
    """
    by_size = epoch_unit(times)
    by_name = named_unit(times.column)
    unit = stated or by_size or by_name or TimeUnit.SECONDS
    if stated is None and (by_size or unit) is not (by_name or unit):
        raise _unknown(times, f"its name tells {by_name}, the size of its numbers an epoch in {by_size}")
    if stated is None and by_size is None and times.least >= _EARLIEST_EPOCH_S:
        ends = f"{times.least:.15g} (row {times.least_row}) to {times.greatest:.15g} (row {times.greatest_row})"
        raise _unknown(times, f"{ends} are epochs in none of {', '.join(TimeUnit)}")
    span_s = (times.greatest - times.least) / unit.per_second
    require_span(times, span_s)
    if stated is None:
        _require_plausible(times, unit, span_s)
    return unit, _origin_of_unit(times, unit, stated=stated, by_size=by_size, by_name=by_name)


def epoch_unit(times: Times) -> TimeUnit | None:
    """The unit in which all times are dates from 2001 to 2050; None where there is none."""
    for unit in TimeUnit:
        low, high = _EARLIEST_EPOCH_S * unit.per_second, _LATEST_EPOCH_S * unit.per_second
        if low <= times.least and times.greatest < high:
            return unit
    return None


def likely_unit(times: Times) -> TimeUnit:
    """The unit that these times would have were they all; `read_clock` refuses what is implausible so."""
    return epoch_unit(times) or named_unit(times.column) or TimeUnit.SECONDS


def require_span(times: Times, span_s: float) -> None:
    """InputError where the times are too far apart to be of one trace."""
    if span_s > LONGEST_S:
        raise InputError(
            f"{times.path}: column {times.column} must span at most 10 years; row {times.least_row} and row "
            f"{times.greatest_row} are {span_s / 31_557_600:,.0f} years apart.",
            hint=f"Mend or drop the row that is wrong, or state the unit of the times: {_STATE}.",
        )


def _require_plausible(times: Times, unit: TimeUnit, span_s: float) -> None:
    rate = (times.count - 1) / span_s if span_s > 0 else LEAST_RPS
    if not LEAST_RPS <= rate <= MOST_RPS:
        raise _unknown(times, f"in {unit} it would be {times.count} requests in {span_s:,.6g} s, {rate:.2g} a second")


def _unknown(times: Times, why: str) -> InputError:
    return InputError(
        f"{times.path}: column {times.column} must tell the unit of its times; {why}.",
        hint=f"State the unit: {_STATE}.",
    )


def _origin_of_unit(
    times: Times, unit: TimeUnit, *, stated: TimeUnit | None, by_size: TimeUnit | None, by_name: TimeUnit | None
) -> str:
    name = unit.name.lower()
    if stated is not None:
        return f"{name}, as stated"
    if by_size is not None:
        first = EPOCH + timedelta(seconds=times.least / unit.per_second)
        return f"epoch in {name}, by the size of the numbers: the first is {first:%Y-%m-%d %H:%M} UTC"
    if by_name is not None:
        return f"{name}, as column {times.column} is named"
    return f"{name} since a start, assumed: column {times.column} does not tell its unit"


ISO_HINT = "Give ISO 8601 (2023-11-16 18:17:03.98) or numbers of one unit, the same in every row."
_SLASHES = re.compile(r"^(\d{4})/(\d\d)/(\d\d)(?=[ T])")
_COMMA = re.compile(r"^-?\d+,\d+$")
_THOUSANDS = re.compile(r"^-?[1-9]\d{0,2},\d{3}$")


def time_number(cell: str) -> float:
    """The number of a cell, a decimal comma allowed where it is nothing else; NaN where it is none."""
    if _COMMA.match(cell) and not _THOUSANDS.match(cell):
        return number_of(cell.replace(",", "."))
    return number_of(cell)


def iso_microseconds(cell: str) -> float:
    """Microseconds since 1970 of an ISO time; NaN where it is none."""
    try:
        time = datetime.fromisoformat(cell)
    except ValueError:
        return _unusual_microseconds(cell)
    return _microseconds(time)


def iso_text(at_s: float) -> str:
    """Seconds since 1970 as a date, to the second, in UTC."""
    return (EPOCH + timedelta(seconds=at_s)).isoformat(timespec="seconds").replace("+00:00", "Z")


def _unusual_microseconds(cell: str) -> float:
    text = _SLASHES.sub(r"\1-\2-\3", cell.strip())
    if text.endswith((" UTC", " GMT")):
        text = f"{text[:-4]}+00:00"
    try:
        return _microseconds(datetime.fromisoformat(text))
    except ValueError:
        return math.nan


def _microseconds(time: datetime) -> float:
    try:
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        # whole microseconds, which a float holds exactly up to the year 2255
        return float((aware - EPOCH) // timedelta(microseconds=1))
    except OverflowError:
        return math.nan


def numbers_of(cells: Sequence[str]) -> list[float] | None:
    """The numbers of all cells; None where one is none."""
    try:
        return None if "_" in "".join(cells) else list(map(float, cells))
    except ValueError:
        return None


def times_of(cells: Sequence[str], *, numbers: bool) -> list[float] | None:
    """The times of all cells, none of them with a decimal comma; None where one is none."""
    times = numbers_of(cells) if numbers else list(map(iso_microseconds, cells))
    return times if times is not None and all(map(math.isfinite, times)) else None
