"""The column of times while it is read, the clock that it shows, and the stretch of time that is wanted of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.files.tables.traces.clocks import EPOCH, Times, epoch_unit, likely_unit, read_clock, require_span
from planner.files.tables.traces.options import Moment, TraceOptions
from planner.files.tables.traces.row_reader import RequestBlock
from planner.units import MEGA

_EARLIEST_EPOCH_S = 1.0e9

TimeFilter = Callable[[NDArray[np.float64]], NDArray[np.bool_]]


def times_with(times: Times, block: RequestBlock) -> Times:
    """The times so far with those of another block, which may be in any order."""
    if not len(block.times):
        return times
    first, last = int(block.times.argmin()), int(block.times.argmax())
    earliest, latest = (times.least, times.least_row), (times.greatest, times.greatest_row)
    if not times.count or block.times[first] < times.least:
        earliest = float(block.times[first]), int(block.rows[first])
    if not times.count or block.times[last] > times.greatest:
        latest = float(block.times[last]), int(block.rows[last])
    return replace(
        times,
        count=times.count + len(block.times),
        least=earliest[0],
        least_row=earliest[1],
        greatest=latest[0],
        greatest_row=latest[1],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Numbers in a second, how that was found, and the first arrival in UTC (empty where the clock does not tell)."""

    per_second: float
    words: str
    is_date: bool

    def began(self, time: float) -> str:
        """A time as a date, to the second."""
        return f"{EPOCH + timedelta(seconds=time / self.per_second):%Y-%m-%d %H:%M:%S}" if self.is_date else ""


def clock_of(times: Times, options: TraceOptions, *, numbers: bool) -> Clock:
    """The clock of a whole column. Raises InputError where it cannot be told, or the trace would be implausible."""
    if numbers:
        unit, words = read_clock(times, options.time_unit)
        return Clock(
            per_second=unit.per_second, words=words, is_date=times.least / unit.per_second >= _EARLIEST_EPOCH_S
        )
    if options.time_unit is not None:
        raise InputError(
            f"{times.path}: column {times.column} must hold numbers where their unit is stated; it has ISO 8601.",
            hint="Leave the time unit out.",
        )
    require_span(times, (times.greatest - times.least) / MEGA)
    return Clock(per_second=MEGA, words="", is_date=True)


def likely_clock(times: Times, options: TraceOptions, *, numbers: bool) -> Clock:
    """The clock that the first times let expect; `clock_of` has the last word."""
    if not numbers:
        return Clock(per_second=MEGA, words="", is_date=True)
    unit = options.time_unit or likely_unit(times)
    return Clock(per_second=unit.per_second, words="", is_date=epoch_unit(times) is not None)


def wanted_times(origin: Path | str, options: TraceOptions, clock: Clock, earliest: float, latest: float) -> TimeFilter:
    """Which times are in the stretch that `options` want; `earliest` and `latest` of all. Raises InputError where dates
    are asked of a clock that has none."""
    low, high = -np.inf, np.inf
    if options.first is not None:
        low = _time(origin, "from", options.first, clock, earliest)
    if options.end is not None:
        high = _time(origin, "to", options.end, clock, earliest)
    if options.last_s is not None:
        low = latest - options.last_s * clock.per_second
    if high <= low:
        raise InputError(f"{origin}: to must be later than from.", hint="Give a stretch of time that is not empty.")
    return lambda times: (times >= low) & (times < high)


def _time(origin: Path | str, key: str, moment: Moment, clock: Clock, earliest: float) -> float:
    if not moment.is_date:
        return earliest + moment.seconds * clock.per_second
    if not clock.is_date:
        raise InputError(
            f"{origin}: {key} must be a duration since the first arrival where the clock tells no date, got a date.",
            hint=f"For example {key}: 2h.",
        )
    return moment.seconds * clock.per_second


def require_stretch(times: Times, clock: Clock, requests: int) -> None:
    """InputError where no request is in the stretch of time."""
    if requests:
        return
    span = (times.greatest - times.least) / clock.per_second
    began = f", beginning {clock.began(times.least)} UTC" if clock.is_date else ""
    raise InputError(
        f"{times.path}: the stretch of time must hold at least one request of the trace, which has {span:,.0f} s"
        f"{began}.",
        hint="Give another from, to or last.",
    )
