"""What a replay's figures and plots are drawn from: moments, quantiles, points against the rate."""

import math
from collections.abc import Sequence

from planner.domain.replay import Moment, ReplayResult, ReplaySweep
from planner.domain.serving.levels import Spread
from planner.report.replay.words import level_key, level_quantile, spread_of, times_of


def edges_of(moments: tuple[Moment, ...]) -> list[float]:
    """Where moments begin, and where the last one ends (s)."""
    return [*(moment.start_s for moment in moments), moments[-1].start_s + moments[-1].seconds]


def late_shares(moments: tuple[Moment, ...]) -> list[float]:
    """Of those that arrived in a moment the share that broke a bound; 0 where none arrived."""
    return [moment.late / moment.arrived if moment.arrived else 0.0 for moment in moments]


def quantiles_of(sweep: ReplaySweep, key: str) -> tuple[str, ...]:
    """The median, and what a level asks for (P99 where none does)."""
    quantiles = [level_quantile(level) for level in sweep.results[0].levels if level_key(level) == key]
    return tuple(dict.fromkeys(("p50", quantiles[0] if quantiles else "p99")))


def points_of(results: Sequence[ReplayResult], key: str, quantile: str) -> list[tuple[float, Spread]]:
    """Rate and time of each result that has one, above 0 and with an end."""
    timed = [(result.rate_rps, times_of(result.total, key)) for result in results]
    spreads = [(rate, spread_of(times, quantile)) for rate, times in timed if times is not None]
    return [(rate, spread) for rate, spread in spreads if math.isfinite(spread.mean) and spread.mean > 0]
