"""Numbers as people read them: few digits, thousands apart, units left to the caller."""

import math
from collections.abc import Iterable

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


def money(value: float) -> str:
    """USD to the cent; three digits below a dollar."""
    return f"{value:,.2f}" if value >= 1 else significant(value)


def counted(count: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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
