"""Means over seeds and their 95 % confidence intervals.

| symbol | meaning | unit | source |
|---|---|---|---|
| n | values | - | - |
| s | standard deviation of the n values, n - 1 in the denominator | of the figure | - |
| t | 97.5 % point of Student's law with n - 1 degrees of freedom | - | Abramowitz, Stegun 26.7.3 and 26.7.4 |

The interval is mean +- t s / sqrt(n).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan, cos, pi, sin, sqrt
from statistics import fmean, stdev

TWO_SIDED = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and half of its 95 % confidence interval. `half` None: of one value there is none."""

    mean: float
    half: float | None
    count: int


def within(t: float, freedom: int) -> float:
    """Probability that Student's variable lies between -t and t: the finite series for whole degrees of freedom."""
    angle = atan(t / sqrt(freedom))
    term, total = (cos(angle), cos(angle)) if freedom % 2 else (1.0, 1.0)
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= (k - 1) / k * cos(angle) ** 2
        total += term
    if freedom % 2 == 0:
        return sin(angle) * total
    return 2 / pi * (angle + (sin(angle) * total if freedom > 1 else 0.0))


def student_t(freedom: int, share: float = TWO_SIDED) -> float:
    """The t that `share` of Student's law lies within, either side, by bisection."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < share else (low, middle)
    return high


def interval_of(values: Sequence[float]) -> Interval | None:
    """Mean and interval; None of nothing."""
    if not values:
        return None
    count = len(values)
    half = student_t(count - 1) * stdev(values) / sqrt(count) if count > 1 else None
    return Interval(mean=fmean(values), half=half, count=count)
