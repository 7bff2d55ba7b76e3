"""The encoding *graph*: islands proposed by where GPUs lie, as parts of cuts of the communication graph.

Three parameters a GPU type: which cut, how many islands, how uneven they are within a part. One island is the cut as
the graph has it, an island a part; each more divides a part. Parts too small for any island stay idle. See
`planner.proposing.search.communication` for graph and cuts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product, zip_longest

import numpy as np

from planner.domain import Layout, Stock
from planner.proposing.search.communication import GraphCut, GraphPart
from planner.proposing.search.space import Parameter, Point, SumLimit, island_layout, scrambled, type_words, uniform

SKEWS = 21
"""Skews that the nearest point to a layout is sought among, evenly over their range, and none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedProposal:
    """An island where the encoding sees it: in one part of a cut."""

    gpu: str
    size: int
    part: GraphPart


@dataclass(frozen=True, kw_only=True)
class GraphSpace:
    """Cut, number of islands and skew of each type. `cuts`: of each type at least one, from its whole to its nodes."""

    cuts: Mapping[str, tuple[GraphCut, ...]]
    min_island_size: int
    skews: tuple[float, float]

    @property
    def stocks(self) -> tuple[Stock, ...]:
        """The parts of each type's first cut."""
        return tuple(part.stock for cuts in self.cuts.values() for part in cuts[0].parts)

    @cached_property
    def _axes(self) -> list[tuple[str, tuple[str, str, str]]]:
        """Each type with the names of its cut, its number of islands and its skew."""
        words = type_words(list(self.cuts))
        return [
            (gpu, (f"cut_{word}", f"islands_{word}", f"skew_{word}"))
            for gpu, word in zip(self.cuts, words, strict=True)
        ]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """cut_<gpu> (left out where there is one alone), islands_<gpu>, skew_<gpu>. Of islands_<gpu>, 0 is none of the
        type, 1 one a part, and each further unit one island more, up to the most of any cut."""
        axes: list[Parameter] = []
        for gpu, (cut, islands, skew) in self._axes:
            cuts = self.cuts[gpu]
            if len(cuts) > 1:
                axes.append(Parameter(name=cut, gpu=gpu, low=0.0, high=float(len(cuts) - 1)))
            islands_limit = max(1 + len(level.turns) for level in cuts)
            axes.append(Parameter(name=islands, gpu=gpu, low=0.0, high=float(islands_limit)))
            axes.append(Parameter(name=skew, gpu=gpu, low=self.skews[0], high=self.skews[1], whole=False))
        return tuple(axes)

    @property
    def limits(self) -> tuple[SumLimit, ...]:
        """None: cuts hold no more than there is."""
        return ()

    def _cut(self, gpu: str, point: Point, name: str) -> int:
        return min(max(round(point.get(name, 0.0)), 0), len(self.cuts[gpu]) - 1)

    def canonical(self, point: Point) -> dict[str, float]:
        """Cut and count rounded to what there is, a skew that makes no difference and the cut of no islands set to
        nothing."""
        coordinates: dict[str, float] = {}
        for gpu, (cut, islands, skew) in self._axes:
            chosen = self._cut(gpu, point, cut)
            count = min(max(round(point[islands]), 0), 1 + len(self.cuts[gpu][chosen].turns))
            shares = self._shares(gpu, chosen, count)
            divided = any(part.division(number).distinct(self.skews) for part, number in shares)
            if len(self.cuts[gpu]) > 1:
                coordinates[cut] = float(chosen if count else 0)
            coordinates[islands] = float(count)
            coordinates[skew] = float(point[skew]) if divided else self._no_skew
        return coordinates

    def _shares(self, gpu: str, cut: int, islands: int) -> list[tuple[GraphPart, int]]:
        """The parts of a cut with their numbers of islands; none where `islands` is 0."""
        return self.cuts[gpu][cut].shares(islands - 1) if islands > 0 else []

    @property
    def _no_skew(self) -> float:
        return min(max(0.0, self.skews[0]), self.skews[1])

    def proposals(self, point: Point) -> Iterator[PlacedProposal]:
        """The islands of a point, each with the part that it is made of."""
        for gpu, (cut, islands, skew) in self._axes:
            for part, count in self._shares(gpu, self._cut(gpu, point, cut), round(point[islands])):
                for size in part.sizes(count, point[skew]):
                    yield PlacedProposal(gpu=gpu, size=size, part=part)

    def layout(self, point: Point) -> Layout:
        """The islands of all parts."""
        return island_layout((proposal.gpu, proposal.size) for proposal in self.proposals(point))

    def encode(self, layout: Layout) -> dict[str, float]:
        """Of each type the cut and skew whose sizes come nearest at the layout's number of islands: the least sum of
        differences between sorted sizes, of equals the first cut and the least skew. Skews are taken from a scan, so a
        layout that only a skew between two of them gives comes back as its neighbour."""
        point: dict[str, float] = {}
        scan = sorted({self._no_skew, *np.linspace(*self.skews, SKEWS).tolist()}, key=lambda skew: (abs(skew), skew))
        for gpu, (cut, islands, skew) in self._axes:
            descending = sorted(
                (island.size for island, count in layout.counts if island.gpu == gpu for _ in range(count)),
                reverse=True,
            )
            candidates = (
                (_distance(descending, level, value), place, order)
                for place, level in enumerate(self.cuts[gpu])
                for order, value in enumerate(scan)
            )
            # A tuple's order is the rule for equals: the first cut, then the smallest skew.
            _, place, order = min(candidates)
            islands_here = _axis(descending, self.cuts[gpu][place])
            point[cut], point[islands], point[skew] = float(place), float(islands_here), scan[order]
        return self.canonical(point)

    def at(self, unit: Sequence[float]) -> dict[str, float]:
        """Fractions of each axis; of the cuts every one has the same share."""
        point: dict[str, float] = {}
        for axis, u in zip(self.parameters, unit, strict=True):
            if axis.name.startswith("cut_"):
                # Rounding would give the first and the last cut half the share of the others.
                point[axis.name] = float(min(int((axis.high + 1) * float(u)), int(axis.high)))
            else:
                point[axis.name] = axis.low + (axis.high - axis.low) * float(u)
        return point

    def sample(self, rng: np.random.Generator) -> dict[str, float]:
        """Cuts and counts uniform over the integers, skews uniform."""
        return uniform(self.parameters, rng)

    def spread(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """The cuts as the graph has them, every type at any level, the widest first, in at most half of the points; the
        others are scrambled Sobol points."""
        levels = sorted(product(*(range(len(cuts)) for cuts in self.cuts.values())), key=lambda row: (sum(row), row))
        pure = [self._pure(row) for row in levels[: count // 2]]
        return pure + scrambled(self, count - len(pure), rng)

    def _pure(self, levels: Sequence[int]) -> dict[str, float]:
        point: dict[str, float] = {}
        for (_, (cut, islands, skew)), level in zip(self._axes, levels, strict=True):
            point |= {cut: float(level), islands: 1.0, skew: self._no_skew}
        return self.canonical(point)


def _axis(descending: Sequence[int], cut: GraphCut) -> int:
    """The number on the axis of islands whose number of islands comes nearest to those wanted."""
    return max(1, len(descending) - len(cut.parts) + 1) if descending else 0


def _distance(descending: Sequence[int], cut: GraphCut, skew: float) -> int:
    """Sum of differences between sizes, both descending; islands that the cut cannot form count in full."""
    if not descending:
        return 0
    shares = cut.shares(_axis(descending, cut) - 1)
    sizes = sorted((size for part, count in shares for size in part.sizes(count, skew)), reverse=True)
    return sum(abs(a - b) for a, b in zip_longest(sizes, descending, fillvalue=0))
