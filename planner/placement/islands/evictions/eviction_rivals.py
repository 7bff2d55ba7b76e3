"""Islands that keep each other out: one that finds no room, though it would if others of the plan stood back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.domain import PlacementDemand, PlacementSettings
from planner.placement.islands.evictions.preemption import Preemption, Tariff, kind_of
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.sites import Site

MOST_LOOKED_AT = 1_000
"""Nodes asked about in the search for rivals of all islands; who is searched for later is told of no name."""


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
