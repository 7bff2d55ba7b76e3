"""Figures over seeds: mean and confidence interval.

| symbol | meaning |
|---|---|
| n, m, s | seeds, mean and standard deviation (n - 1) of the figure over them |

interval of 95 %: m -+ t s / sqrt(n), t the quantile of Student's distribution with n - 1 degrees of freedom.

Share of the requests that keep a bound, those that come one after the other not being independent:

| symbol | meaning |
|---|---|
| N, p | requests of all seeds, share of them that keeps the bound |
| b, v | requests of a block, of `BLOCKS` a seed; mean square of the blocks' shares about p |
| D | what blocks vary by over what independent requests would: max(1, b v / (p (1 - p))) |
| N', z | N / D; quantile of the normal distribution for 99 % |

interval of 99 % (Wilson): (p + z^2 / 2N' -+ z sqrt(p (1 - p) / N' + z^2 / 4N'^2)) / (1 + z^2 / N').
"""

from collections.abc import Sequence
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from planner.domain.replay import Times
from planner.domain.serving.levels import CERTAIN, Spread

QUANTILES = (50.0, 90.0, 95.0, 99.0)
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 1.959964


def spread(values: Sequence[float]) -> Spread:
    """Of values; their mean is infinite where one of them is, and has no interval then."""
    mean = sum(values) / len(values) if values else 0.0
    if len(values) < 2 or not isfinite(mean):
        return Spread(mean=mean)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    width = _student(len(values) - 1) * deviation / sqrt(len(values))
    return Spread(mean=mean, low=mean - width, high=mean + width)


BLOCKS = 20
"""Blocks of a seed's requests, in the order in which they come: enough to tell D within a fifth in three seeds."""


def kept_share(kept_by_seed: Sequence[NDArray[np.bool_]]) -> Spread:
    """The share of requests that keep a bound with its interval of 99 %; of each seed who does, as they came."""
    keeps = np.concatenate(kept_by_seed)
    if not len(keeps):
        return Spread(mean=1.0, low=0.0, high=1.0)
    share = float(keeps.mean())
    blocks = [block for seed in kept_by_seed for block in np.array_split(seed, BLOCKS) if len(block)]
    squares = sum(len(block) ** 2 * (float(block.mean()) - share) ** 2 for block in blocks) / len(keeps)
    alone = share * (1 - share)
    counted = len(keeps) / max(1.0, squares / alone) if alone else float(len(keeps))
    z2 = CERTAIN**2 / counted
    middle, width = share + z2 / 2, CERTAIN * sqrt(alone / counted + z2 / (4 * counted))
    return Spread(mean=share, low=max(0.0, (middle - width) / (1 + z2)), high=min(1.0, (middle + width) / (1 + z2)))


def _student(degrees: int) -> float:
    """t; beyond the table by the first terms of its expansion about the normal quantile (Cornish and Fisher)."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def times(by_seed: Sequence[Sequence[float] | None]) -> Times | None:
    """Of rows (mean, P50, P90, P95, P99), one a seed; None where no seed has any."""
    rows = [row for row in by_seed if row is not None]
    if not rows:
        return None
    mean, p50, p90, p95, p99 = (spread(column) for column in zip(*rows, strict=True))
    return Times(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99)
