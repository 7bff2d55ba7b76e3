"""In which order pods go, and which of them an island waits for.

Island by island, those that gain most first, node by node, the cheapest pod of a node first.

An island needs what was freed for those that were placed before it on the same nodes, so it comes after them: whatever
is carried out from the beginning of the list, the islands whose pods are all gone can come up.

An island waits for its own pods, and for those whose GPUs, cores, CPUs or memory it needs, be it that they go for
others: on a node for all pods up to the last that it needs, in the order of going, so that whoever is up then has room
beside the pods that are still there. Islands that had room without evictions wait for nobody.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.domain import PlacedPart, PlacementDemand, Pod, Victim
from planner.domain.node_room import ROUNDING, Left
from planner.placement.islands.fleet import Fleet, Site
from planner.placement.victims.cheapest_sets import Price


@dataclass(frozen=True, slots=True)
class Eviction:
    """An island that came late, its nodes in the order of its replicas, and who goes for it (it may be nobody)."""

    site: Site
    pods: tuple[Pod, ...]

    @property
    def island(self) -> str:
        """Its name."""
        return self.site.demand.island


def gains(demands: Sequence[PlacementDemand]) -> dict[str, float]:
    """Each island's share of the rate of its phase; of the GPUs of its phase where rates are not known."""
    # Rates and GPUs cannot be added up within one phase.
    rated = all(demand.rate_rps > 0 for demand in demands)
    worth = {demand.island: demand.rate_rps if rated else float(demand.size) for demand in demands}
    total: dict[str, float] = {}
    for demand in demands:
        total[demand.phase] = total.get(demand.phase, 0.0) + worth[demand.island]
    return {demand.island: worth[demand.island] / total[demand.phase] for demand in demands if total[demand.phase]}


def in_order(evictions: Sequence[Eviction], gain: Mapping[str, float]) -> list[Eviction]:
    """Evictions, given in the order of placing, as they are to be carried out."""
    waiting = list(range(len(evictions)))
    nodes = [set(eviction.site.nodes) for eviction in evictions]
    ordered = []
    while waiting:
        able = [k for k in waiting if not any(j < k and nodes[j] & nodes[k] for j in waiting)]
        # Most gain first; of equal ones who costs fewer pods, so that something is up soon.
        best = min(able, key=lambda k: (-gain.get(evictions[k].island, 0.0), len(evictions[k].pods), k))
        waiting.remove(best)
        ordered.append(evictions[best])
    return ordered


def pods_in_order(
    site: Site, pods: Sequence[Pod], prices: Mapping[str, Price], numbers: Mapping[str, int]
) -> list[Pod]:
    """Who goes for one island: node by node as its replicas lie, the cheapest first. `numbers`: of nodes, by name."""
    place: dict[int, int] = {}
    for group in site.groups:
        place.setdefault(group.node, len(place))
    return sorted(pods, key=lambda pod: (place[numbers[pod.node]], prices[pod.key], pod.key))


@dataclass(slots=True)
class _Node:
    """A node that pods leave: who goes, in order, what is free before anybody does, and who has come `up`: CPUs and GB
    of an island there, and the last eviction on the node that it waits for (0: none)."""

    going: list[tuple[int, str, Pod]]
    free: Left
    up: list[tuple[float, float, int]] = field(default_factory=list)

    def last_for(self, site: Site, parts: Sequence[PlacedPart]) -> int:
        """The last eviction that an island waits for, which then counts as up from there on."""
        gpus = {index for part in parts for index in part.gpu_indices}
        cores = {core for part in parts for core in part.cores}
        cpus, memory_gb = len(gpus) * site.demand.cpus_per_gpu, len(gpus) * site.demand.memory_gb_per_gpu
        last = max(
            (
                order
                for order, island, pod in self.going
                if island == site.demand.island or gpus & set(pod.gpus) or cores & set(pod.cores)
            ),
            default=0,
        )
        # Enough now may be too little once others are up: it waits for the end of the last shortage.
        for before, (order, _, _) in zip([0, *(order for order, _, _ in self.going)], self.going, strict=False):
            if before >= last and not self._has(cpus, memory_gb, before):
                last = order
        self.up.append((cpus, memory_gb, last))
        return last

    def _has(self, cpus: float, memory_gb: float, done: int) -> bool:
        """Whether so much is left once these evictions are done and whoever waits for no more is up."""
        gone = [pod for order, _, pod in self.going if order <= done]
        up = [(used_cpus, used_gb) for used_cpus, used_gb, last in self.up if last <= done]
        free_cpus = self.free.cpus + sum(pod.cpu_count for pod in gone) - sum(used for used, _ in up)
        free_gb = self.free.memory_gb + sum(pod.memory_gb for pod in gone) - sum(used for _, used in up)
        # Who asks for none is not kept off a node that has given away more than it has.
        return (not cpus or cpus <= free_cpus + ROUNDING) and (not memory_gb or memory_gb <= free_gb + ROUNDING)


def waits_of(
    sites: Sequence[Site], parts: Sequence[PlacedPart], victims: Sequence[Victim], fleet: Fleet
) -> dict[str, tuple[int, ...]]:
    """The orders of the victims that each island waits for. `sites` come in the order in which they were placed."""
    nodes = _nodes(victims, fleet)
    parts_on: dict[tuple[str, str], list[PlacedPart]] = defaultdict(list)
    for part in parts:
        if part.node in nodes:
            parts_on[part.island, part.node].append(part)
    waits: dict[str, tuple[int, ...]] = {}
    for site in sites:
        orders: list[int] = []
        for number in site.nodes:
            name = fleet.nodes[number].name
            if (node := nodes.get(name)) is not None:
                last = node.last_for(site, parts_on[site.demand.island, name])
                orders += [order for order, _, _ in node.going if order <= last]
        waits[site.demand.island] = tuple(sorted(orders))
    return waits


def _nodes(victims: Sequence[Victim], fleet: Fleet) -> Mapping[str, _Node]:
    going: dict[str, list[tuple[int, str, Pod]]] = defaultdict(list)
    pods = {pod.key: pod for name in {v.node for v in victims} for pod in fleet.pods_of[fleet.number[name]]}
    for victim in sorted(victims, key=lambda victim: victim.order):
        going[victim.node].append((victim.order, victim.island, pods[victim.pod]))
    return {name: _Node(listed, fleet.free[fleet.number[name]]) for name, listed in going.items()}
