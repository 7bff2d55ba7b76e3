"""The best placement of a few islands on a few nodes, by enumeration: the fewest split NVLink domains, then the score.

GPUs of one NUMA node are alike, so a group's choice is a node and how many GPUs it takes of each of its NUMA nodes;
groups of a replica, and replicas of an island, are alike, too, and are listed in ascending order of their choices.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from planner.domain import MOST_GPUS_OF_A_NODE, PlacementDemand, PlacementWeights
from planner.domain.node_room import Ask, Spread
from planner.domain.shapes import Counts, admits
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.scoring import score_of, splits_of, terms_of
from planner.placement.islands.sites import HeldGroup, Site, ask_of

MOST_NODES = 3
MOST_STEPS = 25_000
"""Groups tried before enumeration is given up."""

Choice = tuple[int, Counts]


@dataclass(slots=True)
class _Search:
    """One enumeration: the best complete placement so far."""

    occupancy: Occupancy
    weights: PlacementWeights
    demands: Sequence[PlacementDemand]
    asks: list[Ask]
    steps: int = 0
    best: tuple[float, tuple[Site, ...]] | None = None
    splits: tuple[int, int] = (0, 0)

    def islands(self, at: int, done: tuple[Site, ...]) -> None:
        """Go on with island `at`."""
        if at == len(self.demands):
            score = score_of(terms_of(done, self.occupancy, self.weights))
            splits = splits_of(done, self.occupancy.fleet)
            # More than rounding: of equal scores the one found first stays.
            if self.best is None or splits < self.splits or (splits == self.splits and score > self.best[0] + 1e-12):
                self.best, self.splits = (score, done), splits
            return
        demand = self.demands[at]
        self.groups(at, done, (), demand.replicas * demand.groups, None)

    def groups(
        self, at: int, done: tuple[Site, ...], placed: tuple[HeldGroup, ...], remaining: int, last: Choice | None
    ) -> None:
        """Go on with the next of the `remaining` groups of island `at`, from the choice `last` on."""
        demand, ask = self.demands[at], self.asks[at]
        if not remaining:
            size = demand.groups
            replicas = tuple(placed[k : k + size] for k in range(0, len(placed), size))
            self.islands(at + 1, (*done, Site(demand, ask, replicas)))
            return
        begins = len(placed) % demand.groups == 0
        if begins and len(placed) >= demand.groups:  # alike replicas in ascending order of their first groups
            first = placed[len(placed) - demand.groups]
            last = (first.node, first.gpus)
        # A list, as holding changes what choices are made of. Without the spread, which counts whole servers.
        for choice in list(choices(self.occupancy, replace(ask, spread=None))):
            if last is not None and choice < last:
                continue
            if ask.spread and not self._spreads(choice[0], placed, demand.groups, ask.spread):
                continue
            self.steps += 1
            if self.steps > MOST_STEPS:
                return
            node, gpus = choice
            cores = self.occupancy.hold(node, ask, gpus)
            self.groups(at, done, (*placed, HeldGroup(node, gpus, cores)), remaining - 1, choice)
            self.occupancy.give_back(node, ask, gpus, cores)

    def _spreads(self, node: int, placed: Sequence[HeldGroup], groups: int, spread: Spread) -> bool:
        """Whether the next group may lie on a node beside those of its island that are `placed`."""
        if begun := len(placed) % groups:
            return node == placed[-begun].node
        beside = sum(group.node == node for group in placed) // groups
        return beside < spread.servers(self.occupancy.fleet.nodes[node].name)


def choices(occupancy: Occupancy, ask: Ask) -> Iterator[Choice]:
    """Every place that one group may take now."""
    for node, groups in occupancy.groups(ask).items():
        if groups:
            shape = occupancy.fleet.shapes[node]
            offer = occupancy.free[node].offered(shape, ask.kind)
            yield from ((node, x) for x in vectors(offer, ask.kind.tp) if admits(shape, ask.kind, x))


@cache
def vectors(available: Counts, total: int) -> tuple[Counts, ...]:
    """Every way to take `total` of `available`."""
    return tuple(x for x in product(*(range(count + 1) for count in available)) if sum(x) == total)


def best_of_all(
    occupancy: Occupancy, demands: Sequence[PlacementDemand], weights: PlacementWeights
) -> tuple[Site, ...] | None:
    """The complete placement of the best score, which `occupancy` then holds; None where there is none, or where there
    are too many to try."""
    if sum(demand.replicas * demand.groups for demand in demands) > MOST_GPUS_OF_A_NODE * MOST_NODES:
        return None
    asks = [ask_of(demand) for demand in demands]
    if len({node for ask in asks for node in occupancy.groups(ask)}) > MOST_NODES:
        return None
    # On a copy: a search that is given up leaves nothing behind.
    search = _Search(occupancy.copy(), weights, demands, asks)
    search.islands(0, ())
    if search.best is None or search.steps > MOST_STEPS:
        return None
    for site in search.best[1]:
        site.enter(occupancy)
    return search.best[1]
