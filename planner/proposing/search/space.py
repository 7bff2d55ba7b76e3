"""Encodings: what the search varies, which layout a point stands for, and which point stands for a layout.

Both encodings are boxes of real parameters; integers are relaxed and rounded on decoding, because a smooth box is what
a Gaussian process models and an acquisition function climbs cheaply. Both count in the units of a stock: GPUs, or hosts
where islands are whole nodes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from planner.domain import IslandClass, Layout, Stock
from planner.proposing.search.divider import Division, skew_of

Point = Mapping[str, float]


def type_words(gpus: Sequence[str]) -> list[str]:
    """What stands for each GPU in parameter names: no two alike.

    Ax parses constraints between names, so punctuation becomes underscores.
    """
    words: list[str] = []
    for gpu in gpus:
        plain = word = re.sub(r"[^A-Za-z0-9]", "_", gpu)
        again = 1
        while word in words:
            again += 1
            word = f"{plain}_{again}"
        words.append(word)
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One axis of the box; it shapes the islands of the type `gpu`. `whole`: rounded on decoding."""

    name: str
    gpu: str
    low: float
    high: float
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLimit:
    """The parameters in `names` may not sum to more than `upper`."""

    names: tuple[str, ...]
    upper: float


class Space(Protocol):
    """An encoding."""

    @property
    def stocks(self) -> tuple[Stock, ...]:
        """What islands are made of: at least one stock of each GPU type that can form any."""

    @property
    def min_island_size(self) -> int:
        """Fewest GPUs of an island."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The axes."""

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """Linear constraints between axes."""

    def canonical(self, point: Point) -> dict[str, float]:
        """The representative of all points that stand for the same layout by the encoding's own symmetry."""

    def layout(self, point: Point) -> Layout:
        """The layout that `point` stands for."""

    def encode(self, layout: Layout) -> dict[str, float]:
        """The canonical point whose layout is `layout`, or comes nearest to it."""

    def at(self, unit: Sequence[float]) -> dict[str, float]:
        """The point at these fractions, one an axis in 0..1: even in the fractions, even over the space."""

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """A point drawn at random."""

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """`count` points spread over the space: a first look."""


@dataclass(frozen=True, kw_only=True)
class DividerSpace:
    """Two parameters a stock: number of islands and skew. A stock with islands spends all its units, but for what
    whole groups leave over.

    `rents`: one more, how many units of the stock are spent; the others are not rented.
    """

    stocks: tuple[Stock, ...]
    min_island_size: int
    skews: tuple[float, float]
    rents: bool = False

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """islands_<gpu> from 0 to the most of the stock, skew_<gpu> in the skews; with rents also the units spent."""
        axes: list[Parameter] = []
        for stock, (islands, skew, spent) in self._axes:
            axes.append(Parameter(name=islands, gpu=stock.gpu, low=0.0, high=float(stock.most_islands)))
            axes.append(Parameter(name=skew, gpu=stock.gpu, low=self.skews[0], high=self.skews[1], whole=False))
            if self.rents:
                axes.append(Parameter(name=spent, gpu=stock.gpu, low=0.0, high=float(stock.units)))
        return tuple(axes)

    @cached_property
    def _axes(self) -> list[tuple[Stock, tuple[str, str, str]]]:
        """Each stock with the names of its number of islands, its skew and the units that are spent."""
        words = type_words([stock.gpu for stock in self.stocks])
        return [
            (stock, (f"islands_{word}", f"skew_{word}", f"{'gpus' if stock.unit == 1 else 'units'}_{word}"))
            for word, stock in zip(words, self.stocks, strict=True)
        ]

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """None: the divider never spends more than the inventory."""
        return ()

    def canonical(self, point: Point) -> dict[str, float]:
        """Counts rounded to integers that fit, and a skew that makes no difference set to nothing."""
        done: dict[str, float] = {}
        for stock, (islands, skew, spent) in self._axes:
            division = self._division(stock, point, islands, spent)
            distinct = division.distinct(self.skews)
            done[islands] = float(division.count)
            done[skew] = min(max(float(point[skew]), distinct[0]), distinct[1]) if distinct else self._no_skew
            if self.rents:
                done[spent] = float(division.total * division.gpus // stock.unit if division.count else 0)
        return done

    def _division(self, stock: Stock, point: Point, islands: str, spent: str) -> Division:
        return Division.of(stock, round(point[spent]) if self.rents else stock.units, round(point[islands]))

    @property
    def _no_skew(self) -> float:
        return min(max(0.0, self.skews[0]), self.skews[1])

    def layout(self, point: Point) -> Layout:
        """Divide each stock."""
        return island_layout(
            (stock.gpu, size)
            for stock, (islands, skew, spent) in self._axes
            for size in self._division(stock, point, islands, spent).sizes(point[skew])
        )

    def encode(self, layout: Layout) -> dict[str, float]:
        """Per stock the count, and the skew whose sizes differ least (the largest islands where there are too many).

        Exact for every layout that a point of the space stands for.
        """
        point: dict[str, float] = {}
        by_stock = _sizes(layout, self.stocks)
        for (stock, (islands, skew, spent)), sizes in zip(self._axes, by_stock, strict=True):
            # With rents the layout itself says what it spends.
            units = min(stock.units, sum(sizes) // stock.unit) if self.rents else stock.units
            largest = sizes[: stock.most_islands_of(units)]
            division = Division.of(stock, units, len(largest))
            parcels, distinct = [size // division.gpus for size in largest], division.distinct(self.skews)
            point[islands] = float(len(largest))
            point[skew] = skew_of(parcels, division.total, division.min_size, distinct) if distinct else self._no_skew
            if self.rents:
                point[spent] = float(units)
        return self.canonical(point)

    def at(self, unit: Sequence[float]) -> dict[str, float]:
        """Fractions of each axis."""
        return {
            axis.name: axis.low + (axis.high - axis.low) * float(u)
            for axis, u in zip(self.parameters, unit, strict=True)
        }

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """Counts uniform over the integers, skews uniform."""
        return uniform(self.parameters, rng)

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Scrambled Sobol points."""
        return scrambled(self, count, rng)


@dataclass(frozen=True, kw_only=True)
class DirectSpace:
    """K slots a stock, each the units of one island; a slot below the minimum size stays empty."""

    stocks: tuple[Stock, ...]
    min_island_size: int
    slots: int

    @cached_property
    def _names(self) -> list[tuple[str, ...]]:
        """The slots of each stock."""
        words = type_words([stock.gpu for stock in self.stocks])
        return [tuple(f"slot_{word}_{k}" for k in range(self.slots)) for word in words]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """slot_<gpu>_<k> in [0, I]."""
        return tuple(
            Parameter(name=name, gpu=stock.gpu, low=0.0, high=float(stock.units))
            for names, stock in zip(self._names, self.stocks, strict=True)
            for name in names
        )

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """The slots of a stock hold no more than its units."""
        return tuple(
            SumLimit(names=names, upper=float(stock.units))
            for names, stock in zip(self._names, self.stocks, strict=True)
        )

    def canonical(self, point: Point) -> dict[str, float]:
        """Sizes as integers within the inventory, largest slot first: slots are exchangeable."""
        done: dict[str, float] = {}
        for names, stock in zip(self._names, self.stocks, strict=True):
            sizes = _fit([point[name] for name in names], stock)
            done.update(zip(names, map(float, sizes), strict=True))
        return done

    def layout(self, point: Point) -> Layout:
        """One island a filled slot."""
        sizes = self.canonical(point)
        return island_layout(
            (stock.gpu, int(sizes[name]) * stock.unit)
            for names, stock in zip(self._names, self.stocks, strict=True)
            for name in names
            if sizes[name] > 0
        )

    def encode(self, layout: Layout) -> dict[str, float]:
        """A slot an island, the largest first; exact where the slots suffice, else the largest K islands."""
        point: dict[str, float] = {}
        by_stock = _sizes(layout, self.stocks)
        for names, stock, gpus in zip(self._names, self.stocks, by_stock, strict=True):
            sizes = [size // stock.unit for size in gpus[: self.slots]]
            point.update(zip(names, map(float, sizes + [0] * (self.slots - len(sizes))), strict=True))
        return self.canonical(point)

    def at(self, unit: Sequence[float]) -> dict[str, float]:
        """Each stock cut over its slots and one share left idle; the fractions cut slot after slot.

        A slot takes the share 1 - (1 - u)^(1 / slots yet to come) of what is left: u uniform, the cut is uniform over
        the simplex (Dirichlet by its Beta marginals).
        """
        point: dict[str, float] = {}
        fractions = iter(unit)
        for names, stock in zip(self._names, self.stocks, strict=True):
            remaining = float(stock.units)
            for place, name in enumerate(names):
                point[name] = remaining * (1 - (1 - float(next(fractions))) ** (1 / (self.slots - place)))
                remaining -= point[name]
        return point

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """Each stock cut at random over its slots and one share left idle (Dirichlet)."""
        point: dict[str, float] = {}
        for names, stock in zip(self._names, self.stocks, strict=True):
            shares = rng.dirichlet(np.ones(self.slots + 1))[: self.slots] * stock.units
            point.update(zip(names, map(float, shares), strict=True))
        return point

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Scrambled Sobol points, folded into the simplex."""
        return scrambled(self, count, rng)


def island_layout(islands: Iterable[tuple[str, int]]) -> Layout:
    """`Layout.of` for islands by GPU type and size: a search draws thousands of them, and pairs are counted sooner."""
    counts = sorted(Counter(islands).items())
    return Layout(counts=tuple((IslandClass(gpu=gpu, size=size), count) for (gpu, size), count in counts))


def uniform(parameters: Sequence[Parameter], rng: np.random.Generator) -> dict[str, float]:
    """A point of a space: whole axes uniform over the integers, the others uniform."""
    return {
        axis.name: float(rng.integers(0, int(axis.high) + 1) if axis.whole else rng.uniform(axis.low, axis.high))
        for axis in parameters
    }


def scrambled(space: Space, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
    """`count` Sobol points of a space, scrambled."""
    from scipy.stats import qmc  # noqa: PLC0415  (half a second to load: only who spreads points pays)

    # Sobol points are balanced in powers of two alone: more are drawn, the first ones taken.
    rows = qmc.Sobol(len(space.parameters), rng=rng).random_base2((count - 1).bit_length())[:count]
    return [space.at(row.tolist()) for row in rows]


def _sizes(layout: Layout, stocks: Sequence[Stock]) -> list[list[int]]:
    """The islands of each stock in GPUs, descending, those below its least left out. Of a type with two stocks, whole
    nodes and parts of a node, the first takes what it can."""
    remaining = {stock.gpu: _descending(layout, stock.gpu) for stock in stocks}
    by_stock: list[list[int]] = []
    for stock in stocks:
        by_stock.append([size for size in remaining[stock.gpu] if size >= stock.least * stock.unit])
        remaining[stock.gpu] = remaining[stock.gpu][len(by_stock[-1]) :]
    return by_stock


def _descending(layout: Layout, gpu: str) -> list[int]:
    return sorted((i.size for i, count in layout.counts if i.gpu == gpu for _ in range(count)), reverse=True)


def _fit(values: list[float], stock: Stock) -> list[int]:
    """Rounded sizes, descending, below the least emptied, and the last ones cut where rounding overran the stock."""
    remaining, sizes = stock.units, []
    # Large ones first, so that what rounding overran is cut from the smallest.
    for value in sorted(values, reverse=True):
        size = stock.admitted(min(round(value), remaining))
        size = size if size >= stock.least else 0
        sizes.append(size)
        remaining -= size
    return sorted(sizes, reverse=True)
