"""Draws of how fast servers are: quasi-random ones of the errors that `band_draws` tells of.

| symbol  | meaning                                                                     | unit |
|---------|-----------------------------------------------------------------------------|------|
| z[g,p]  | sqrt(rho) s[p] + sqrt(1 - rho) u[g,p], s and u from a scrambled Halton point | 1    |
| pace    | exp(m + z / z90 h): m, h middle and half of the band, by side               | 1    |

256 such draws give the rate that is 80 % sure to about 3 %; as many random ones to 6 %.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from planner.cost.arrays import Array
from planner.cost.residuals.band_draws import SHARED, errors_of
from planner.domain import Band, Phase

Key = tuple[str, Phase]
_EDGE = 1e-9


def uniform_draws(count: int, dimensions: int, seed: int) -> Array:
    """Points of the unit cube, shape (count, dimensions), spread evenly; the same for a seed, whatever columns follow.

    The Halton sequence, every digit permuted by chance (Owen 2017, "A randomized Halton algorithm in R"): as even as
    SciPy's Sobol points at 256 draws, and without the second that SciPy takes to load.
    """
    rng, columns = np.random.default_rng(seed), []
    for base in _primes(dimensions):
        number, weight, column = np.arange(count), 1.0 / base, np.zeros(count)
        while weight > _EDGE:
            column += weight * rng.permutation(base)[number % base]
            number, weight = number // base, weight / base
        columns.append(column)
    return np.clip(np.array(columns).T.reshape(count, dimensions), _EDGE, 1 - _EDGE)


def _primes(count: int) -> list[int]:
    primes, number = list[int](), 2
    while len(primes) < count:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    return primes


def normal_scores(points: Array) -> Array:
    """The same points as standard normal numbers."""
    return np.asarray(np.vectorize(NormalDist().inv_cdf, otypes=[float])(points))


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
