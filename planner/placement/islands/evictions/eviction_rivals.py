"""Islands that keep each other out: whether they could fit together at all, and for whom others would have to go.

A rival is one in whose place an island that finds no room would fit. That islands cannot all fit is told by a quick no,
were everybody gone who may go (`may_hold`):

| symbol | meaning | unit |
|---|---|---|
| r_n | GPUs of node n that would be idle | 1 |
| t | GPUs of a group (tensor-parallel degree) | 1 |

Groups of t GPUs, or of a multiple of t, take at most t floor(r_n / t) GPUs of a node, whatever else is there; and of
what one ask wants there are no more groups than would fit if nobody else came.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from planner.domain import PlacementDemand, PlacementSettings
from planner.domain.node_room import Ask
from planner.placement.islands.evictions.preemption import Preemption, Tariff, kind_of
from planner.placement.islands.fleet import Occupancy, Site, ask_of

MOST_LOOKED_AT = 1_000
"""Nodes asked about in the search for rivals of all islands; who is searched for later is told of no name."""


def may_hold(emptied: Occupancy, demands: Sequence[PlacementDemand]) -> bool:
    """False where these islands cannot all be placed, even with everybody gone who may go; True says nothing."""
    groups: Counter[Ask] = Counter()
    by_type: dict[str, list[PlacementDemand]] = defaultdict(list)
    for demand in demands:
        # A spread only forbids more: without it a no is still right, and more asks are alike.
        groups[replace(ask_of(demand), spread=None)] += demand.replicas * demand.groups
        by_type[demand.gpu].append(demand)
    return all(sum(emptied.groups(ask).values()) >= count for ask, count in groups.items()) and all(
        _gpus_suffice(emptied, gpu, same, tp) for gpu, same in by_type.items() for tp in {peer.tp for peer in same}
    )


def _gpus_suffice(emptied: Occupancy, gpu: str, demands: Iterable[PlacementDemand], tp: int) -> bool:
    gpus_needed = sum(demand.size for demand in demands if demand.tp % tp == 0)
    return gpus_needed <= sum(emptied.free[node].idle // tp * tp for node in emptied.fleet.of_type([gpu]))


def rivals_without_evictions(
    demands: Sequence[PlacementDemand], placed: Mapping[str, Site], occupancy: Occupancy, settings: PlacementSettings
) -> dict[str, Site | None]:
    """`rivals_of` the islands that would have room on idle GPUs, were the others of their type not there."""
    left_out = [demand for demand in demands if demand.island not in placed]
    if not left_out:
        return {}
    tariff = Tariff.of({}, settings, occupancy.fleet)
    bare, types = occupancy.copy(), {demand.gpu for demand in left_out}
    for site in placed.values():
        if site.demand.gpu in types:
            site.leave(bare)
    alone = Preemption.of(bare, settings, {}, tariff)
    # Who would not fit even alone is kept out by nobody.
    able = {kind: alone.has_room(kind) for kind in dict.fromkeys(map(kind_of, left_out))}
    state = Preemption.of(occupancy.copy(), settings, {}, tariff)
    return rivals_of([demand for demand in left_out if able[kind_of(demand)]], placed, state)


def rivals_of(
    left_out: Sequence[PlacementDemand], placed: Mapping[str, Site], state: Preemption
) -> dict[str, Site | None]:
    """For each island that is left out: the smallest one whose place would be enough; None where it takes several.

    `state`: the end of placing, with what is left of the limits; it stays as it is.
    """
    rivals: dict[PlacementDemand, Site | None] = {}
    looked_at = 0
    for demand in left_out:
        kind = kind_of(demand)
        if kind not in rivals:
            rivals[kind] = None
            for site in sorted(placed.values(), key=lambda site: (site.demand.size, site.demand.island)):
                # Islands of other types hold none of its GPUs; the first that is enough is the smallest.
                if site.demand.gpu == demand.gpu and rivals[kind] is None and looked_at < MOST_LOOKED_AT:
                    without = replace(state, occupancy=state.occupancy.copy(), able=None, curves={}, looked_at=0)
                    site.leave(without.occupancy)
                    rivals[kind] = site if without.has_room(demand) else None
                    looked_at += without.looked_at
    return {demand.island: rivals[kind_of(demand)] for demand in left_out}
