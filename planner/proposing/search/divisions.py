"""Encoding of a fleet's division: how many nodes of each type every deployment has.

One axis a GPU type and deployment, its nodes; those of a type sum to no more than there are. What a deployment serves
grows with its own axes alone, so that a model of the whole learns from every division that gives it the same nodes.
A division is a layout whose islands are the nodes that a deployment has of a type, named by both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from planner.domain import Layout, Stock
from planner.proposing.search.space import Parameter, Point, SumLimit, island_layout, scrambled, type_words

DivisionCounts = tuple[tuple[int, ...], ...]
"""Nodes: a row a deployment, a column a GPU type."""


@dataclass(frozen=True, kw_only=True)
class DivisionSpace:
    """Nodes of every type for every deployment. `stocks`: a type each, whose units are nodes."""

    stocks: tuple[Stock, ...]
    deployments: tuple[str, ...]
    min_island_size: int = 1

    @cached_property
    def _names(self) -> list[list[str]]:
        """The axes of each type, a deployment each."""
        words = iter(type_words([f"{stock.gpu}_{name}" for stock in self.stocks for name in self.deployments]))
        return [[f"nodes_{next(words)}" for _ in self.deployments] for _ in self.stocks]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """nodes_<gpu>_<deployment>, from none to all."""
        return tuple(
            Parameter(name=name, gpu=stock.gpu, low=0.0, high=float(stock.units))
            for stock, names in zip(self.stocks, self._names, strict=True)
            for name in names
        )

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """Deployments together have no more nodes of a type than there are."""
        return tuple(
            SumLimit(names=tuple(names), upper=float(stock.units))
            for stock, names in zip(self.stocks, self._names, strict=True)
        )

    @property
    def size(self) -> int:
        """How many divisions there are."""
        return math.prod(math.comb(stock.units + len(self.deployments), stock.units) for stock in self.stocks)

    def counts(self, point: Point) -> DivisionCounts:
        """The division that `point` stands for."""
        columns = [
            _within([point[name] for name in names], stock.units)
            for stock, names in zip(self.stocks, self._names, strict=True)
        ]
        return tuple(zip(*columns, strict=True))

    def point(self, counts: DivisionCounts) -> dict[str, float]:
        """The point of a division."""
        columns = zip(*counts, strict=True)
        return {
            name: float(nodes)
            for names, column in zip(self._names, columns, strict=True)
            for name, nodes in zip(names, column, strict=True)
        }

    def canonical(self, point: Point) -> dict[str, float]:
        """Whole nodes, no more than there are."""
        return self.point(self.counts(point))

    def layout(self, point: Point) -> Layout:
        """The nodes of each deployment and type."""
        nodes = self.canonical(point)
        return island_layout(
            (name, int(nodes[name]) * stock.unit)
            for stock, names in zip(self.stocks, self._names, strict=True)
            for name in names
            if nodes[name]
        )

    def encode(self, layout: Layout) -> dict[str, float]:
        """The point of a division's layout."""
        gpus = {island.gpu: island.size for island, _ in layout.counts}
        return {
            name: float(gpus.get(name, 0) // stock.unit)
            for stock, names in zip(self.stocks, self._names, strict=True)
            for name in names
        }

    def at(self, unit: Sequence[float]) -> dict[str, float]:
        """All nodes of each type cut over the deployments, each taking its share of what those before it leave: even
        over the simplex. The last takes what there is, whatever its fraction."""
        point: dict[str, float] = {}
        fractions = iter(unit)
        for names, stock in zip(self._names, self.stocks, strict=True):
            free = 1.0
            shares = []
            for place in range(len(names)):
                after = len(names) - 1 - place
                fraction = float(next(fractions))
                shares.append(free * (1 - (1 - fraction) ** (1 / after)) if after else free)
                free -= shares[-1]
            point.update(zip(names, _cut(shares, stock.units), strict=True))
        return point

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """All nodes of each type cut over the deployments at random (Dirichlet)."""
        point: dict[str, float] = {}
        for names, stock in zip(self._names, self.stocks, strict=True):
            point.update(zip(names, _cut(rng.dirichlet(np.ones(len(names))).tolist(), stock.units), strict=True))
        return point

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Scrambled Sobol points, folded into the simplex."""
        return scrambled(self, count, rng)


def _cut(shares: Sequence[float], units: int) -> list[float]:
    """Whole units by shares that sum to 1, none over: cut where the sums of the shares are."""
    cuts = [0, *(round(units * math.fsum(shares[: place + 1])) for place in range(len(shares) - 1)), units]
    return [float(after - before) for before, after in pairwise(cuts)]


def _within(values: Sequence[float], units: int) -> list[int]:
    """Rounded; where that sums to more than there are, those give one back that were rounded up most."""
    nodes = [max(0, round(value)) for value in values]
    while sum(nodes) > units:
        place = max((k for k, n in enumerate(nodes) if n), key=lambda k: (nodes[k] - values[k], nodes[k]))
        nodes[place] -= 1
    return nodes
