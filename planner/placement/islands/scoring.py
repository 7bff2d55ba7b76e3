"""How good a placement is: a weighted mean of terms, higher is better.

| symbol | meaning | unit |
|---|---|---|
| G, G_i | GPUs placed; of island i | 1 |
| T_i | mean over its groups of T (NUMA 1, socket 0.5, across 0.1) / the best T that an empty node gives | 1 |
| H_i, h_i | entropy of the island over switches, over nodes | nats |
| K_i | mean over its replicas of 1 - entropy over switches / ln(GPUs of a replica); 1 for a replica of one GPU | 1 |
| q_i(s) | share of island i under switch s | 1 |
| F_n | mean over the cluster's own pods (the most frequent 95 %; without any over requests of 1, 2, 4, 8 GPUs) of the
        idle GPUs that node n, being short, cannot give to one like it | 1 |
| M | most that one GPU taken strands, at least 2 | 1 |
| W_n | watts of the node's CPUs: 120 per package at work, 15 per package at rest, packages of 32 CPUs | W |
| e_n | idle share of node n's GPUs after placement | 1 |

topology        sum_i G_i / G (0.4 T_i + 0.2 (1 - H_i / ln G_i) + 0.2 K_i + 0.2 (1 - h_i / ln G_i))   (1 where G_i = 1)
proximity       mean over pairs that exchange KV caches, by weight: sum_s q_i(s) q_p(s), half as much for the same
                aggregation switch and different access switches; 1 where nothing is exchanged
fragmentation   - sum_n (F_n after - F_n before) / (M G)     (1, 2, 4, 8: one GPU of an empty node strands 7 / 4)
packing         - sum over touched nodes of e_n / G
power           - sum_n (W_n after - W_n before) / (120 G), at least -1
preemption      - GPUs of evicted pods / G
Where nodes form NVLink domains the entropies over switches (H, K) are means of those over switches and of those over
domains (switches, for nodes in none).
Sources: T: FlexTopo, equation 1; H: Alibaba ASI, algorithm 2; F: fragmentation gradient descent (ATC '23), its target
workload by GPUs alone; W: the PWR study's package model (facts on fragmentation and power, section 9).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from planner.domain import (
    Alignment,
    PlacementWeights,
    ScorePart,
)
from planner.domain.shapes import GroupKind, Shape, Width, alignment_of, least_width
from planner.placement.islands.fleet import Fleet, HeldGroup, Occupancy, Site, under_switches
from planner.placement.islands.switches import entropy
from planner.placement.power_model import DEFAULT_CPU, cpu_watts

T_OF = {Alignment.NUMA: 1.0, Alignment.SOCKET: 0.5, Alignment.CROSS: 0.1}
PACKAGE_W = DEFAULT_CPU.full_w
ALIGNED_PART, ISLAND_PART, REPLICA_PART, NODES_PART = 0.4, 0.2, 0.2, 0.2
SAME_AGGREGATION = 0.5


def terms_of(
    sites: Sequence[Site], occupancy: Occupancy, weights: PlacementWeights, evicted_gpus: int = 0
) -> tuple[ScorePart, ...]:
    """Every term of what `occupancy` holds."""
    fleet = occupancy.fleet
    placed = sum(site.demand.size for site in sites)
    touched = sorted(set(chain.from_iterable(site.nodes for site in sites)))
    # Over the GPUs placed, so that scores of plans of different sizes compare; 1 where none are.
    gpus = max(placed, 1)
    of_idle = fleet.fragments.by_idle
    topology = sum(site.demand.size / gpus * island_topology(site, fleet) for site in sites)
    return (
        ScorePart(name="topology", value=topology, weight=weights.topology),
        ScorePart(name="proximity", value=_proximity(sites, fleet), weight=weights.proximity),
        ScorePart(
            name="fragmentation",
            value=-sum(of_idle[occupancy.free[n].idle] - of_idle[fleet.free[n].idle] for n in touched)
            / (fleet.fragments.scale * gpus),
            weight=weights.fragmentation,
        ),
        ScorePart(
            name="packing",
            value=-sum(occupancy.free[n].idle / len(fleet.nodes[n].gpus) for n in touched) / gpus,
            weight=weights.packing,
        ),
        ScorePart(
            name="power",
            value=-min(1.0, sum(_woken_w(fleet, occupancy, n) for n in touched) / (PACKAGE_W * gpus)),
            weight=weights.power,
        ),
        ScorePart(name="preemption", value=-min(1.0, evicted_gpus / gpus), weight=weights.preemption),
    )


def score_of(terms: Iterable[ScorePart]) -> float:
    """The weighted mean; 0 where nothing has weight."""
    listed = list(terms)
    weight = sum(term.weight for term in listed)
    return sum(term.weight * term.value for term in listed) / weight if weight else 0.0


def _woken_w(fleet: Fleet, occupancy: Occupancy, node: int) -> float:
    cpus = fleet.nodes[node].cpus
    return cpu_watts(cpus, occupancy.free[node].cpus) - cpu_watts(cpus, fleet.free[node].cpus)


def aligned_share(shape: Shape, kind: GroupKind, width: Width) -> float:
    """T of a group that lies on so many (sockets, NUMA nodes) over the best T that an empty node gives."""
    # What no empty node could hold is measured against the best there is.
    ideal = least_width(shape, kind)
    best = Alignment.NUMA if ideal is None or ideal[1] == 1 else Alignment.SOCKET if ideal[0] == 1 else Alignment.CROSS
    return min(1.0, T_OF[alignment_of(width)] / T_OF[best])


def splits_of(sites: Iterable[Site], fleet: Fleet) -> tuple[int, int]:
    """(replicas, islands) on several nodes that no NVLink domain joins, of GPU types that have domains.

    Whoever has the fewest is better, whatever the score.
    """
    listed = [site for site in sites if site.demand.gpu in fleet.types_with_domains]
    return (
        sum(_lies_apart(replica, fleet) for site in listed for replica in site.replicas),
        sum(_lies_apart(site.groups, fleet) for site in listed),
    )


def _lies_apart(groups: Iterable[HeldGroup], fleet: Fleet) -> bool:
    nodes = {group.node for group in groups}
    places = {fleet.places.of[node] for node in nodes}
    return len(nodes) > 1 and (len(places) > 1 or not all(fleet.places.domain[place] for place in places))


def island_topology(site: Site, fleet: Fleet) -> float:
    """The topology term of one island."""
    gpus, nodes = site.demand.size, site.nodes
    shares = [
        aligned_share(fleet.shapes[group.node], site.ask.kind, fleet.width(group.node, group.gpus))
        for group in site.groups
    ]
    aligned = sum(shares) / len(shares)
    # ln 1 = 0: one GPU cannot be spread.
    if gpus == 1:
        return ALIGNED_PART * aligned + ISLAND_PART + REPLICA_PART + NODES_PART
    over_switches = _spread(nodes.items(), fleet) / math.log(gpus)
    over_nodes = entropy(list(nodes.values())) / math.log(gpus)
    return (
        ALIGNED_PART * aligned
        + ISLAND_PART * (1 - over_switches)
        + REPLICA_PART * _wholeness(site, fleet)
        + NODES_PART * (1 - over_nodes)
    )


def _wholeness(site: Site, fleet: Fleet) -> float:
    """K of one island."""
    gpus = site.demand.groups * site.demand.tp
    if gpus == 1:
        return 1.0
    spread = (_spread([(group.node, site.demand.tp) for group in replica], fleet) for replica in site.replicas)
    return 1 - sum(spread) / math.log(gpus) / site.demand.replicas


def _spread(nodes: Collection[tuple[int, int]], fleet: Fleet) -> float:
    """H of (node, GPUs) pairs."""
    over_switches = entropy(list(under_switches(nodes, fleet.switch_of).values()))
    if not fleet.places.has_domains:
        return over_switches
    return (over_switches + entropy(list(under_switches(nodes, fleet.places.of).values()))) / 2


def _proximity(sites: Sequence[Site], fleet: Fleet) -> float:
    """Alike pairs are many where islands are: shares are added up by island first."""
    shares = {
        site.demand.island: {
            switch: gpus / site.demand.size
            for switch, gpus in under_switches(site.nodes.items(), fleet.switch_of).items()
        }
        for site in sites
    }
    near, weight = 0.0, 0.0
    for site in sites:
        for partner, rate in site.demand.feeds:
            if partner in shares:
                weight += rate
                near += rate * nearness(shares[site.demand.island], shares[partner], fleet.aggregation_of)
    return near / weight if weight else 1.0


def nearness(first: Mapping[int, float], other: Mapping[int, float], aggregation_of: Sequence[int]) -> float:
    """Share of what two islands exchange that stays under a switch; under an aggregation switch it counts half."""
    same = sum(share * other.get(switch, 0.0) for switch, share in first.items())
    above = sum(
        share * part
        for switch, share in first.items()
        for far_switch, part in other.items()
        if switch != far_switch and aggregation_of[switch] == aggregation_of[far_switch] >= 0
    )
    return same + SAME_AGGREGATION * above
