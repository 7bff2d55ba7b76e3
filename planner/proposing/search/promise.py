"""Which of a set of candidates a model promises most of.

| symbol | meaning |
|---|---|
| mu, sigma | predicted mean and standard deviation |
| f* | best value so far |
| z = (mu - f*) / sigma; Phi, phi | improvement in deviations; normal distribution and density |

One goal: log expected improvement, log(sigma (phi(z) + z Phi(z))) (Jones et al. 1998). Several: every set draws
weights and takes the candidate whose weakest goal, scaled to its span over its weight, draws best (as Knowles 2006).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.proposing.search.neighbours import Neighbour

FAR = -1.0  # in deviations: from here on the difference of two nearly equal terms is left to its expansion
LEAST_DEVIATION = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSet:
    """Candidates that come of one move, and what the model predicts of them: shape (candidates, goals), more is better
    in every column."""

    candidates: Sequence[Neighbour]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def most_promising(
    sets: Sequence[CandidateSet],
    count: int,
    values: NDArray[np.float64],
    apart: Callable[[Neighbour, Neighbour], bool],
    rng: np.random.Generator,
) -> list[Neighbour]:
    """The best of each set, then the best of all sets that lie `apart` from those chosen; at most `count`.

    `values`: what was observed, shape (observations, goals).
    """
    scored = [
        sorted(
            zip(_scores(candidate_set, values, rng), candidate_set.candidates, strict=True),
            key=lambda pair: -pair[0],
        )
        for candidate_set in sets
    ]
    firsts = sorted((ranked[0] for ranked in scored if ranked), key=lambda pair: -pair[0])
    others = sorted((pair for ranked in scored for pair in ranked[1:]), key=lambda pair: -pair[0])
    chosen: list[Neighbour] = []
    # The best of each move has its turn first, or the boldest prediction would fill the batch.
    for _, candidate in (*firsts, *others):
        if len(chosen) < count and all(apart(candidate, other) for other in chosen):
            chosen.append(candidate)
    return chosen


def ranking(values: NDArray[np.float64], rng: np.random.Generator) -> list[int]:
    """Observations, the best first; of several goals by weights drawn anew, so that the whole frontier has its turn."""
    score = values[:, 0] if values.shape[1] == 1 else _least_weighted(values, values, rng)
    return [int(place) for place in np.argsort(-score, kind="stable")]


def _least_weighted(
    points: NDArray[np.float64], values: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """The goal in which a point is weakest, each scaled to its span in `values`, under weights drawn at random."""
    low, span = values.min(axis=0), np.ptp(values, axis=0)
    weights = rng.dirichlet(np.ones(values.shape[1]))
    weakest: NDArray[np.float64] = ((points - low) / np.where(span > 0, span, 1.0) / weights).min(axis=1)
    return weakest


def _scores(candidate_set: CandidateSet, values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    mean, deviation = candidate_set.mean, candidate_set.deviation
    if values.shape[1] == 1:
        return log_expected_improvement(mean[:, 0], deviation[:, 0], float(values.max()))
    return _least_weighted(mean + deviation * rng.standard_normal(mean.shape), values, rng)


def log_expected_improvement(
    mean: NDArray[np.float64], deviation: NDArray[np.float64], best: float
) -> NDArray[np.float64]:
    """log E[max(0, f - best)] of normal f, per candidate."""
    from scipy.special import erfcx, ndtr  # noqa: PLC0415  (slow to load, needed by searches alone)

    sigma = np.maximum(deviation, LEAST_DEVIATION)
    z = (mean - best) / sigma
    log_density = -(z**2) / 2 - np.log(2 * np.pi) / 2
    # Each form is only evaluated where it holds: elsewhere it would overflow before `where` drops it.
    near = np.maximum(z, FAR)
    plain = np.log(np.exp(-(near**2) / 2) / np.sqrt(2 * np.pi) + near * ndtr(near))
    # phi + z Phi = phi (1 - |z| Phi / phi); the ratio is 1 - 1/z^2 + O(1/z^4) far out
    below = np.minimum(z, FAR)
    ratio = -below * np.sqrt(np.pi / 2) * erfcx(-below / np.sqrt(2))
    far = log_density + np.log(np.maximum(1 - ratio, 1 / (below**2 + 3)))
    improvement: NDArray[np.float64] = np.log(sigma) + np.where(z > FAR, plain, far)
    return improvement
