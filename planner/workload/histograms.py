"""Lengths from a histogram: the distribution that says least beyond its classes and its mean.

| symbol | meaning | unit |
|---|---|---|
| p_i | share of the requests in class i, lengths above e_(i-1) and up to e_i | 1 |
| x | a length, a whole number | tokens |
| m | mean length, the histogram's sum over its count | tokens |
| t | tilt, the same in all classes | 1/token |

Of all distributions with these p_i and this m the one of most entropy has P(x) = p_i exp(t x) / sum of exp(t y) over
the class's y: uniform in every class where t is 0. The mean grows with t, so t is found by bisection. Classes of more
than `MOST_POINTS` lengths are cut into as many cells, a length each.
Source: Jaynes, Information Theory and Statistical Mechanics, 1957.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError

MOST_POINTS = 128
"""Of a class: a cell is then 0.4 % of the class's upper edge wide at most, where edges double."""

SLACK = 0.01
"""Of the mean, that it may lie beyond what the classes allow: rates of two counters differ by a sample."""

_STEEPEST = 50.0  # at one token's distance: all of a class on its last length
_HALVINGS = 160
Floats = NDArray[np.float64]


def mean_bounds(edges: Sequence[int], shares: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest mean (tokens) of lengths with these shares; arguments as of `tilted_lengths`."""
    points = _points(edges, shares)
    lowest = sum(share * float(lengths[0]) for lengths, _, share in points)
    highest = sum(share * float(lengths[-1]) for lengths, _, share in points)
    return lowest, highest


def tilted_lengths(
    edges: Sequence[int], shares: Sequence[float], mean: float, metric: str
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Lengths (tokens, ascending) and their probabilities; the mean is kept to 1e-9 where the classes allow it.

    `edges` ascend, one more than `shares`, which sum to 1: class i holds the lengths above `edges[i]` and up to
    `edges[i + 1]`. `metric` is what errors call it. InputError where no lengths of these classes have that mean.
    """
    lowest, highest = mean_bounds(edges, shares)
    if not lowest * (1 - SLACK) <= mean <= highest * (1 + SLACK):
        raise InputError(
            f"{metric}: the mean, sum over count, must lie in {lowest:.6g} to {highest:.6g} tokens as the classes say, "
            f"got {mean:.6g}.",
            hint="Take a longer window, and servers of one engine version.",
        )
    points = _points(edges, shares)
    lengths = np.concatenate([row for row, _, _ in points])
    weights = np.log(np.concatenate([row for _, row, _ in points]))
    starts = np.cumsum([0, *(len(row) for row, _, _ in points[:-1])])
    sizes = np.array([len(row) for row, _, _ in points])
    of_class = np.array([share for _, _, share in points])

    def probabilities(tilt: float) -> Floats:
        powers = weights + tilt * lengths
        powers -= np.repeat(np.maximum.reduceat(powers, starts), sizes)
        masses = np.exp(powers)
        return np.asarray(masses * np.repeat(of_class / np.add.reduceat(masses, starts), sizes))

    low, high = -_STEEPEST, _STEEPEST
    for _ in range(_HALVINGS):
        tilt = (low + high) / 2
        if float(probabilities(tilt) @ lengths) < mean:
            low = tilt
        else:
            high = tilt
    masses = probabilities((low + high) / 2)
    positive = masses > 0
    return tuple(lengths[positive].astype(int).tolist()), tuple((masses[positive] / masses.sum()).tolist())


def _points(edges: Sequence[int], shares: Sequence[float]) -> list[tuple[Floats, Floats, float]]:
    """Of every class that has requests: lengths, how many each stands for, and the class's share."""
    return [
        (*_cells(start, end), share) for (start, end), share in zip(pairwise(edges), shares, strict=True) if share > 0
    ]


def _cells(start: int, end: int) -> tuple[Floats, Floats]:
    """The middle lengths of the cells of a class, and their widths."""
    many = min(end - start, MOST_POINTS)
    bounds = start + np.round(np.arange(many + 1) * ((end - start) / many))
    widths = np.diff(bounds)
    return np.floor(bounds[:-1] + (widths + 1) / 2), widths
