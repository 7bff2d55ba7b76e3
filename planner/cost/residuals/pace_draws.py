"""Draws of how fast servers are: quasi-random ones of the errors that `band_draws` tells of.

| symbol  | meaning                                                                     | unit |
|---------|-----------------------------------------------------------------------------|------|
| R       | correlation of two types in one phase: SHARED where nothing is said; 0 across phases | 1 |
| z[g,p]  | L u, L the root of R, u normal scores of a scrambled Halton point           | 1    |
| pace    | exp(m + z / z90 h): m, h middle and half of the band, by side               | 1    |

256 such draws give the rate that is 80 % sure to about 3 %; as many random ones to 6 %.
"""

from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from planner.cost.arrays import Array
from planner.cost.residuals.band_draws import errors_of
from planner.domain import Band, Phase
from planner.domain.serving.doubt import SHARED, AlikeErrors

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
    return len(keys)


def correlation(first: Key, second: Key, alike: Sequence[AlikeErrors] = ()) -> float:
    """R of two types in their phases: 1 of one with itself, 0 across phases, as `alike` says, else SHARED."""
    if first == second:
        return 1.0
    if first[1] is not second[1]:
        return 0.0
    pair = {first[0], second[0]}
    return next((row.correlation for row in alike if {row.gpu, row.other} == pair), SHARED)


def correlations(keys: Sequence[Key], alike: Sequence[AlikeErrors] = ()) -> Array:
    """R of all of these, in their order."""
    return np.array([[correlation(first, second, alike) for second in keys] for first in keys], dtype=np.float64)


def pace_scores(keys: Sequence[Key], points: Array, alike: Sequence[AlikeErrors] = ()) -> dict[Key, Array]:
    """z of every GPU type and phase, one number a point; `points`: columns of the unit cube of their own."""
    ordered = sorted(keys, key=lambda key: (key[1].value, key[0]))
    # types that err alike to the last make R singular, which takes a root all the same
    root = np.linalg.cholesky(correlations(ordered, alike) + _SINGULAR * np.eye(len(ordered)))
    mixed = normal_scores(points) @ root.T
    return {key: mixed[:, place] for place, key in enumerate(ordered)}


_SINGULAR = 1e-10


def pace_draws(bands: Mapping[Key, Band], points: Array, alike: Sequence[AlikeErrors] = ()) -> dict[Key, Array]:
    """Measured over predicted pace of every GPU type and phase at its `pace_scores`."""
    scores = pace_scores(list(bands), points, alike)
    return {key: errors_of(bands[key], scores[key]) for key in scores}
