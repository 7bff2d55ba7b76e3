"""Encodings: what the search varies, which layout a point stands for, and which point stands for a layout.

Both encodings are boxes of real parameters; integers are relaxed and rounded on decoding, because a smooth box is what
a Gaussian process models and an acquisition function climbs cheaply.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planner.domain import Encoding, Inventory, IslandClass, Layout, SearchSettings
from planner.errors import InputError
from planner.search.divider import divide, skew_of

Point = Mapping[str, float]


def _words(gpus: Sequence[str]) -> list[str]:
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
    """The parameters in `names` may not sum to more than `most`."""

    names: tuple[str, ...]
    most: float


class Space(Protocol):
    """An encoding."""

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """GPU types that can form an island, and how many GPUs there are of each."""

    @property
    def least(self) -> int:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DividerSpace:
    """Two parameters a type: number of islands and skew. A type with islands spends all its GPUs.

    `rents`: one more, how many GPUs of the type are spent; the others are not rented.
    """

    counts: tuple[tuple[str, int], ...]
    least: int
    skews: tuple[float, float]
    rents: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """islands_<gpu> in [0, I // I_min], skew_<gpu> in the skews; with rents also gpus_<gpu> in [0, I]."""
        axes: list[Parameter] = []
        for word, (gpu, total) in zip(self._words(), self.counts, strict=True):
            axes.append(Parameter(name=f"islands_{word}", gpu=gpu, low=0.0, high=float(total // self.least)))
            axes.append(Parameter(name=f"skew_{word}", gpu=gpu, low=self.skews[0], high=self.skews[1], whole=False))
            if self.rents:
                axes.append(Parameter(name=f"gpus_{word}", gpu=gpu, low=0.0, high=float(total)))
        return tuple(axes)

    def _words(self) -> list[str]:
        return _words([gpu for gpu, _ in self.counts])

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """None: the divider never spends more than the inventory."""
        return ()

    def canonical(self, point: Point) -> dict[str, float]:
        """Counts rounded to integers that fit, and a skew that makes no difference set to nothing."""
        done: dict[str, float] = {}
        for word, (_, total) in zip(self._words(), self.counts, strict=True):
            spent = round(point[f"gpus_{word}"]) if self.rents else total
            count = min(round(point[f"islands_{word}"]), spent // self.least)
            skewed = count > 1 and spent > count * self.least
            done[f"islands_{word}"] = float(count)
            done[f"skew_{word}"] = float(point[f"skew_{word}"]) if skewed else self._no_skew
            if self.rents:
                done[f"gpus_{word}"] = float(spent if count else 0)
        return done

    @property
    def _no_skew(self) -> float:
        return min(max(0.0, self.skews[0]), self.skews[1])

    def layout(self, point: Point) -> Layout:
        """Divide each type's GPUs."""
        return Layout.of(
            IslandClass(gpu=gpu, size=size)
            for word, (gpu, total) in zip(self._words(), self.counts, strict=True)
            for size in divide(
                round(point[f"gpus_{word}"]) if self.rents else total,
                round(point[f"islands_{word}"]),
                point[f"skew_{word}"],
                self.least,
            )
        )

    def encode(self, layout: Layout) -> dict[str, float]:
        """Per type the count, and the skew whose sizes differ least (the largest islands where there are too many).

        Exact for every layout that a point of the space stands for.
        """
        point: dict[str, float] = {}
        for word, (gpu, total) in zip(self._words(), self.counts, strict=True):
            sizes = _sizes(layout, gpu, self.least)
            spent = min(total, sum(sizes)) if self.rents else total
            sizes = sizes[: spent // self.least]
            point[f"islands_{word}"] = float(len(sizes))
            point[f"skew_{word}"] = skew_of(sizes, spent, self.least, self.skews)
            if self.rents:
                point[f"gpus_{word}"] = float(spent)
        return self.canonical(point)

    def at(self, unit: Sequence[float]) -> dict[str, float]:
        """Fractions of each axis."""
        return {
            axis.name: axis.low + (axis.high - axis.low) * float(u)
            for axis, u in zip(self.parameters, unit, strict=True)
        }

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """Counts uniform over the integers, skews uniform."""
        return {
            axis.name: float(rng.integers(0, int(axis.high) + 1) if axis.whole else rng.uniform(axis.low, axis.high))
            for axis in self.parameters
        }

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Scrambled Sobol points."""
        return _scrambled(self, count, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectSpace:
    """K slots a type, each the size of one island; a slot below the minimum size stays empty."""

    counts: tuple[tuple[str, int], ...]
    least: int
    slots: int

    def _names(self) -> list[tuple[str, ...]]:
        """The slots of each type."""
        words = _words([gpu for gpu, _ in self.counts])
        return [tuple(f"slot_{word}_{k}" for k in range(self.slots)) for word in words]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """slot_<gpu>_<k> in [0, I]."""
        return tuple(
            Parameter(name=name, gpu=gpu, low=0.0, high=float(total))
            for names, (gpu, total) in zip(self._names(), self.counts, strict=True)
            for name in names
        )

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """The slots of a type hold no more than its GPUs."""
        return tuple(
            SumLimit(names=names, most=float(total))
            for names, (_, total) in zip(self._names(), self.counts, strict=True)
        )

    def canonical(self, point: Point) -> dict[str, float]:
        """Sizes as integers within the inventory, largest slot first: slots are exchangeable."""
        done: dict[str, float] = {}
        for names, (_, total) in zip(self._names(), self.counts, strict=True):
            sizes = _fit([point[name] for name in names], total, self.least)
            done.update(zip(names, map(float, sizes), strict=True))
        return done

    def layout(self, point: Point) -> Layout:
        """One island a filled slot."""
        sizes = self.canonical(point)
        return Layout.of(
            IslandClass(gpu=gpu, size=int(sizes[name]))
            for names, (gpu, _) in zip(self._names(), self.counts, strict=True)
            for name in names
            if sizes[name] > 0
        )

    def encode(self, layout: Layout) -> dict[str, float]:
        """A slot an island, the largest first; exact where the slots suffice, else the largest K islands."""
        point: dict[str, float] = {}
        for names, (gpu, _) in zip(self._names(), self.counts, strict=True):
            sizes = _sizes(layout, gpu, self.least)[: self.slots]
            point.update(zip(names, map(float, sizes + [0] * (self.slots - len(sizes))), strict=True))
        return self.canonical(point)

    def at(self, unit: Sequence[float]) -> dict[str, float]:
        """Each type's GPUs cut over its slots and one share left idle; the fractions cut slot after slot.

        A slot takes the share 1 - (1 - u)^(1 / slots yet to come) of what is left: u uniform, the cut is uniform over
        the simplex (Dirichlet by its Beta marginals).
        """
        point: dict[str, float] = {}
        fractions = iter(unit)
        for names, (_, total) in zip(self._names(), self.counts, strict=True):
            remaining = float(total)
            for place, name in enumerate(names):
                point[name] = remaining * (1 - (1 - float(next(fractions))) ** (1 / (self.slots - place)))
                remaining -= point[name]
        return point

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """Each type's GPUs cut at random over its slots and one share left idle (Dirichlet)."""
        point: dict[str, float] = {}
        for names, (_, total) in zip(self._names(), self.counts, strict=True):
            shares = rng.dirichlet(np.ones(self.slots + 1))[: self.slots] * total
            point.update(zip(names, map(float, shares), strict=True))
        return point

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """Scrambled Sobol points, folded into the simplex."""
        return _scrambled(self, count, rng)


def _scrambled(space: Space, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
    from scipy.stats import qmc  # noqa: PLC0415  (half a second to load: only who spreads points pays)

    rows = qmc.Sobol(len(space.parameters), rng=rng).random_base2((count - 1).bit_length())[:count]
    return [space.at(row.tolist()) for row in rows]


def _sizes(layout: Layout, gpu: str, least: int) -> list[int]:
    """The islands of a type, descending, those below `least` left out."""
    sizes = [i.size for i, count in layout.counts if i.gpu == gpu and i.size >= least for _ in range(count)]
    return sorted(sizes, reverse=True)


def _fit(values: list[float], total: int, least: int) -> list[int]:
    """Rounded sizes, descending, below `least` emptied, and the last ones cut where rounding overran `total`."""
    remaining, sizes = total, []
    for value in sorted(values, reverse=True):
        size = min(round(value), remaining)
        size = size if size >= least else 0
        sizes.append(size)
        remaining -= size
    return sorted(sizes, reverse=True)


def space_of(inventory: Inventory, settings: SearchSettings, rents: bool = False) -> Space:
    """The encoding that `settings` ask for; `rents`: it also chooses how many GPUs a layout spends.

    Raises InputError where no type has enough GPUs for one island, or the slots are too few for two.
    """
    counts = tuple((i.gpu.name, i.count) for i in inventory.items if i.count >= settings.min_island_size)
    if not counts:
        raise InputError(
            f"search.min_island_size: some GPU type must have at least {settings.min_island_size} GPUs.",
            hint="Lower search.min_island_size or enlarge the inventory.",
        )
    if settings.encoded is Encoding.DIRECT:
        if settings.slots_too_few(inventory):
            raise InputError(
                "search.slots: must be at least 2, an island for prefill and one for decode, where only "
                f"{counts[0][0]} has search.min_island_size ({settings.min_island_size}) GPUs, got {settings.slots}.",
                hint="Set search.slots to at least 2.",
            )
        return DirectSpace(counts=counts, least=settings.min_island_size, slots=settings.slots)
    return DividerSpace(counts=counts, least=settings.min_island_size, skews=settings.skews, rents=rents)
