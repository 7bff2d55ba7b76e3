"""Samples kept as counts of rounded values, so that a trace of any length fits; quantiles and CDFs of them."""

from collections import Counter
from collections.abc import Sequence
from math import floor, isfinite, log10

DIGITS = 3
MOST_POINTS = 200


class Samples:
    """Values to three significant digits with how often they came."""

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()
        self.total = 0.0

    def add(self, value: float) -> None:
        """One value; those that are no finite numbers are passed over."""
        if isfinite(value):
            self.counts[_rounded(value)] += 1
            self.total += value

    @property
    def size(self) -> int:
        """How many values came."""
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        """Their exact mean."""
        return self.total / self.size

    def quantile(self, share: float) -> float:
        """The smallest value that at least this share is no larger than."""
        seen, values = 0, sorted(self.counts)
        for value in values:
            seen += self.counts[value]
            if seen >= share * self.size - 1e-9:
                return value
        return values[-1]

    def curve(self) -> Sequence[tuple[float, float]]:
        """(value, share no larger), at most `MOST_POINTS` of them."""
        size, seen = self.size, 0
        points = []
        for value in sorted(self.counts):
            seen += self.counts[value]
            points.append((value, seen / size))
        step = max(1, -(-len(points) // MOST_POINTS))
        return [*points[:-1:step], points[-1]] if points else []


def _rounded(value: float) -> float:
    if not value:
        return 0.0
    return round(value, DIGITS - 1 - floor(log10(abs(value))))
