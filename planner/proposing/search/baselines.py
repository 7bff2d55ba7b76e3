"""Searches without a model, to measure Bayesian optimisation against.

Fronts are told apart by hand: to load torch for BoTorch's takes 1.3 CPU-seconds, as long as a whole search of theirs.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.domain import Goal, Trial
from planner.proposing.search.space import Parameter, Space

RANDOM = "random"
FINEST = 2**20  # points of a grid: more are not laid out
PARENTS = 12
CROSSING = 0.7  # of children have two parents
CHANGING = 0.5  # of a child's types are changed
MOVING = 2  # axes of a changed type, on average: more slots moved at once would all be filled
RESETTING = 0.15  # of the changes draw the type anew
STEP = 0.12  # of an axis: deviation of a change


class _Unteachable:
    """A proposer that is blind to results."""

    ready = True

    def tell(self, trials: Sequence[Trial]) -> None:
        """Nothing to learn."""

    def saved(self) -> bytes | None:
        """No library keeps it."""
        return None


class SpreadProposer(_Unteachable):
    """A first look at the whole space."""

    name = "spread"

    def __init__(self, space: Space) -> None:
        self.space = space

    def propose(self, count: int, _iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """`count` points over the whole space."""
        return self.space.spread(count, rng)


class RandomProposer(_Unteachable):
    """Independent draws."""

    name = RANDOM

    def __init__(self, space: Space) -> None:
        self.space = space

    def propose(self, count: int, _iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """`count` draws from the space."""
        return [self.space.sample(rng) for _ in range(count)]


class SobolProposer(_Unteachable):
    """One scrambled low-discrepancy sequence over all rounds."""

    name = "sobol"

    def __init__(self, space: Space, seed: int, batch_size: int) -> None:
        self.space, self.seed, self.batch_size = space, seed, batch_size

    def propose(self, count: int, iteration: int, _rng: np.random.Generator) -> list[dict[str, float]]:
        """The first `count` points of the round's part of the sequence."""
        from scipy.stats import qmc  # noqa: PLC0415  (half a second to load: only who spreads points pays)

        sequence = qmc.Sobol(len(self.space.parameters), rng=np.random.default_rng(self.seed))
        if iteration:  # the library cannot skip nothing
            sequence.fast_forward(iteration * self.batch_size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a round need not be a power of 2, the sequence is one
            rows = sequence.random(count)
        return [self.space.at(row.tolist()) for row in rows]


class GridProposer(_Unteachable):
    """A grid as fine as the whole budget allows, in random order; what is left of the budget is for chance."""

    name = "grid"

    def __init__(self, space: Space, seed: int, iterations: int, batch_size: int) -> None:
        self.space, self.batch_size = space, batch_size
        self.levels = grid_levels(space.parameters, min(iterations * batch_size, FINEST))
        self.order = np.random.default_rng(seed).permutation(math.prod(self.levels))

    def propose(self, count: int, iteration: int, _rng: np.random.Generator) -> list[dict[str, float]]:
        """The first `count` points of the round's part of the grid: centres of its cells."""
        first = iteration * self.batch_size
        return [self.space.at(self._centre(int(cell))) for cell in self.order[first : first + count]]

    def _centre(self, cell: int) -> list[float]:
        unit = []
        for levels in self.levels:
            cell, level = divmod(cell, levels)
            unit.append((level + 0.5) / levels)
        return unit


def grid_levels(axes: Sequence[Parameter], budget: int) -> tuple[int, ...]:
    """Levels of each axis, so that the grid has at most `budget` points: the widest level is cut first.

    An axis of whole numbers has no more levels than numbers.
    """
    levels = [1] * len(axes)
    limits = [int(axis.high - axis.low) + 1 if axis.whole else budget for axis in axes]
    while True:
        points = math.prod(levels)
        free = [k for k, n in enumerate(levels) if n < limits[k] and points // n * (n + 1) <= budget]
        if not free:
            return tuple(levels)
        widest = max(free, key=lambda k: ((axes[k].high - axes[k].low) / levels[k], -k))
        levels[widest] += 1


class GeneticProposer:
    """Evolution: the fittest of all trials are parents; types share little, so children take theirs whole from either.

    A change moves a type's values a little (normal), or draws the type anew. With several goals the fittest are those
    of the first fronts, and of a front those that have most room around them (NSGA-II: Deb et al. 2002).
    """

    name = "genetic"

    def __init__(self, space: Space, goals: tuple[Goal, ...]) -> None:
        self.space, self.goals = space, goals
        self.told: list[Trial] = []
        self.types = tuple(dict.fromkeys(axis.gpu for axis in space.parameters))

    @property
    def ready(self) -> bool:
        """Once there are parents."""
        return len(self.told) > 1

    def propose(self, count: int, _iteration: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Children of the fittest so far."""
        parents = [dict(self.told[index].parameters) for index in self._fittest()]
        return [self._child(parents, rng) for _ in range(count)]

    def _fittest(self) -> list[int]:
        """Places of the parents among the trials told, the fittest first."""
        if self.goals:
            return by_fronts(np.array([_values(trial, self.goals) for trial in self.told]), PARENTS)
        return sorted(range(len(self.told)), key=lambda k: (-self.told[k].throughput_rps, k))[:PARENTS]

    def _child(self, parents: list[dict[str, float]], rng: np.random.Generator) -> dict[str, float]:
        first, other = (parents[int(rng.integers(len(parents), size=2).min())] for _ in range(2))  # tournaments of two
        crossed, changed = rng.random() < CROSSING, rng.random(len(self.types)) < CHANGING
        # One type changes at least: a copy of its parents would only be drawn anew.
        changed[int(rng.integers(len(self.types)))] = True
        drawn, child = self.space.sample(rng), {}
        for gpu, changes in zip(self.types, changed, strict=True):
            giver = other if crossed and rng.random() < 0.5 else first
            reset = changes and rng.random() < RESETTING
            axes = [axis for axis in self.space.parameters if axis.gpu == gpu]
            for axis in axes:
                moves = changes and rng.random() < MOVING / len(axes)
                step = STEP * (axis.high - axis.low) * rng.standard_normal() if moves else 0.0
                value = drawn[axis.name] if reset else giver[axis.name] + step
                child[axis.name] = min(max(value, axis.low), axis.high)
        return self.space.canonical(child)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Candidates for parents."""
        self.told += [trial for trial in trials if trial.parameters and not trial.failed]

    def saved(self) -> bytes | None:
        """No library keeps it."""
        return None


def _values(trial: Trial, goals: Sequence[Goal]) -> list[float]:
    """The goals of a trial, all to be maximised; a layout that serves nothing is beaten by all that do."""
    values = dict(trial.goals)
    if not trial.throughput_rps > 0 or any(goal.value not in values for goal in goals):
        return [-math.inf] * len(goals)
    return [values[goal.value] * (1 if goal.maximised else -1) for goal in goals]


def by_fronts(values: NDArray[np.float64], count: int) -> list[int]:
    """The `count` fittest rows of `values` (trials x goals, to be maximised), the fittest first."""
    chosen: list[int] = []
    remaining = np.arange(len(values))
    while len(remaining) and len(chosen) < count:
        rows = values[remaining]
        beaten = np.array([bool(((rows >= row).all(axis=1) & (rows > row).any(axis=1)).any()) for row in rows])
        front = remaining[~beaten]
        chosen += front[np.argsort(-_room(values[front]), kind="stable")].tolist()
        remaining = remaining[beaten]
    return chosen[:count]


def _room(front: NDArray[np.float64]) -> NDArray[np.float64]:
    """Crowding distance: the span between a row's neighbours, as a share of the front's, summed over the goals."""
    room = np.zeros(len(front))
    for column in front.T:
        order = np.argsort(column, kind="stable")
        # The ends of a front, which have no neighbour on one side, always stay.
        room[order[[0, -1]]] = math.inf
        # What serves nothing is at minus infinity, and such a front has no span.
        if np.isfinite(column).all() and column[order[0]] < column[order[-1]]:
            room[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / (column[order[-1]] - column[order[0]])
    return room
