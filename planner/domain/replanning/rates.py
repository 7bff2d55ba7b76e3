"""Rates over a day or a week: windows of equal length with a rate each."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from planner.errors import InputError

DAY_S = 86_400.0
_SAME_START = 1e-3
"""Of a window: starts that are no further apart are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateWindow:
    """Requests/s from `start_s` on (seconds from the first window). `burstiness`: coefficient of variation of the gaps
    between requests (None: not said)."""

    start_s: float
    rate_rps: float
    burstiness: float | None = None


@dataclass(frozen=True, kw_only=True)
class RateSeries:
    """Windows of `window_s` seconds without gaps, in order; the first begins at `begins_s` of its day.

    Raises InputError where there are none, one does not follow the one before it, or a rate is no number of at least 0.
    """

    name: str
    window_s: float
    windows: tuple[RateWindow, ...]
    begins_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.windows or not 0 < self.window_s < math.inf:
            raise InputError(
                f"rates {self.name}: must have windows of more than 0 seconds, got {len(self.windows)} of "
                f"{self.window_s:g} s.",
                hint="Give a rate for each window of a day.",
            )
        for number, window in enumerate(self.windows):
            if not abs(window.start_s - number * self.window_s) <= _SAME_START * self.window_s:
                raise InputError(
                    f"rates {self.name}: window {number} must begin at {number * self.window_s:g} s, where the one "
                    f"before it ends, got {window.start_s:g} s.",
                    hint="Give every window its rate, in order; 0 where there are no requests.",
                )
            if not 0 <= window.rate_rps < math.inf:
                raise InputError(
                    f"rates {self.name}: window {number}: the rate must be a number of at least 0, got "
                    f"{window.rate_rps:g}.",
                    hint="Leave out what was not measured, and let load_rates fill the gaps.",
                )

    @property
    def rates_rps(self) -> tuple[float, ...]:
        """Of every window."""
        return tuple(window.rate_rps for window in self.windows)

    @cached_property
    def days(self) -> tuple[int, ...]:
        """The day of every window, from 0."""
        return tuple(int((self.begins_s + window.start_s) // DAY_S) for window in self.windows)

    @property
    def peak_rps(self) -> float:
        """The highest rate."""
        return max(self.rates_rps)

    @property
    def mean_rps(self) -> float:
        """The mean over all windows."""
        return sum(self.rates_rps) / len(self.windows)

    def part(self, first: int, after: int) -> "RateSeries":
        """The windows from `first` to `after` - 1."""
        chosen = self.windows[first:after]
        shifted = tuple(replace(window, start_s=window.start_s - chosen[0].start_s) for window in chosen)
        begins_s = (self.begins_s + chosen[0].start_s) % DAY_S
        return RateSeries(name=self.name, window_s=self.window_s, windows=shifted, begins_s=begins_s)


class GapRule(StrEnum):
    """What becomes of windows that a file of rates does not have. `refuse`: the file is refused. `interpolate`: rates
    on the line between the windows beside the gap. `previous`: the rate before the gap goes on."""

    REFUSE = "refuse"
    INTERPOLATE = "interpolate"
    PREVIOUS = "previous"
