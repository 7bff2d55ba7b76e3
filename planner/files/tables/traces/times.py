"""Cells of a column of times: numbers, or ISO 8601 as microseconds since 1970.

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
from datetime import UTC, datetime, timedelta

from planner.files.disk.csv_rows import number_of
from planner.files.tables.traces.clocks import EPOCH

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
