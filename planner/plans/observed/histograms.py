"""Quantiles and counts of histograms as Prometheus keeps them: classes by upper edge, counts below each edge.

| symbol | meaning | unit |
|---|---|---|
| e[i], c[i] | upper edge of class i, ascending, the last +Inf; observations below it, a second | s, 1/s |
| q | quantile | 1 |

The quantile lies in the first class with c[i] >= q c[last], and there where a straight line from c[i-1] to c[i] has
q c[last]; in the last class nothing more is known than that it is above e[last-1]. Source: `histogram_quantile` of
prometheus/docs/querying/functions.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeQuantile:
    """A quantile (s) with the edges of its class: what it may be by the classes alone. `high` inf: beyond all edges."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeHistogram:
    """Classes as (edge, cumulative count) pairs, ascending; `total`: sum of the observed times, a second (None: not
    told)."""

    classes: tuple[tuple[float, float], ...]
    total: float | None = None

    @property
    def count(self) -> float:
        """Observations a second."""
        return self.classes[-1][1]

    @property
    def mean(self) -> float | None:
        """s; None without observations or without their sum."""
        return None if self.total is None or not self.count else self.total / self.count

    def quantile(self, q: float) -> TimeQuantile | None:
        """None without observations."""
        if not self.count:
            return None
        wanted, below, low = q * self.count, 0.0, 0.0
        for edge, count in self.classes:
            if count >= wanted and count > below:
                if math.isinf(edge):
                    return TimeQuantile(value=low, low=low, high=edge)
                value = low + (edge - low) * (wanted - below) / (count - below)
                return TimeQuantile(value=value, low=low, high=edge)
            below, low = max(below, count), edge
        return TimeQuantile(value=low, low=low, high=math.inf)  # pragma: no cover  # the last class has all


def histogram_of(classes: Sequence[tuple[float, float]], total: float | None, where: str) -> TimeHistogram:
    """The histogram. `where` names it in an error.

    Raises:
        InputError: no class up to +Inf, or counts that fall.
    """
    ordered = tuple(sorted(classes))
    if not ordered or not math.isinf(ordered[-1][0]):
        raise InputError(f"{where}: must have a class up to +Inf, has none.", hint="Ask for all classes (label le).")
    counts = [count for _, count in ordered]
    # rates of counters that were scraped one after another may differ by a little
    if any(later < earlier * (1 - 1e-6) for earlier, later in pairwise(counts)):
        raise InputError(f"{where}: counts must not fall from class to class.", hint="Ask again for all classes.")
    return TimeHistogram(classes=ordered, total=total)


def together(histograms: Sequence[TimeHistogram], where: str) -> TimeHistogram | None:
    """All observations in one; None of none. InputError where their edges differ."""
    if not histograms:
        return None
    edges = [edge for edge, _ in histograms[0].classes]
    if any([edge for edge, _ in other.classes] != edges for other in histograms[1:]):
        raise InputError(f"{where}: islands must have the same classes.", hint="Run one version of the engine.")
    counts = [math.fsum(column) for column in zip(*([c for _, c in h.classes] for h in histograms), strict=True)]
    totals = [h.total for h in histograms]
    total = None if None in totals else math.fsum(value for value in totals if value is not None)
    return TimeHistogram(classes=tuple(zip(edges, counts, strict=True)), total=total)
