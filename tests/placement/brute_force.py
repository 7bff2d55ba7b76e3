"""Every placement of a few groups on a few nodes, straight from the records: the truth that the placer is held to.

A choice for a group is a node and how many GPUs of each of its NUMA nodes; GPUs of one NUMA node are alike, so the
lowest free ones stand for all. Groups of a replica are alike, and so are an island's replicas: one order stands for
all. Where alignment binds, a GPU's cores lie in its own NUMA node; elsewhere a group takes cores after all of those,
near its GPUs first (other choices of such cores are not listed, and they change nothing about what fits).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from planner.domain import Cluster, ClusterNode, NumaNode, PlacedPart, PlacementDemand, Qos, Taint

Choice = tuple[int, tuple[int, ...]]
"""(number of the node, GPUs of each of its NUMA nodes by id)."""


@dataclass(frozen=True)
class Site:
    """A node and what is free on it; lists follow its NUMA nodes by id. `cores` is None where none are listed."""

    record: ClusterNode
    numas: tuple[NumaNode, ...]
    gpus: tuple[tuple[int, ...], ...]
    cores: tuple[tuple[int, ...], ...] | None
    cpus: float
    memory_gb: float


@dataclass(frozen=True)
class Room:
    """What is left of a site; `near` of each NUMA node's cores and `anywhere` of all, after what binds took its own."""

    gpus: tuple[int, ...]
    near: tuple[int, ...] | None
    anywhere: int
    cpus: float
    memory_gb: float


def sites_of(cluster: Cluster, demands: Sequence[PlacementDemand]) -> tuple[Site, ...]:
    """The nodes that anybody could use: of a type asked for, and whose free GPUs are known."""
    found = []
    for node in cluster.nodes:
        pods = [pod for pod in cluster.pods if pod.node == node.name]
        if node.gpu not in {demand.gpu for demand in demands} or not all(pod.gpus_known for pod in pods):
            continue
        used = {index for pod in pods for index in pod.gpus}
        pinned = {core for pod in pods for core in pod.cores}
        numas = tuple(sorted(node.numa_nodes, key=lambda numa: numa.id))
        listed = any(numa.cores for numa in numas)
        found.append(
            Site(
                record=node,
                numas=numas,
                gpus=tuple(
                    tuple(sorted(g.index for g in node.gpus if g.numa == numa.id and g.index not in used))
                    for numa in numas
                ),
                cores=tuple(tuple(sorted(set(numa.cores) - pinned)) for numa in numas) if listed else None,
                cpus=node.cpus - sum(max(pod.cpus, len(pod.cores)) for pod in pods),
                memory_gb=node.memory_gb - sum(pod.memory_gb for pod in pods),
            )
        )
    return tuple(found)


def feasible(cluster: Cluster, demands: Sequence[PlacementDemand], tolerations: Sequence[Taint] = ()) -> bool:
    """Whether all islands can be placed together, every group as its QoS asks."""
    sites = sites_of(cluster, demands)
    groups = [demand for demand in demands for _ in range(demand.replicas * demand.groups)]

    @cache
    def fits(at: int, rooms: tuple[Room, ...], least: Choice) -> bool:
        if at == len(groups):
            return True
        again = at + 1 < len(groups) and groups[at + 1] is groups[at]
        for choice in choices(sites, rooms, groups[at], tolerations):
            if choice >= least:
                left = without(rooms, choice, groups[at])
                if fits(at + 1, left, choice if again else (-1, ())):
                    return True
        return False

    return fits(0, tuple(room_of(site) for site in sites), (-1, ()))


def placements(
    cluster: Cluster, demands: Sequence[PlacementDemand], tolerations: Sequence[Taint] = ()
) -> Iterator[tuple[PlacedPart, ...]]:
    """Every complete placement of all islands, up to the symmetries above."""
    sites = sites_of(cluster, demands)
    replicas = [(demand, number) for demand in demands for number in range(demand.replicas)]

    def go(at: int, rooms: tuple[Room, ...], taken: tuple[tuple[Choice, ...], ...]) -> Iterator[tuple[PlacedPart, ...]]:
        if at == len(replicas):
            yield parts_of(sites, replicas, taken)
            return
        demand, number = replicas[at]
        for chosen, left in replica_choices(sites, rooms, demand, tolerations):
            if number == 0 or chosen >= taken[-1]:
                yield from go(at + 1, left, (*taken, chosen))

    yield from go(0, tuple(room_of(site) for site in sites), ())


def replica_choices(
    sites: Sequence[Site], rooms: tuple[Room, ...], demand: PlacementDemand, tolerations: Sequence[Taint]
) -> Iterator[tuple[tuple[Choice, ...], tuple[Room, ...]]]:
    """Every choice for the groups of one replica, in rising order, and what it leaves."""

    def go(
        chosen: tuple[Choice, ...], rooms: tuple[Room, ...]
    ) -> Iterator[tuple[tuple[Choice, ...], tuple[Room, ...]]]:
        if len(chosen) == demand.groups:
            yield chosen, rooms
            return
        for choice in choices(sites, rooms, demand, tolerations):
            if not chosen or choice >= chosen[-1]:
                yield from go((*chosen, choice), without(rooms, choice, demand))

    yield from go((), rooms)


def room_of(site: Site) -> Room:
    """A site before anything is placed."""
    near = None if site.cores is None else tuple(map(len, site.cores))
    return Room(tuple(map(len, site.gpus)), near, sum(near or ()), site.cpus, site.memory_gb)


def choices(
    sites: Sequence[Site], rooms: Sequence[Room], demand: PlacementDemand, tolerations: Sequence[Taint]
) -> Iterator[Choice]:
    """Where a group can go now."""
    for number, (site, room) in enumerate(zip(sites, rooms, strict=True)):
        if not suits(site.record, demand, tolerations) or demand.tp * demand.cpus_per_gpu > room.cpus + 1e-9:
            continue
        if demand.tp * demand.memory_gb_per_gpu > room.memory_gb + 1e-9:
            continue
        if room.near is not None and demand.tp * demand.cpus_per_gpu > room.anywhere:
            continue
        for counts in product(*(range(min(free, demand.tp) + 1) for free in room.gpus)):
            if sum(counts) == demand.tp and aligned(site, room, demand, counts):
                yield number, counts


def suits(node: ClusterNode, demand: PlacementDemand, tolerations: Sequence[Taint]) -> bool:
    """Type, labels and taints."""
    repelled = any(
        not any(t.key in ("", x.key) and t.value in ("", x.value) and t.effect in ("", x.effect) for t in tolerations)
        for x in node.taints
        if x.effect != "PreferNoSchedule"
    )
    return node.gpu == demand.gpu and set(demand.selector) <= set(node.labels) and not repelled


def aligned(site: Site, room: Room, demand: PlacementDemand, counts: tuple[int, ...]) -> bool:
    """Whether a group may lie like this, its cores included."""
    if not demand.qos.binds:
        return True
    if room.near is not None and any(
        count * demand.cpus_per_gpu > free for count, free in zip(counts, room.near, strict=True)
    ):
        return False
    sockets = tuple(numa.socket for numa in site.numas)
    if demand.qos is Qos.SINGLE_NUMA:
        return width(sockets, counts)[1] == 1
    cores = None if site.cores is None else tuple(len(numa.cores) for numa in site.numas)
    held = tuple(sum(gpu.numa == numa.id for gpu in site.record.gpus) for numa in site.numas)
    return width(sockets, counts) == least_width(sockets, held, cores, demand.tp, demand.cpus_per_gpu)


@cache
def least_width(
    sockets: tuple[int, ...], gpus: tuple[int, ...], cores: tuple[int, ...] | None, tp: int, cpus_per_gpu: int
) -> tuple[int, int] | None:
    """(sockets, NUMA nodes) of the narrowest place on an empty node; None where there is none."""
    wide = [
        width(sockets, counts)
        for counts in product(*(range(count + 1) for count in gpus))
        if sum(counts) == tp
        and (cores is None or all(n * cpus_per_gpu <= have for n, have in zip(counts, cores, strict=True)))
    ]
    return min(wide, default=None)


def width(sockets: Sequence[int], counts: Sequence[int]) -> tuple[int, int]:
    """(sockets, NUMA nodes) under a choice."""
    on = [socket for socket, count in zip(sockets, counts, strict=True) if count]
    return len(set(on)), len(on)


def without(rooms: tuple[Room, ...], choice: Choice, demand: PlacementDemand) -> tuple[Room, ...]:
    """What a choice leaves."""
    number, counts = choice
    room = rooms[number]
    near = room.near
    if near is not None and demand.qos.binds:
        near = tuple(free - n * demand.cpus_per_gpu for free, n in zip(near, counts, strict=True))
    left = Room(
        gpus=tuple(free - n for free, n in zip(room.gpus, counts, strict=True)),
        near=near,
        anywhere=room.anywhere - demand.tp * demand.cpus_per_gpu,
        cpus=room.cpus - demand.tp * demand.cpus_per_gpu,
        memory_gb=room.memory_gb - demand.tp * demand.memory_gb_per_gpu,
    )
    return (*rooms[:number], left, *rooms[number + 1 :])


def parts_of(
    sites: Sequence[Site],
    replicas: Sequence[tuple[PlacementDemand, int]],
    taken: Sequence[tuple[Choice, ...]],
) -> tuple[PlacedPart, ...]:
    """Choices as records: the lowest free GPUs, cores where alignment binds first."""
    gpus = [[list(free) for free in site.gpus] for site in sites]
    held: dict[tuple[int, int], list[Choice]] = defaultdict(list)
    for at, chosen in enumerate(taken):
        for choice in chosen:
            held[at, choice[0]].append(choice)
    cores = _cores_of(sites, replicas, held)
    found = []
    for (at, number), chosen in held.items():
        demand, replica = replicas[at]
        site = sites[number]
        on = [k for k in range(len(site.numas)) if any(counts[k] for _, counts in chosen)]
        indices = [gpus[number][k].pop(0) for _, counts in chosen for k, n in enumerate(counts) for _ in range(n)]
        found.append(
            PlacedPart(
                island=demand.island,
                replica=replica,
                node=site.record.name,
                asw=site.record.asw,
                tp=demand.tp,
                gpu_indices=tuple(indices),
                numa_nodes=tuple(site.numas[k].id for k in on),
                cores=cores.get((at, number), ()),
                nics=tuple(nic.name for nic in site.record.nics if nic.numa in {site.numas[k].id for k in on}),
            )
        )
    return tuple(found)


def _cores_of(
    sites: Sequence[Site],
    replicas: Sequence[tuple[PlacementDemand, int]],
    held: dict[tuple[int, int], list[Choice]],
) -> dict[tuple[int, int], tuple[int, ...]]:
    free = [None if site.cores is None else [list(cores) for cores in site.cores] for site in sites]
    found = {}
    for at, number in sorted(held, key=lambda key: not replicas[key[0]][0].qos.binds):
        left, demand = free[number], replicas[at][0]
        if left is None:
            continue
        counts: Counter[int] = Counter()
        for _, choice in held[at, number]:
            counts.update(dict(enumerate(choice)))
        taken: list[int] = []
        for k, cores in enumerate(left):
            near = min(counts[k] * demand.cpus_per_gpu, len(cores))
            taken += cores[:near]
            del cores[:near]
        for cores in left:
            more = sum(counts.values()) * demand.cpus_per_gpu - len(taken)
            taken += cores[:more]
            del cores[:more]
        found[at, number] = tuple(sorted(taken))
    return found
