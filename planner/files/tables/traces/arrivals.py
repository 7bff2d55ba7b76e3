"""The column of times while it is read, the clock that it shows, and the stretch of time that is wanted of it."""

from collections.abc import Callable
from dataclasses import dataclass
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

Wanted = Callable[[NDArray[np.float64]], NDArray[np.bool_]]


@dataclass(slots=True)
class ArrivalColumn:
    """The first and the last time so far, and the rows that they stand in."""

    origin: Path | str
    column: str
    count: int = 0
    least: float = 0.0
    greatest: float = 0.0
    least_row: int = 0
    greatest_row: int = 0

    def take(self, block: RequestBlock) -> None:
        """Look at the times of a block, in any order."""
        if not len(block.times):
            return
        first, last = int(block.times.argmin()), int(block.times.argmax())
        if not self.count or block.times[first] < self.least:
            self.least, self.least_row = float(block.times[first]), int(block.rows[first])
        if not self.count or block.times[last] > self.greatest:
            self.greatest, self.greatest_row = float(block.times[last]), int(block.rows[last])
        self.count += len(block.times)

    @property
    def times(self) -> Times:
        """What the clock is read from."""
        return Times(
            path=self.origin,
            column=self.column,
            count=self.count,
            least=self.least,
            greatest=self.greatest,
            least_row=self.least_row,
            greatest_row=self.greatest_row,
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


def clock_of(column: ArrivalColumn, options: TraceOptions, *, numbers: bool) -> Clock:
    """The clock of a whole column. Raises InputError where it cannot be told, or the trace would be implausible."""
    times = column.times
    if numbers:
        unit, words = read_clock(times, options.time_unit)
        return Clock(
            per_second=unit.per_second, words=words, is_date=times.least / unit.per_second >= _EARLIEST_EPOCH_S
        )
    if options.time_unit is not None:
        raise InputError(
            f"{column.origin}: column {column.column} must hold numbers where their unit is stated; it has ISO 8601.",
            hint="Leave the time unit out.",
        )
    require_span(times, (times.greatest - times.least) / MEGA)
    return Clock(per_second=MEGA, words="", is_date=True)


def likely_clock(column: ArrivalColumn, options: TraceOptions, *, numbers: bool) -> Clock:
    """The clock that the first times let expect; `clock_of` has the last word."""
    if not numbers:
        return Clock(per_second=MEGA, words="", is_date=True)
    unit = options.time_unit or likely_unit(column.times)
    return Clock(per_second=unit.per_second, words="", is_date=epoch_unit(column.times) is not None)


def wanted_times(origin: Path | str, options: TraceOptions, clock: Clock, least: float, greatest: float) -> Wanted:
    """Which times are in the stretch that `options` want; `least` and `greatest` of all. Raises InputError where dates
    are asked of a clock that has none."""
    low, high = -np.inf, np.inf
    if options.first is not None:
        low = _time(origin, "from", options.first, clock, least)
    if options.end is not None:
        high = _time(origin, "to", options.end, clock, least)
    if options.last_s is not None:
        low = greatest - options.last_s * clock.per_second
    if high <= low:
        raise InputError(f"{origin}: to must be later than from.", hint="Give a stretch of time that is not empty.")
    return lambda times: (times >= low) & (times < high)


def _time(origin: Path | str, key: str, moment: Moment, clock: Clock, least: float) -> float:
    if not moment.is_date:
        return least + moment.seconds * clock.per_second
    if not clock.is_date:
        raise InputError(
            f"{origin}: {key} must be a duration since the first arrival where the clock tells no date, got a date.",
            hint=f"For example {key}: 2h.",
        )
    return moment.seconds * clock.per_second


def require_stretch(origin: Path | str, column: ArrivalColumn, clock: Clock, requests: int) -> None:
    """InputError where no request is in the stretch of time."""
    if requests:
        return
    span = (column.greatest - column.least) / clock.per_second
    began = f", beginning {clock.began(column.least)} UTC" if clock.is_date else ""
    raise InputError(
        f"{origin}: the stretch of time must hold at least one request of the trace, which has {span:,.0f} s{began}.",
        hint="Give another from, to or last.",
    )
