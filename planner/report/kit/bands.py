"""Figures with a band: as many digits as the band allows.

| symbol | meaning                                                                                 |
|--------|-----------------------------------------------------------------------------------------|
| half   | half the width of the band                                                              |
| unit   | power of ten that figures are rounded to: the largest that is at most half / 2, but two |
|        | digits of the figure at least and four at most                                          |
"""

import math
from dataclasses import dataclass

from planner.domain import Band, Plan, RateBand
from planner.report.kit.quantities import NONE

_FEWEST_DIGITS, _MOST_DIGITS = 2, 4
LEFT_OUT = "P10–P90 of left-out measurements"
"""What a band of a plan's rate is, in a few words."""


@dataclass(frozen=True, slots=True)
class Banded:
    """A positive figure and its P10 and P90, in one unit."""

    value: float
    low: float
    high: float

    def rounded(self, value: float) -> str:
        """A figure of this kind, to the digits that the band allows: 570."""
        exponent = self._exponent()
        return f"{round(value, -exponent):,.{max(0, -exponent)}f}"

    @property
    def figure(self) -> str:
        """The figure itself: 570."""
        return self.rounded(self.value)

    @property
    def range(self) -> str:
        """P10 and P90: 430–690."""
        return f"{self.rounded(self.low)}–{self.rounded(self.high)}"

    def __str__(self) -> str:
        return f"{self.figure} ({self.range})"

    def figure_like(self, other: float) -> str:
        """Another figure, which is proportional to this one and as firm."""
        factor = other / self.value
        return Banded(other, self.low * factor, self.high * factor).figure

    def dividing(self, amount: float) -> "Banded":
        """What `amount` comes to for one of this: the more of it, the less."""
        return Banded(amount / self.value, amount / self.high, amount / self.low)

    def _exponent(self) -> int:
        first = math.floor(math.log10(self.value))
        quarter = (self.high - self.low) / 4
        allowed = math.floor(math.log10(quarter)) if quarter > 0 else first - _MOST_DIGITS
        return max(first + 1 - _MOST_DIGITS, min(first + 1 - _FEWEST_DIGITS, allowed))


def banded_by(value: float, band: Band) -> Banded:
    """An estimate with the band of measured over predicted figures."""
    return Banded(value, value * band.low, value * band.high)


def banded_rate(plan: Plan) -> Banded | None:
    """The plan's rate (requests/s) with its band; None where it has none, or serves nothing."""
    return rate_with(plan.throughput_rps, plan.rate_band)


def rate_with(rate_rps: float, band: RateBand | None) -> Banded | None:
    """A rate with its band; None where it has none, or is 0."""
    if band is None or rate_rps <= 0 or band.low_rps <= 0:
        return None
    return Banded(rate_rps, band.low_rps, band.high_rps)


def beside(banded: Banded) -> bool:
    """Whether the estimate lies outside its own band: most measurements of its kind were off to one side."""
    return not banded.low <= banded.value <= banded.high


def band_in_percent(band: Band | None) -> str:
    """A band as 72–140 % of the estimate."""
    return NONE if band is None else f"{100 * band.low:.0f}–{100 * band.high:.0f} %"
