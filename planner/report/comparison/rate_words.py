"""Which of two plans serves more, and how likely that is."""

from planner.domain import RateBand, RateComparison
from planner.report.kit.bands import rate_with
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import percent, rate

SAME = 5e-4
"""Rates that differ by a smaller share are told as the same."""

_LIKELY = ((0.9, "very likely"), (0.6, "likely"))
_UNDECIDED = "as likely as not"
_EVEN, _LEAST = 0.5, 1e-3


def rate_sentence(comparison: RateComparison, old: str, new: str) -> str:
    """Both rates with their bands, and how likely the one that is predicted faster is so in truth."""
    before = _figure(comparison.old_rps, comparison.old_band)
    after = _figure(comparison.new_rps, comparison.new_band)
    return f"Rate: {before} → {after} requests/s; {_verdict(comparison, escaped(old), escaped(new))}."


def _figure(rate_rps: float, band: RateBand | None) -> str:
    """Rates that are compared keep the digits that tell them apart: they may differ by less than their bands."""
    banded = rate_with(rate_rps, band)
    return rate(rate_rps) if banded is None else f"{rate(rate_rps)} ({banded.range})"


def _verdict(comparison: RateComparison, old: str, new: str) -> str:
    if abs(comparison.change) < SAME:
        return "both are predicted to serve the same"
    faster, slower = (new, old) if comparison.change > 0 else (old, new)
    more = max(comparison.new_rps, comparison.old_rps) / min(comparison.new_rps, comparison.old_rps) - 1
    lead = f"{faster if faster != slower else _side(comparison)} is faster by {_share(more)}"
    if comparison.probability_faster is None:
        return f"{lead} as predicted (how likely is not known: no band)"
    likely = comparison.probability_faster if comparison.change > 0 else 1 - comparison.probability_faster
    if likely < _EVEN:
        return f"{lead} as predicted, yet in truth rather slower ({likelihood(1 - likely)})"
    return f"{lead} ({likelihood(likely)})"


def _side(comparison: RateComparison) -> str:
    """Of plans of one name."""
    return "the new plan" if comparison.change > 0 else "the old plan"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else percent(share)


def likelihood(probability: float) -> str:
    """A probability in words and percent: likely: 71 %. Draws do not tell 100 % from more than 99 %."""
    word = next((word for least, word in _LIKELY if probability >= least), _UNDECIDED)
    word = "unlikely" if probability <= 1 - _LIKELY[-1][0] else word
    return f"{word}: {percent(min(max(probability, _LEAST), 1 - _LEAST))}"
