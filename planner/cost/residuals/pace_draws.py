"""Draws of how fast servers are: quasi-random ones of the errors that `band_draws` tells of.

| symbol  | meaning                                                                     | unit |
|---------|-----------------------------------------------------------------------------|------|
| z[g,p]  | sqrt(rho) s[p] + sqrt(1 - rho) u[g,p], s and u from a scrambled Sobol point | 1    |
| pace    | exp(m + z / z90 h): m, h middle and half of the band, by side               | 1    |

256 such draws give the rate that is 80 % sure to about 3 %; as many random ones to 6 %.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from planner.cost.arrays import Array
from planner.cost.residuals.band_draws import SHARED, errors_of
from planner.domain import Band, Phase

Key = tuple[str, Phase]
_EDGE = 1e-9


def uniform_draws(count: int, dimensions: int, seed: int) -> Array:
    """Points of the unit cube, shape (count, dimensions), spread evenly; the same for a seed."""
    from scipy.stats import qmc  # noqa: PLC0415  (half a second to load)

    exponent = math.ceil(math.log2(count))  # powers of two are spread evenly, what is over is left
    points = qmc.Sobol(dimensions, scramble=True, seed=seed).random_base2(exponent)[:count]
    return np.asarray(np.clip(points, _EDGE, 1 - _EDGE))


def normal_scores(points: Array) -> Array:
    """The same points as standard normal numbers."""
    from scipy.stats import norm  # noqa: PLC0415

    return np.asarray(norm.ppf(points))


def pace_dimensions(keys: Sequence[Key]) -> int:
    """Columns of points that `pace_draws` takes."""
    return len({phase for _, phase in keys}) + len(keys)


def pace_scores(keys: Sequence[Key], points: Array) -> dict[Key, Array]:
    """z of every GPU type and phase, one number a point; `points`: columns of the unit cube of their own. What a phase
    errs is shared in part among its types, as in `band_draws`."""
    phases, scores = sorted({phase.value for _, phase in keys}), normal_scores(points)
    mixed = {}
    for place, (gpu, phase) in enumerate(sorted(keys, key=lambda key: (key[1].value, key[0]))):
        common, alone = scores[:, phases.index(phase.value)], scores[:, len(phases) + place]
        mixed[gpu, phase] = math.sqrt(SHARED) * common + math.sqrt(1 - SHARED) * alone
    return mixed


def pace_draws(bands: Mapping[Key, Band], points: Array) -> dict[Key, Array]:
    """Measured over predicted pace of every GPU type and phase at its `pace_scores`."""
    return {key: errors_of(bands[key], scores) for key, scores in pace_scores(list(bands), points).items()}
