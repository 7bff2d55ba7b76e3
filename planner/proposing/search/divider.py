"""The divider and its inverse: how many islands of one type, and how uneven.

| symbol | meaning | unit |
|---|---|---|
| I, I_min | GPUs of the type, fewest GPUs of an island | 1 |
| n | target number of islands | 1 |
| s | skew: island k of the n gets a remainder in proportion to k^s | 1 |
| x_k, r_k | ideal and whole GPUs above I_min of island k | 1 |
| h | hardness of wanted sizes: max_k (r_k - x_k) - min_k (r_k - x_k) | 1 |

Largest remainders are the whole numbers from which moving one GPU comes no nearer to the ideal ones, so a skew divides
into the wanted sizes where h <= 1. h is smooth between kinks, the sizes jump: so h is what the inverse goes down.

Where islands are whole nodes, what is divided are hosts or NVLink domains in place of GPUs: see `Division`.

Source: Rignall 2025, section 4.9.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf

import numpy as np
from numpy.typing import NDArray

from planner.domain import Stock
from planner.domain.scenario import STEEPEST

EVEN = 1e-9
SKEWS = 241  # of the first scan
FINE = 961  # of the scan for sizes that no skew gives
VALLEYS = 4  # that are gone down
STEPS = 40  # of a golden section: 1e-8 of the interval
GOLDEN = 0.6180339887498949
HALVINGS = 50  # of a bisection: 2e-14 of a skew


def divide(total: int, target: int, skew: float, min_size: int) -> tuple[int, ...]:
    """Island sizes, by island index: they sum to `total`, each at least `min_size`, min(target, total // min_size) of
    them.

    What is left above `min_size` each is shared out in proportion to k**skew by largest remainders (ties to the lower
    index). Empty where `target` is 0 or `total` < `min_size`.
    """
    count = min(target, total // min_size)
    if count <= 0:
        return ()
    spare = total - count * min_size
    ideal = _ideal(spare, count, skew)
    floors = [floor(x) for x in ideal]
    by_remainder = sorted(range(count), key=lambda k: (floors[k] - ideal[k], k))
    raised = set(by_remainder[: spare - sum(floors)])
    return tuple(min_size + floors[k] + (k in raised) for k in range(count))


def _ideal(spare: int, count: int, skew: float) -> list[float]:
    """`spare` shared out over `count` islands in proportion to k**skew."""
    # Remainders that should tie would not, with weights that are nearly 1.
    weights = [1.0 if abs(skew) < EVEN else float(k) ** skew for k in range(1, count + 1)]
    whole_weight = sum(weights)
    return [spare * weight / whole_weight for weight in weights]


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How a number of islands of a stock are divided: `total` parcels of `gpus` each, at least `min_size` an island.

    As many islands as there are groups, or fewer, get whole groups; more get units, and as even ones as it takes for
    each to stay within a group: skews beyond `fitting` divide as its ends do.
    """

    count: int
    total: int
    gpus: int
    min_size: int
    fitting: tuple[float, float] = (-inf, inf)

    @classmethod
    def of(cls, stock: Stock, units: int, target: int) -> "Division":
        """`units` of the stock in `target` islands, or as many as they can form."""
        count, groups = min(target, stock.most_islands_of(units)), units // stock.group
        if count <= groups // stock.least_groups:
            return cls(count=count, total=groups, gpus=stock.group * stock.unit, min_size=stock.least_groups)
        fitting = _fitting(units - count * stock.least, count, stock.group - stock.least)
        return cls(count=count, total=units, gpus=stock.unit, min_size=stock.least, fitting=fitting)

    def sizes(self, skew: float) -> tuple[int, ...]:
        """GPUs of each island."""
        fitting = min(max(skew, self.fitting[0]), self.fitting[1])
        return tuple(self.gpus * size for size in divide(self.total, self.count, fitting, self.min_size))

    def distinct(self, skews: tuple[float, float]) -> tuple[float, float] | None:
        """The range of those `skews` that may differ in their sizes; None where there is one division alone."""
        low, high = max(skews[0], self.fitting[0]), min(skews[1], self.fitting[1])
        return (low, high) if self.count > 1 and self.total > self.count * self.min_size and low < high else None


def _fitting(spare: int, count: int, size_limit: int) -> tuple[float, float]:
    """The least and the largest skew that give no island more than `size_limit` of `spare`; an even division must."""
    if spare <= size_limit:
        return -inf, inf
    ends = []
    for sign in (-1.0, 1.0):
        low, high = 0.0, STEEPEST
        # The largest share grows the steeper the skew is, on either side of 0.
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            fits = max(_ideal(spare, count, sign * middle)) <= size_limit
            low, high = (middle, high) if fits else (low, middle)
        # The end that is known to fit.
        ends.append(sign * low)
    return ends[0], ends[1]


def skew_of(sizes: Sequence[int], total: int, min_size: int, skews: tuple[float, float]) -> float:
    """The skew in `skews` (least, largest) whose division of `total` into len(sizes) islands comes nearest to `sizes`.

    Distance is the sum of absolute differences of the sorted sizes. Where several skews come as near, 0 if it is one.
    """
    ascending = sorted(sizes)
    plain = min(max(0.0, skews[0]), skews[1])
    if len(ascending) < 2 or _distance(ascending, total, plain, min_size) == 0:
        return plain
    scan = np.linspace(*skews, SKEWS)
    target, spare = np.asarray(ascending, dtype=float) - min_size, total - len(ascending) * min_size
    hard = _hardness(target, spare, scan)
    inner = [k for k in range(1, SKEWS - 1) if hard[k] <= min(hard[k - 1], hard[k + 1])]
    # The ends, too: h may fall towards them, with no valley before.
    lowest = sorted({0, SKEWS - 1, *inner}, key=lambda k: float(hard[k]))[:VALLEYS]
    bottoms = [_bottom(target, spare, float(scan[max(k - 1, 0)]), float(scan[min(k + 1, SKEWS - 1)])) for k in lowest]
    near = min((plain, *bottoms), key=lambda skew: _distance(ascending, total, skew, min_size))
    if _distance(ascending, total, near, min_size) == 0:
        return near
    # No skew gives these sizes: what is nearest may lie anywhere, as distances jump where h does not.
    fine = np.linspace(*skews, FINE)
    nearest = float(fine[_distances(target, spare, fine).argmin()])
    return min((near, nearest), key=lambda skew: _distance(ascending, total, skew, min_size))


def _distance(ascending: Sequence[int], total: int, skew: float, min_size: int) -> int:
    sizes = sorted(divide(total, len(ascending), skew, min_size))
    return sum(abs(a - b) for a, b in zip(sizes, ascending, strict=True))


def _distances(target: NDArray[np.float64], spare: int, skews: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance at each of `skews`, but for ties of remainders."""
    weights = np.arange(1, len(target) + 1) ** skews[:, None]
    ideal = spare * weights / weights.sum(axis=1, keepdims=True)
    floors = np.floor(ideal)
    extra = spare - floors.sum(axis=1, keepdims=True)
    rank = np.argsort(np.argsort(floors - ideal, axis=1, kind="stable"), axis=1)
    distances: NDArray[np.float64] = np.abs(np.sort(floors + (rank < extra), axis=1) - target).sum(axis=1)
    return distances


def _hardness(target: NDArray[np.float64], spare: int, skews: NDArray[np.float64]) -> NDArray[np.float64]:
    """h at each of `skews`, for whole GPUs above the least in ascending order (descending for skews below 0)."""
    weights = np.arange(1, len(target) + 1) ** skews[:, None]
    ideal = spare * weights / weights.sum(axis=1, keepdims=True)
    short = np.where(skews[:, None] < 0, target[::-1], target) - ideal
    hardness: NDArray[np.float64] = short.max(axis=1) - short.min(axis=1)
    return hardness


def _bottom(target: NDArray[np.float64], spare: int, low: float, high: float) -> float:
    """Golden section: where h is least between `low` and `high`."""

    def hard(skew: float) -> float:
        return float(_hardness(target, spare, np.array([skew]))[0])

    lower, upper = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_lower, at_upper = hard(lower), hard(upper)
    for _ in range(STEPS):
        if at_lower <= at_upper:
            high, upper, at_upper = upper, lower, at_lower
            lower = high - GOLDEN * (high - low)
            at_lower = hard(lower)
        else:
            low, lower, at_lower = lower, upper, at_upper
            upper = low + GOLDEN * (high - low)
            at_upper = hard(upper)
    return lower if at_lower <= at_upper else upper
