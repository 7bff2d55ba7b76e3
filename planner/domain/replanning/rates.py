"""Rates over a day or a week: windows of equal length with a rate each."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateWindow:
    """Requests/s from `start_s` on (seconds from the first window). `burstiness`: coefficient of variation of the gaps
    between requests (None: not said)."""

    start_s: float
    rate_rps: float
    burstiness: float | None = None


@dataclass(frozen=True, kw_only=True)
class RateSeries:
    """Windows of `window_s` seconds without gaps, in order; the first begins at `begins_s` of its day."""

    name: str
    window_s: float
    windows: tuple[RateWindow, ...]
    begins_s: float = 0.0

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
