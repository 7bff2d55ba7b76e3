"""Islands onto nodes, one after the other: switches first, then nodes under them, then GPUs.

A replica lies, in this order of preference, inside one node, under one switch, anywhere; an NVLink domain of several
nodes stands for a switch of its own, and an island that fits one lies in one. Within each of these an island takes as
few switches as it can: most of it where most fits, what remains where it fits best (algorithm 2 of the ASI
paper as the facts read it). Among nodes the largest take comes first, too; of equal ones the node that the score's
local terms (fragmentation, packing, power) prefer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain import PlacementDemand, PlacementWeights, Qos
from planner.domain.node_room import Ask
from planner.placement.islands.fleet import Fleet, HeldGroup, Occupancy, Site, ask_of, under_switches
from planner.placement.islands.scoring import (
    PACKAGE_W,
    SAME_AGGREGATION,
    aligned_share,
)
from planner.placement.islands.switches import allocate_nested
from planner.placement.power_model import cpu_watts

Shares = Mapping[str, Mapping[int, float]]
"""Island -> switch -> share of the island that lies under it."""


@dataclass(frozen=True, slots=True)
class Level:
    """How closely a replica lies: `unit` groups are placed as one, and `within` says in what."""

    unit: int
    in_node: bool


def levels(demand: PlacementDemand) -> Iterator[Level]:
    """From the closest to the loosest."""
    yield Level(demand.groups, True)
    if demand.groups > 1:
        yield Level(demand.groups, False)
        yield Level(1, False)


def capacities(occupancy: Occupancy, ask: Ask, level: Level) -> list[int]:
    """Units that each place (`Places`) can take."""
    if level.in_node:
        return list(occupancy.of_place(ask, level.unit))
    return [groups // level.unit for groups in occupancy.of_place(ask)]


_KEPT_INSIDE = ("island", "copies", "")
"""What has to lie inside an NVLink domain, the most first."""


def place_island(
    occupancy: Occupancy,
    demand: PlacementDemand,
    weights: PlacementWeights,
    near: Sequence[float] = (),
    *,
    near_first: bool = False,
) -> Site | None:
    """Place one island at the closest level that has room for all of it, inside one NVLink domain where one has; None
    where none has.

    `near`: a preference for each switch; `near_first`: it stands above best fit. At each level an island that is to be
    aligned where it can be is tried as if it had to be.
    """
    places = occupancy.fleet.places
    liking = [near[switch] for switch in places.switch] if near else ()
    options = [(level, ask) for level in levels(demand) for ask in asks_of(demand)]
    for scope in _KEPT_INSIDE if places.has_domains else _KEPT_INSIDE[-1:]:
        for level, ask in options:
            units, units_needed = capacities(occupancy, ask, level), demand.replicas * demand.groups // level.unit
            if scope:  # all of it in one NVLink domain, then every copy in one
                needed = units_needed if scope == "island" else 1
                in_domains = zip(units, places.domain, strict=True)
                units = [count if domain and count >= needed else 0 for count, domain in in_domains]
            # A copy that is taken apart is not inside a domain.
            if scope and level.unit != demand.groups:
                continue
            units_of = allocate_nested(units_needed, units, places.switch, liking, preference_first=near_first)
            if units_of is not None:
                return fill(occupancy, demand, ask, weights, level, units_of)
    return None


def asks_of(demand: PlacementDemand) -> Iterator[Ask]:
    """What the island asks for, the stricter form first."""
    if demand.qos is Qos.BEST_EFFORT:
        yield ask_of(replace(demand, qos=Qos.GUARANTEED))
    yield ask_of(demand)


def fill(
    occupancy: Occupancy,
    demand: PlacementDemand,
    ask: Ask,
    weights: PlacementWeights,
    level: Level,
    units_of: Sequence[int],
) -> Site:
    """Hold nodes for an island. `units_of`: what it takes of each place, which has room for that."""
    order = sorted((s for s, units in enumerate(units_of) if units), key=lambda s: (-units_of[s], s))
    if level.unit != demand.groups:
        return Site(demand, ask, tuple(_across(occupancy, demand, ask, weights, {s: units_of[s] for s in order})))
    replicas: list[tuple[HeldGroup, ...]] = []
    for place in order:
        if level.in_node:
            replicas += _in_nodes(occupancy, ask, weights, place, demand.groups, units_of[place])
        else:
            replicas += [
                tuple(_held_groups(occupancy, ask, weights, place, demand.groups)) for _ in range(units_of[place])
            ]
    return Site(demand, ask, tuple(replicas))


def _in_nodes(
    occupancy: Occupancy, ask: Ask, weights: PlacementWeights, place: int, groups: int, replicas: int
) -> Iterator[tuple[HeldGroup, ...]]:
    """Replicas of so many groups, each inside a node, as many of them as can be on the same."""
    nodes = set(occupancy.fleet.places.nodes[place])
    while replicas:
        room = occupancy.groups(ask)
        holding = {n: min(room.get(n, 0) // groups, replicas) for n in nodes}
        best = max(
            (n for n, servers in holding.items() if servers),
            key=lambda n: (holding[n], *_liking(occupancy, ask, weights, n, holding[n] * groups), -n),
        )
        for _ in range(holding[best]):
            yield tuple(hold_group(occupancy, ask, best) for _ in range(groups))
        replicas -= holding[best]
        nodes.remove(best)  # it is full, or has as many servers of the island as it may have


def _across(
    occupancy: Occupancy, demand: PlacementDemand, ask: Ask, weights: PlacementWeights, groups_of: dict[int, int]
) -> Iterator[tuple[HeldGroup, ...]]:
    """Replicas that fit into one place first; those that remain take what is left, most first."""
    remaining = demand.replicas
    for place in list(groups_of):
        while remaining and groups_of[place] >= demand.groups:
            groups_of[place] -= demand.groups
            remaining -= 1
            yield tuple(_held_groups(occupancy, ask, weights, place, demand.groups))
    for _ in range(remaining):
        replica: list[HeldGroup] = []
        while len(replica) < demand.groups:
            # Of the place that has most: so the replica is cut into the fewest pieces.
            place = max(groups_of, key=lambda s: (groups_of[s], -s))
            part = min(groups_of[place], demand.groups - len(replica))
            groups_of[place] -= part
            replica += _held_groups(occupancy, ask, weights, place, part)
        yield tuple(replica)


def _held_groups(
    occupancy: Occupancy, ask: Ask, weights: PlacementWeights, place: int, needed: int
) -> Iterator[HeldGroup]:
    """Groups of one replica, held in a place that has room for them."""
    room = occupancy.groups(ask)
    nodes = [n for n in occupancy.fleet.places.nodes[place] if room.get(n, 0)]
    while needed:
        room = occupancy.groups(ask)
        best = max(
            (n for n in nodes if room[n]),
            key=lambda n: (min(room[n], needed), *_liking(occupancy, ask, weights, n, min(room[n], needed)), -n),
        )
        for _ in range(min(room[best], needed)):
            yield hold_group(occupancy, ask, best)
            needed -= 1


def hold_group(occupancy: Occupancy, ask: Ask, node: int) -> HeldGroup:
    """Hold one group on a node that has room for it."""
    gpus = occupancy.taken(node, ask)
    assert gpus is not None, "groups() counts what taken() finds"
    return HeldGroup(node, gpus, occupancy.hold(node, ask, gpus))


def _liking(occupancy: Occupancy, ask: Ask, weights: PlacementWeights, node: int, groups: int) -> tuple[float, float]:
    """Alignment of the next group, and the local terms of the score for taking so many groups of a node."""
    fleet = occupancy.fleet
    idle = occupancy.free[node].idle
    used_gpus, of_idle = groups * ask.kind.tp, fleet.fragments.by_idle
    cpus, free = fleet.nodes[node].cpus, occupancy.free[node].cpus
    watts = cpu_watts(cpus, free - groups * ask.cores) - cpu_watts(cpus, free)
    local = (
        weights.fragmentation * (of_idle[idle] - of_idle[idle - used_gpus]) / fleet.fragments.scale
        - weights.packing * (idle - used_gpus) / len(fleet.nodes[node].gpus)
        - weights.power * watts / PACKAGE_W
        # Per GPU, so that takes of different sizes compare.
    ) / used_gpus
    # Aligned in any case, so the local terms decide.
    if ask.kind.qos.binds:
        return 0.0, round(local, 9)
    gpus = occupancy.taken(node, ask)
    return (0.0 if gpus is None else aligned_share(fleet.shapes[node], ask.kind, fleet.width(node, gpus))), round(
        local, 9
    )


def shares_of(site: Site, fleet: Fleet) -> dict[int, float]:
    """Share of an island under each switch."""
    return {s: gpus / site.demand.size for s, gpus in under_switches(site.nodes.items(), fleet.switch_of).items()}


def preference(demand: PlacementDemand, placed: Shares, fleet: Fleet) -> list[float]:
    """How near each switch is to the placed islands that this one exchanges KV caches with; empty: it has none."""
    near: dict[int, float] = {}
    above: dict[int, float] = {}
    for partner, rate in demand.feeds:
        for switch, share in placed.get(partner, {}).items():
            near[switch] = near.get(switch, 0.0) + rate * share
            aggregation = fleet.aggregation_of[switch]
            if aggregation >= 0:
                above[aggregation] = above.get(aggregation, 0.0) + rate * share
    if not near:
        return []
    return [
        # What lies under the switch itself does not count once more above it.
        near.get(s, 0.0) + SAME_AGGREGATION * (above.get(fleet.aggregation_of[s], 0.0) - near.get(s, 0.0))
        if above.get(fleet.aggregation_of[s])
        else near.get(s, 0.0)
        for s in range(len(fleet.switches))
    ]


def largest_first(demand: PlacementDemand) -> tuple[int, int, str]:
    """Larger replicas are harder to place, then larger islands; names settle ties."""
    return (-demand.groups * demand.tp, -demand.size, demand.island)
