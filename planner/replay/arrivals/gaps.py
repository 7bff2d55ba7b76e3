"""Arrival times that are drawn: gaps of a gamma distribution, at a rate that may change over time.

| symbol | meaning | unit |
|---|---|---|
| v | squared coefficient of variation of the gaps; 1: Poisson, 0: even gaps | 1 |
| u(i) | arrivals at a mean gap of 1 | 1 |
| L(t) | expected arrivals up to t: rate times t, or the area below the rate curve | 1 |
| t(i) | arrivals: L(t(i)) = u(i) | s |

Gaps are Gamma(shape 1/v, mean 1). The stream begins at a moment like any other: the first gap is the rest of a gap that
was met by length, U Gamma(shape 1/v + 1) v with U uniform, so that L(t) arrivals are expected from the start on. Time
change: with v = 1 the result is the inhomogeneous Poisson process; with another v gaps vary by v where the rate hardly
changes. The dispersion of counts tends to v.
Sources: Cox, Renewal Theory, 1962, sections 2.2 and 5.2; Cinlar, Introduction to Stochastic Processes, 1975, section
4.7.
"""

import math

import numpy as np

from planner.domain.arrivals import POISSON_VARIATION, ArrivalSettings, RateCurve
from planner.errors import InputError
from planner.replay.arrivals.parts import Reals, StreamLength, require_fits

MOST_VARIATION = 10_000.0
"""Fifty times what the burstiest trace has that we know (Azure's code, 173)."""


def drawn_times(settings: ArrivalSettings, rate_rps: float, length: StreamLength, random: np.random.Generator) -> Reals:
    """Arrivals (s) of a process that draws them, ascending, at a mean rate of `rate_rps`; of a curve, over its span."""
    variation = settings.variation
    if not 0 <= variation <= MOST_VARIATION:
        raise InputError(
            f"Arrivals: variation must be a number from 0 to {MOST_VARIATION:g}, got {variation:g}.", hint="Poisson: 1."
        )
    curve = settings.curve
    clock = _SteadyTime(rate_rps) if curve is None else _CurveTime(curve, rate_rps, settings.curve_start_s)
    if length.count is not None:
        return clock.times(_unit_arrivals(length.count, variation, random))
    return clock.times(_unit_arrivals_until(clock.expected(length.seconds or 0.0), variation, random))


def _unit_arrivals(count: int, variation: float, random: np.random.Generator) -> Reals:
    gaps = _unit_gaps(count, variation, random)
    # the first request comes a part of a gap after the start
    if variation > 0:
        gaps[0] = random.random() * random.gamma(1 / variation + 1, variation)
    else:
        gaps[0] = random.random()
    return np.cumsum(gaps)


def _unit_gaps(count: int, variation: float, random: np.random.Generator) -> Reals:
    if variation == 0:
        return np.ones(count)
    if variation == POISSON_VARIATION:
        return random.standard_exponential(count)
    return random.gamma(1 / variation, variation, count)


def _unit_arrivals_until(end: float, variation: float, random: np.random.Generator) -> Reals:
    """Those before `end`, drawn in blocks that are mostly enough at once."""
    require_fits(end)
    # Six standard deviations more than are expected.
    block = int(end + 6 * math.sqrt(max(variation, 1.0) * end)) + 16
    arrivals = _unit_arrivals(block, variation, random)
    while arrivals[-1] < end:
        more = arrivals[-1] + np.cumsum(_unit_gaps(block, variation, random))
        arrivals = np.concatenate((arrivals, more))
        require_fits(len(arrivals))
    return arrivals[: np.searchsorted(arrivals, end)]


class _SteadyTime:
    """L(t) of a steady rate, and its inverse."""

    def __init__(self, rate_rps: float) -> None:
        self._rate_rps = rate_rps

    def expected(self, seconds: float) -> float:
        """Arrivals that are expected in the first `seconds`."""
        return seconds * self._rate_rps

    def times(self, unit_arrivals: Reals) -> Reals:
        """Seconds at which so many are expected."""
        return unit_arrivals / self._rate_rps


class _CurveTime:
    """L(t) of a curve scaled to a mean rate, from a second of it on, and its inverse."""

    def __init__(self, curve: RateCurve, rate_rps: float, start_s: float) -> None:
        if not 0 <= start_s < math.inf:
            raise InputError(f"Arrivals: curve_start_s must be at least 0, got {start_s:g}.", hint="Correct it.")
        self._starts = np.asarray(curve.starts_s)
        self._span = curve.span_s
        self._rates = np.asarray(curve.rates) * (rate_rps / curve.mean_rate)
        self._areas = np.concatenate(((0.0,), np.cumsum(np.diff(self._starts, append=self._span) * self._rates)))
        self._start = start_s % self._span
        self._before = self._area(self._start)

    def _area(self, second: float) -> float:
        laps, at = divmod(second, self._span)
        row = int(np.searchsorted(self._starts, at, side="right")) - 1
        return float(laps * self._areas[-1] + self._areas[row] + (at - self._starts[row]) * self._rates[row])

    def expected(self, seconds: float) -> float:
        """Arrivals that are expected in the first `seconds`."""
        return self._area(self._start + seconds) - self._before

    def times(self, unit_arrivals: Reals) -> Reals:
        """Seconds at which so many are expected."""
        laps, areas = np.divmod(unit_arrivals + self._before, self._areas[-1])
        # from the right: past rows without arrivals, whose areas are alike
        rows = np.minimum(np.searchsorted(self._areas, areas, side="right"), len(self._rates)) - 1
        within = (areas - self._areas[rows]) / self._rates[rows]
        seconds = laps * self._span + self._starts[rows] + within - self._start
        return np.maximum.accumulate(np.maximum(seconds, 0.0))  # where rows meet, rounding may go back
