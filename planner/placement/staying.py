"""Servers that run on stay where they are; the others are placed around them.

A server stays where its nodes still suit it and its GPUs and cores are free but for itself; others are placed anew.
While the others are placed, those that stay are pods that nothing moves or evicts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.domain import Cluster, ClusterNode, PlacedPart, Placement, PlacementDemand, PlacementSettings, Pod, Qos
from planner.domain.node_room import ROUNDING, Left
from planner.domain.shapes import Counts, least_width, width_of
from planner.placement.fragmentation import PLANNED
from planner.placement.islands import Fleet, place
from planner.placement.islands.fleet import HeldGroup, Occupancy, Site, ask_of
from planner.placement.islands.parts import record_of
from planner.placement.islands.scoring import score_of, terms_of
from planner.placement.islands.states import Watts, state_of

Replica = tuple[PlacedPart, ...]
"""The parts of one copy of an island."""


def place_around(
    stays: Sequence[PlacedPart],
    demands: Sequence[PlacementDemand],
    fleet: Fleet,
    settings: PlacementSettings,
    watts: Watts,
) -> Placement:
    """Put islands on nodes, those copies of them that run already where they lie: `stays`, copies of an island numbered
    from 0. Copies that stay come first in the placement. Where others find no room around them, and more GPUs find a
    place with all of them placed anew, that is the placement.

    Raises as `place` does.
    """
    around = _around(stays, demands, fleet, settings, watts)
    if not stays or not around.shortfalls:
        return around
    # Of as many GPUs the first: nobody who runs is moved for nothing.
    return max(around, place(demands, fleet, settings, watts), key=_placed_gpus)


def _placed_gpus(placement: Placement) -> int:
    return sum(len(part.gpu_indices) for part in placement.parts)


def _around(
    stays: Sequence[PlacedPart],
    demands: Sequence[PlacementDemand],
    fleet: Fleet,
    settings: PlacementSettings,
    watts: Watts,
) -> Placement:
    staying = _able(stays, demands, fleet, settings)
    if not staying:
        return place(demands, fleet, settings, watts)
    parts = [part for replicas in staying.values() for replica in replicas for part in replica]
    missing = [_missing(demand, staying.get(demand.island, ())) for demand in demands]
    # As locked pods, so that the placer need not know of copies that stay.
    around = Fleet.of(with_islands(fleet.cluster, parts, demands))
    others = place([demand for demand in missing if demand.replicas], around, settings, watts)
    return _joined(staying, others, demands, fleet, settings, watts)


def with_islands(cluster: Cluster, parts: Sequence[PlacedPart], demands: Iterable[PlacementDemand]) -> Cluster:
    """The cluster with placed islands as pods that stay."""
    asks = {demand.island: demand for demand in demands}
    islands = tuple(
        Pod(
            name=f"{part.island}-{number}",
            namespace=PLANNED,
            node=part.node,
            gpus=part.gpu_indices,
            gpu_request=len(part.gpu_indices),
            cpus=float(len(part.gpu_indices) * asks[part.island].cpus_per_gpu),
            memory_gb=len(part.gpu_indices) * asks[part.island].memory_gb_per_gpu,
            cores=part.cores,
            locked=True,
        )
        for number, part in enumerate(parts)
    )
    return replace(cluster, pods=(*cluster.pods, *islands))


def _able(
    stays: Sequence[PlacedPart], demands: Sequence[PlacementDemand], fleet: Fleet, settings: PlacementSettings
) -> dict[str, list[Replica]]:
    """The copies that can stay, by island, in their order; no more than are asked for."""
    copies: dict[tuple[str, int], list[PlacedPart]] = defaultdict(list)
    for part in stays:
        copies[part.island, part.replica].append(part)
    room, able = _Room(Occupancy.of(fleet, settings.tolerations)), dict[str, list[Replica]]()
    for demand in demands:
        # By number: where fewer are asked for, the first ones stay.
        replicas = [tuple(parts) for (island, _), parts in sorted(copies.items()) if island == demand.island]
        remaining: list[Replica] = []
        for replica in replicas:
            if _keeps_spread(replica, remaining, demand) and room.takes(replica, demand):
                remaining.append(replica)
        if remaining := remaining[: demand.replicas]:
            able[demand.island] = [_numbered(replica, n, fleet) for n, replica in enumerate(remaining)]
    return able


def _keeps_spread(replica: Replica, others: Iterable[Replica], demand: PlacementDemand) -> bool:
    """Whether a copy may stay beside others of an island that is to be spread: inside a node that has room for one."""
    beside = sum(other[0].node == replica[0].node for other in others)
    return not demand.per_node or (len(replica) == 1 and beside < demand.per_node)


def _missing(demand: PlacementDemand, staying: Sequence[Replica]) -> PlacementDemand:
    """What of an island is still to be placed beside the copies that stay."""
    on_nodes = Counter(replica[0].node for replica in staying if demand.per_node)
    return replace(demand, replicas=demand.replicas - len(staying), running=tuple(sorted(on_nodes.items())))


def _numbered(replica: Replica, number: int, fleet: Fleet) -> Replica:
    """The copy under its number, its nodes under the switches where they are now."""
    return tuple(replace(p, replica=number, asw=fleet.nodes[fleet.number[p.node]].asw) for p in replica)


@dataclass(slots=True)
class _Room:
    """What nodes still have for copies that stay."""

    occupancy: Occupancy
    free: dict[int, Left] = field(default_factory=dict)

    def takes(self, replica: Replica, demand: PlacementDemand) -> bool:
        """Whether all parts of a copy can stay; then they hold what they need."""
        # A part of a copy serves nothing, and a larger one is another island.
        if sum(len(part.gpu_indices) for part in replica) != demand.groups * demand.tp:
            return False
        after: dict[int, Left] = {}
        for part in replica:
            number = self.occupancy.fleet.number.get(part.node)
            if number is None or not self._suits(part, number, demand):
                return False
            before = after.get(number) or self.free.get(number) or self.occupancy.fleet.free[number]
            after[number] = before.minus(self._share(part, number, demand))
        if not all(map(_is_sound, after.values())):
            return False
        self.free |= after
        return True

    def _suits(self, part: PlacedPart, number: int, demand: PlacementDemand) -> bool:
        fleet = self.occupancy.fleet
        node, pods = fleet.nodes[number], fleet.pods_of.get(number, ())
        cores = len(part.gpu_indices) * demand.cpus_per_gpu if fleet.shapes[number].lists_cores else 0
        return (
            self.occupancy.suits(number, ask_of(demand))
            and part.tp == demand.tp
            # Indices that stand for a number alone must not be taken for GPUs, nor the other way round.
            and part.gpus_assumed != fleet.open[number]
            and len(part.cores) == cores
            and not {index for pod in pods for index in pod.gpus}.intersection(part.gpu_indices)
            and not {core for pod in pods for core in pod.cores}.intersection(part.cores)
            and _is_there(part, node)
            and all(_is_aligned(group, number, demand, fleet) for group in part.groups)
        )

    def _share(self, part: PlacedPart, number: int, demand: PlacementDemand) -> Left:
        node, numas = self.occupancy.fleet.nodes[number], self.occupancy.fleet.shapes[number].numa_ids
        on_numa = Counter(numa.id for numa in node.numa_nodes for _ in set(numa.cores).intersection(part.cores))
        gpus = len(part.gpu_indices)
        return Left(
            _counts(part.gpu_indices, number, self.occupancy.fleet),
            tuple(on_numa[numa] for numa in numas),
            float(gpus * demand.cpus_per_gpu),
            gpus * demand.memory_gb_per_gpu,
        )


def _is_sound(room: Left) -> bool:
    """Whether no more is held than there is."""
    counts = min((*room.gpus, *room.cores, room.idle), default=0)
    return counts >= 0 and room.cpus >= -ROUNDING and room.memory_gb >= -ROUNDING


def _is_there(part: PlacedPart, node: ClusterNode) -> bool:
    """Whether the node has the GPUs, cores and cards of a part, in the NUMA nodes that it names."""
    numa_of = {gpu.index: gpu.numa for gpu in node.gpus}
    cores = {core for numa in node.numa_nodes for core in numa.cores}
    return (
        set(part.gpu_indices) <= numa_of.keys()
        and {numa_of[index] for index in part.gpu_indices} == set(part.numa_nodes)
        and set(part.cores) <= cores
        and set(part.nics) <= {nic.name for nic in node.nics}
    )


def _is_aligned(group: Sequence[int], number: int, demand: PlacementDemand, fleet: Fleet) -> bool:
    if not demand.qos.binds:
        return True
    shape = fleet.shapes[number]
    width, narrowest = width_of(shape, _counts(group, number, fleet)), least_width(shape, ask_of(demand).kind)
    return narrowest is not None and width <= ((1, 1) if demand.qos is Qos.SINGLE_NUMA else narrowest)


def _counts(indices: Iterable[int], number: int, fleet: Fleet) -> Counts:
    """GPUs of a node by NUMA node."""
    numa_of = {gpu.index: gpu.numa for gpu in fleet.nodes[number].gpus}
    counts = Counter(numa_of[index] for index in indices)
    return tuple(counts[numa] for numa in fleet.shapes[number].numa_ids)


def _joined(
    staying: Mapping[str, Sequence[Replica]],
    others: Placement,
    demands: Sequence[PlacementDemand],
    fleet: Fleet,
    settings: PlacementSettings,
    watts: Watts,
) -> Placement:
    """Those that stay and those that were placed around them, as one placement; islands without room for all their
    copies are not in it."""
    short = {shortfall.island for shortfall in others.shortfalls}
    complete = [demand for demand in demands if demand.island not in short]
    fresh: dict[str, list[PlacedPart]] = defaultdict(list)
    for part in others.parts:
        fresh[part.island].append(part)
    parts = tuple(part for demand in complete for part in _parts(staying.get(demand.island, ()), fresh[demand.island]))
    sites = [Site(demand, ask_of(demand), tuple(_groups(demand, parts, fleet))) for demand in complete]
    gone = {victim.pod for victim in others.victims}
    pods = tuple(pod for pod in fleet.cluster.pods if pod.key not in gone)
    after = Fleet.of(with_islands(replace(fleet.cluster, pods=pods), parts, demands))
    occupancy = Occupancy(fleet, settings.tolerations, dict(enumerate(after.free)))
    terms = terms_of(sites, occupancy, settings.weights, sum(victim.gpus for victim in others.victims))
    waits = {site.island: site.waits_for for site in others.sites}
    # Without victims nobody waits; with some, who waits for none says so.
    types, nothing = sorted({demand.gpu for demand in demands}), () if gone else None
    before = Occupancy.of(fleet, settings.tolerations)
    return replace(
        others,
        cluster=fleet.cluster.name,
        parts=parts,
        sites=tuple(record_of(site, fleet, waits.get(site.demand.island, nothing)) for site in sites),
        before=state_of(before, types, watts, settings.cpus_per_gpu),
        after=state_of(occupancy, types, watts, settings.cpus_per_gpu),
        score=score_of(terms),
        terms=terms,
    )


def _parts(staying: Sequence[Replica], fresh: Sequence[PlacedPart]) -> Iterator[PlacedPart]:
    for replica in staying:
        yield from replica
    for part in fresh:
        yield replace(part, replica=part.replica + len(staying))


def _groups(demand: PlacementDemand, parts: Sequence[PlacedPart], fleet: Fleet) -> Iterator[tuple[HeldGroup, ...]]:
    """The groups of each copy."""
    copies: dict[int, list[HeldGroup]] = defaultdict(list)
    for part in parts:
        if part.island == demand.island:
            number = fleet.number[part.node]
            copies[part.replica] += [HeldGroup(number, _counts(group, number, fleet), ()) for group in part.groups]
    return (tuple(copies[number]) for number in sorted(copies))
