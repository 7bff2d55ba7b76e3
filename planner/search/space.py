"""Encodings: what the search varies, and which layout a point stands for.

Both encodings are boxes of real parameters; integers are relaxed and rounded on decoding, because a smooth box is what
a Gaussian process models and an acquisition function climbs cheaply.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planner.domain import Inventory, IslandClass, Layout, SearchMethod, SearchSettings
from planner.errors import InputError
from planner.search.divider import divide

Point = Mapping[str, float]


def _axis(kind: str, gpu: str) -> str:
    """A parameter's name; Ax parses constraints between names, so a GPU's hyphens become underscores."""
    return f"{kind}_{re.sub(r'[^A-Za-z0-9]', '_', gpu)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One axis of the box; it shapes the islands of the type `gpu`."""

    name: str
    gpu: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLimit:
    """The parameters in `names` may not sum to more than `most`."""

    names: tuple[str, ...]
    most: float


class Space(Protocol):
    """An encoding."""

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

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """A point drawn at random."""

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """`count` points spread over the space: a first look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DividerSpace:
    """Two parameters a type: number of islands and skew. A type with islands spends all its GPUs."""

    counts: tuple[tuple[str, int], ...]
    least: int
    skew: float

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """islands_<gpu> in [0, I // I_min], skew_<gpu> in [-skew, skew]."""
        axes: list[Parameter] = []
        for gpu, total in self.counts:
            axes.append(Parameter(name=_axis("islands", gpu), gpu=gpu, low=0.0, high=float(total // self.least)))
            axes.append(Parameter(name=_axis("skew", gpu), gpu=gpu, low=-self.skew, high=self.skew))
        return tuple(axes)

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """None: the divider never spends more than the inventory."""
        return ()

    def canonical(self, point: Point) -> dict[str, float]:
        """Counts rounded to integers."""
        return {
            name: float(round(value)) if name.startswith("islands_") else float(value) for name, value in point.items()
        }

    def layout(self, point: Point) -> Layout:
        """Divide each type's GPUs."""
        return Layout.of(
            IslandClass(gpu=gpu, size=size)
            for gpu, total in self.counts
            for size in divide(total, round(point[_axis("islands", gpu)]), point[_axis("skew", gpu)], self.least)
        )

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """Counts uniform over the integers, skews uniform."""
        point: dict[str, float] = {}
        for gpu, total in self.counts:
            point[_axis("islands", gpu)] = float(rng.integers(0, total // self.least + 1))
            point[_axis("skew", gpu)] = float(rng.uniform(-self.skew, self.skew))
        return point

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Scrambled Sobol points."""
        axes = self.parameters
        from scipy.stats import qmc  # noqa: PLC0415  (half a second to load: only who spreads points pays)

        unit = qmc.Sobol(len(axes), rng=rng).random_base2((count - 1).bit_length())[:count]
        return [{a.name: a.low + (a.high - a.low) * u for a, u in zip(axes, row, strict=True)} for row in unit]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectSpace:
    """K slots a type, each the size of one island; a slot below the minimum size stays empty."""

    counts: tuple[tuple[str, int], ...]
    least: int
    slots: int

    def _names(self, gpu: str) -> tuple[str, ...]:
        return tuple(f"{_axis('slot', gpu)}_{k}" for k in range(self.slots))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """slot_<gpu>_<k> in [0, I]."""
        return tuple(
            Parameter(name=name, gpu=gpu, low=0.0, high=float(total))
            for gpu, total in self.counts
            for name in self._names(gpu)
        )

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """The slots of a type hold no more than its GPUs."""
        return tuple(SumLimit(names=self._names(gpu), most=float(total)) for gpu, total in self.counts)

    def canonical(self, point: Point) -> dict[str, float]:
        """Sizes as integers within the inventory, largest slot first: slots are exchangeable."""
        done: dict[str, float] = {}
        for gpu, total in self.counts:
            sizes = _fit([point[name] for name in self._names(gpu)], total, self.least)
            done.update(zip(self._names(gpu), map(float, sizes), strict=True))
        return done

    def layout(self, point: Point) -> Layout:
        """One island a filled slot."""
        held = self.canonical(point)
        return Layout.of(
            IslandClass(gpu=gpu, size=int(held[name]))
            for gpu, _ in self.counts
            for name in self._names(gpu)
            if held[name] > 0
        )

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """Each type's GPUs cut at random over its slots and one share left idle (Dirichlet)."""
        point: dict[str, float] = {}
        for gpu, total in self.counts:
            shares = rng.dirichlet(np.ones(self.slots + 1))[: self.slots] * total
            point.update(zip(self._names(gpu), map(float, shares), strict=True))
        return point

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Independent draws: a Sobol sequence would leave the simplex."""
        return [self.sample(rng) for _ in range(count)]


def _fit(values: list[float], total: int, least: int) -> list[int]:
    """Rounded sizes, descending, below `least` emptied, and the last ones cut where rounding overran `total`."""
    left, sizes = total, []
    for value in sorted(values, reverse=True):
        size = min(round(value), left)
        size = size if size >= least else 0
        sizes.append(size)
        left -= size
    return sorted(sizes, reverse=True)


def space_of(inventory: Inventory, settings: SearchSettings) -> Space:
    """The encoding that `settings` ask for; random search draws from the divider.

    Raises InputError where no type has enough GPUs for one island.
    """
    counts = tuple((i.gpu.name, i.count) for i in inventory.items if i.count >= settings.min_island_size)
    if not counts:
        raise InputError(
            f"search.min_island_size: some GPU type must have at least {settings.min_island_size} GPUs.",
            hint="Lower search.min_island_size or enlarge the inventory.",
        )
    if settings.method is SearchMethod.DIRECT:
        return DirectSpace(counts=counts, least=settings.min_island_size, slots=settings.slots)
    return DividerSpace(counts=counts, least=settings.min_island_size, skew=settings.skew)
