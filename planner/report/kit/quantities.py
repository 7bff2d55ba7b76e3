"""Numbers as people read them: few digits, thousands apart, units left to the caller; no more than a band allows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.domain import Band, Plan, RateBand
from planner.errors import InconsistentPlanError

NONE = "–"


def significant(value: float, digits: int = 3) -> str:
    """`value` to so many significant digits, never in exponent form: 348.3, 12,400, 0.0042."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        raise InconsistentPlanError(
            f"Report: a quantity must be a finite number, got {value}.",
            hint="The plan was built from a broken performance table.",
        )
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def rate(value: float) -> str:
    """A request rate (requests/s), four digits."""
    return significant(value, 4)


def whole(value: float) -> str:
    """A count."""
    return f"{round(value):,}"


def shown_number(number: float) -> str:
    """As tables show numbers that nothing else is said of: whole ones whole, others to four digits."""
    if isinstance(number, bool):
        return "yes" if number else "no"
    if isinstance(number, int):
        return f"{number:,}"
    if math.isnan(number):
        return NONE
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    if number.is_integer():
        return f"{number:,.0f}"
    return f"{number:,.0f}" if abs(number) >= 10**_MOST_DIGITS else significant(number, _MOST_DIGITS)


def money(value: float) -> str:
    """USD to the cent; three digits below a dollar."""
    return f"{value:,.2f}" if value >= 1 else significant(value)


def counted(count: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def first_names(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def measured(amount: float, noun: str) -> str:
    """`1 day`, `2.5 days`."""
    return f"{amount:g} {noun}" if amount == 1 else f"{amount:g} {noun}s"


def percent(share: float) -> str:
    """A share of 1 in whole percent; what would round to 0 or 100 shows as below or above."""
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1 - 1e-6:
        return ">99 %"
    return f"{100 * share:.0f} %"


CLOSE = 0.05
"""Of a change: ends of its range that are nearer to each other are told as one figure, the first."""


def signed(change: float) -> str:
    """Three decimals at most: what is smaller is the solver's rounding."""
    if abs(change) < 5e-4:
        return "0"
    text = f"{abs(change):.1f}" if abs(change) >= 10 else f"{abs(change):.3g}"
    return f"{'+' if change > 0 else '−'}{text}"


def signed_range(low: float, high: float) -> str:
    """`+4.76 to +5.42`, or one change."""
    near = abs(high - low) <= CLOSE * abs(low) or signed(low) == signed(high)
    return signed(low) if near else f"{signed(low)} to {signed(high)}"


def span(values: Iterable[int]) -> str:
    """Whole numbers as `8`, or `2–16` where they differ."""
    ordered = sorted(set(values))
    if not ordered:
        return NONE
    return f"{ordered[0]:,}" if len(ordered) == 1 else f"{ordered[0]:,}–{ordered[-1]:,}"


def percent_span(shares: Iterable[float]) -> str:
    """Shares of 1 as `97 %`, or `80–97 %` where they differ by more than the rounding."""
    listed = list(shares)
    if not listed:
        return NONE
    low, high = percent(min(listed)), percent(max(listed))
    return high if low == high else f"{low.removesuffix(' %')}–{high}"


_FEWEST_DIGITS, _MOST_DIGITS = 2, 4
LEFT_OUT = "P10–P90 of left-out measurements"
"""What a band of a plan's rate is, in a few words."""


@dataclass(frozen=True, slots=True)
class Banded:
    """A positive figure and its P10 and P90, in one unit.

    It is rounded to the largest power of ten that is at most a quarter of the band's width, so that the digits shown
    are those that the band allows; two digits at least and four at most.
    """

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
