"""Figures over several seeds: means with 95 % confidence intervals, and differences of runs over the same jobs.

| symbol | meaning | unit | source |
|---|---|---|---|
| n | seeds | - | - |
| s | standard deviation of the n values, n - 1 in the denominator | of the figure | - |
| t | 97.5 % point of Student's law with n - 1 degrees of freedom | - | Abramowitz, Stegun 26.7.3 and 26.7.4 |

The interval is mean +- t s / sqrt(n). Policies are compared seed by seed, on the same jobs: the interval is that of the
n differences, which leaves out what the seeds' workloads differ by.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import atan, cos, pi, sin, sqrt
from statistics import fmean, stdev

from planner.studies.spot.records import SpotFigures, SpotRun

TWO_SIDED = 0.95
FIGURE_NAMES = tuple(field.name for field in fields(SpotFigures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and half of its 95 % confidence interval. `half` None: of one value there is none."""

    mean: float
    half: float | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSeedRun:
    """A policy's run over one seed. `spot_load`: what spot jobs ask for, as a share of the GPUs; None: jobs given."""

    policy: str
    seed: int
    spot_load: float | None
    run: SpotRun


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


def values_of(runs: Sequence[SpotSeedRun], name: str) -> dict[int, float]:
    """A figure by seed, where it is known."""
    by_seed = {seed_run.seed: getattr(seed_run.run.figures, name) for seed_run in runs}
    return {seed: float(value) for seed, value in by_seed.items() if value is not None}


def mean_of(runs: Sequence[SpotSeedRun], name: str) -> Interval | None:
    """A figure's mean over the seeds."""
    return interval_of(list(values_of(runs, name).values()))


def change_of(runs: Sequence[SpotSeedRun], baseline: Sequence[SpotSeedRun], name: str) -> Interval | None:
    """Percent by which a figure differs from the baseline's, seed by seed; None where no seed has both."""
    mine, theirs = values_of(runs, name), values_of(baseline, name)
    return interval_of([100 * (mine[seed] / theirs[seed] - 1) for seed in mine if theirs.get(seed)])


def difference_of(runs: Sequence[SpotSeedRun], baseline: Sequence[SpotSeedRun], name: str) -> Interval | None:
    """By how much a figure differs from the baseline's, seed by seed; None where no seed has both."""
    mine, theirs = values_of(runs, name), values_of(baseline, name)
    return interval_of([mine[seed] - theirs[seed] for seed in mine if seed in theirs])
