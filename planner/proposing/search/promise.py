"""Which of a set of candidates a model promises most of.

One goal: log expected improvement (`surrogate.log_expected_improvement`, BoTorch's). Several: every set draws weights
and takes the candidate whose weakest goal, scaled to its span over its weight, draws best (as Knowles 2006). That is by
hand: for rate and rent (`goals` of tests/benchmarks/where_search_pays.csv) a search comes to 53.0 requests/s of
hypervolume in 5.2 CPU-seconds, and with every layout from BoTorch's qLogNEHVI to 51.6 in 13.1.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.proposing.search.neighbours import Neighbour

Scored = tuple[float, Neighbour]
"""What a candidate promises, and the candidate."""


def most_promising(
    sets: Sequence[Sequence[Scored]], count: int, apart: Callable[[Neighbour, Neighbour], bool]
) -> list[Neighbour]:
    """The best of each set, those that one move leads to, then the best of all sets that lie `apart` from those chosen;
    at most `count`."""
    ranked = [sorted(candidates, key=_worst_last) for candidates in sets]
    firsts = sorted((row[0] for row in ranked if row), key=_worst_last)
    others = sorted((scored for row in ranked for scored in row[1:]), key=_worst_last)
    chosen: list[Neighbour] = []
    # The best of each move has its turn first, or the boldest prediction would fill the batch.
    for _, candidate in (*firsts, *others):
        if len(chosen) < count and all(apart(candidate, other) for other in chosen):
            chosen.append(candidate)
    return chosen


def _worst_last(scored: Scored) -> float:
    return -scored[0]


def ranking(values: NDArray[np.float64], rng: np.random.Generator) -> list[int]:
    """Observations, the best first; of several goals by weights drawn anew, so that the whole frontier has its turn."""
    score = values[:, 0] if values.shape[1] == 1 else least_weighted(values, values, rng)
    return [int(place) for place in np.argsort(-score, kind="stable")]


def least_weighted(
    points: NDArray[np.float64], values: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """The goal in which a point is weakest, each scaled to its span in `values`, under weights drawn at random."""
    low, span = values.min(axis=0), np.ptp(values, axis=0)
    weights = rng.dirichlet(np.ones(values.shape[1]))
    weakest: NDArray[np.float64] = ((points - low) / np.where(span > 0, span, 1.0) / weights).min(axis=1)
    return weakest
