"""Small placements: a few islands on a few nodes by enumeration, somewhat larger ones polished group by group.

The best has the fewest split NVLink domains, then the best score.

GPUs of one NUMA node are alike, so a group's choice is a node and how many GPUs it takes of each of its NUMA nodes;
groups of a replica, and replicas of an island, are alike, too, and are listed in ascending order of their choices.
Polishing moves one group after the other to wherever the score is best.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from planner.domain import MOST_GPUS_OF_A_NODE, PlacementDemand, PlacementWeights
from planner.domain.node_room import Ask, Spread
from planner.domain.shapes import Counts, admits
from planner.placement.islands.fleet import HeldGroup, Occupancy, Site, ask_of
from planner.placement.islands.scoring import score_of, splits_of, terms_of

ENUMERATED_NODES = 3
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
            self.islands(at + 1, (*done, Site.of(demand, ask, placed)))
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
    if sum(demand.replicas * demand.groups for demand in demands) > MOST_GPUS_OF_A_NODE * ENUMERATED_NODES:
        return None
    asks = [ask_of(demand) for demand in demands]
    if len({node for ask in asks for node in occupancy.groups(ask)}) > ENUMERATED_NODES:
        return None
    # On a copy: a search that is given up leaves nothing behind.
    search = _Search(occupancy.copy(), weights, demands, asks)
    search.islands(0, ())
    if search.best is None or search.steps > MOST_STEPS:
        return None
    for site in search.best[1]:
        site.enter(occupancy)
    return search.best[1]


REFINED_GROUPS = 24
REFINED_NODES = 16
"""Beyond, the greedy's order has to do: every move is scored in full."""

MOST_TRIED = 3_000
BETTER = 1e-9


def refine(sites: Sequence[Site], occupancy: Occupancy, weights: PlacementWeights) -> list[Site]:
    """The same islands, each group and then each replica where the score is best; `occupancy` is kept in step."""
    refined = list(sites)
    groups = sum(1 for site in refined for _ in site.groups)
    nodes = {node for site in refined for node in occupancy.groups(ask_of(site.demand))}
    if not refined or groups > REFINED_GROUPS or len(nodes) > REFINED_NODES:
        return refined
    score, tried, better = score_of(terms_of(refined, occupancy, weights)), 0, True
    while better and tried < MOST_TRIED:
        better = False
        for at in range(len(refined)):
            for replica in range(refined[at].demand.replicas):
                for spots in _together(refined[at].demand):
                    new, best, looked = _moved(refined, at, replica, spots, occupancy, weights, score)
                    tried += looked
                    if best > score + BETTER:
                        refined[at], score, better = new, best, True
    return refined


def _together(demand: PlacementDemand) -> list[list[int]]:
    """Groups of a replica that move at once: each by itself, then all; servers that are spread stay whole."""
    groups = list(range(demand.groups))
    return [groups] if demand.per_node else [*([k] for k in groups), groups]


def _moved(
    sites: Sequence[Site],
    at: int,
    replica: int,
    spots: Sequence[int],
    occupancy: Occupancy,
    weights: PlacementWeights,
    score: float,
) -> tuple[Site, float, int]:
    """Some groups of one replica at the best single node for all of them: (the site, its score, places tried)."""
    site = sites[at]
    ask = ask_of(site.demand)
    old = [site.replicas[replica][spot] for spot in spots]
    for group in old:
        occupancy.give_back(group.node, site.ask, group.gpus, group.cores)
    splits = splits_of(sites, occupancy.fleet)
    best: tuple[float, list[HeldGroup]] | None = None
    tried = 0
    full = _full(site, replica, occupancy) if ask.spread else frozenset()
    # A list, as trials change what choices are made of.
    for node, gpus in list(choices(occupancy, ask)):
        if node in full:
            continue
        new = _hold_all(occupancy, site, node, gpus, len(spots))
        if len(new) == len(spots):
            tried += 1
            trial = [*sites[:at], _with(site, replica, spots, new), *sites[at + 1 :]]
            worth = score_of(terms_of(trial, occupancy, weights))
            # A better score must not split what an NVLink domain joins.
            better = worth > score + BETTER and splits_of(trial, occupancy.fleet) <= splits
            if better and (best is None or worth > best[0]):
                best = (worth, new)
        for group in new:
            occupancy.give_back(group.node, site.ask, group.gpus, group.cores)
    if best is None:
        for group in old:
            occupancy.take_back(group.node, site.ask, group.gpus, group.cores)
        return site, score, tried
    for group in best[1]:
        occupancy.take_back(group.node, site.ask, group.gpus, group.cores)
    return _with(site, replica, spots, best[1]), best[0], tried


def _full(site: Site, replica: int, occupancy: Occupancy) -> frozenset[int]:
    """Nodes that have as many other servers of a spread island as they may have."""
    others = Counter(groups[0].node for number, groups in enumerate(site.replicas) if number != replica)
    spread, nodes = site.ask.spread, occupancy.fleet.nodes
    return frozenset(node for node, count in others.items() if spread and count >= spread.servers(nodes[node].name))


def _hold_all(occupancy: Occupancy, site: Site, node: int, first: tuple[int, ...], count: int) -> list[HeldGroup]:
    """The first group as told, the others of a node as they fit best; fewer where the node is full."""
    groups = [HeldGroup(node, first, occupancy.hold(node, site.ask, first))]
    while len(groups) < count:
        gpus = occupancy.taken(node, site.ask)
        if gpus is None:
            break
        groups.append(HeldGroup(node, gpus, occupancy.hold(node, site.ask, gpus)))
    return groups


def _with(site: Site, replica: int, spots: Sequence[int], new: Sequence[HeldGroup]) -> Site:
    groups = list(site.replicas[replica])
    for spot, group in zip(spots, new, strict=True):
        groups[spot] = group
    replicas = list(site.replicas)
    replicas[replica] = tuple(groups)
    return replace(site, replicas=tuple(replicas))
