"""Small placements polished: one group after the other is moved to wherever the score is best."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from planner.domain import PlacementDemand, PlacementWeights
from planner.placement.islands.exact import choices
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.scoring import score_of, splits_of, terms_of
from planner.placement.islands.sites import HeldGroup, Site, ask_of

MOST_GROUPS = 24
MOST_NODES = 16
"""Beyond, the greedy's order has to do: every move is scored in full."""

MOST_TRIED = 3_000
BETTER = 1e-9


def refine(sites: Sequence[Site], occupancy: Occupancy, weights: PlacementWeights) -> list[Site]:
    """The same islands, each group and then each replica where the score is best; `occupancy` is kept in step."""
    refined = list(sites)
    groups = sum(1 for site in refined for _ in site.groups)
    nodes = {node for site in refined for node in occupancy.groups(ask_of(site.demand))}
    if not refined or groups > MOST_GROUPS or len(nodes) > MOST_NODES:
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
