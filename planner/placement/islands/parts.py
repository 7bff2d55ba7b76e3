"""Islands as records: which GPUs by index, which cores, which cards, and how well each island lies."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from planner.domain import Alignment, ClusterNode, IslandSite, PlacedPart, Pod
from planner.domain.shapes import Shape, alignment_of, least_width
from planner.placement.islands.fleet import Fleet, HeldGroup, Site, under_switches
from planner.placement.islands.scoring import T_OF
from planner.placement.islands.switches import entropy


def parts_of(
    sites: Sequence[Site], fleet: Fleet, evicted: Mapping[str, Sequence[Pod]] | None = None
) -> tuple[PlacedPart, ...]:
    """Every island's parts, a replica and a node each; the lowest free indices of a NUMA node go first. Where pods do
    not say which GPUs they hold, indices stand for a number: those that no pod is known to hold.

    `sites` come up in their order: each takes nothing that pods evicted for a later island (`evicted`, by island) hold.
    """
    free: dict[int, _Free] = {}

    def free_on(node: int) -> _Free:
        if node not in free:
            free[node] = _Free(fleet.nodes[node], fleet.shapes[node], fleet.pods_of.get(node, ()))
        return free[node]

    parts = []
    for site in sites:
        # Whoever comes later must not be given what is still held when it comes up.
        for pod in (evicted or {}).get(site.demand.island, ()):
            free_on(fleet.number[pod.node]).give_back(pod)
        for number, replica in enumerate(site.replicas):
            by_node = groupby(sorted(replica, key=lambda group: group.node), key=lambda group: group.node)
            for node, groups in by_node:
                parts.append(_part(site, number, fleet, node, list(groups), free_on(node)))
    return tuple(parts)


class _Free:
    """Free GPU indices and core ids of one node, by NUMA node; both are handed out from the lowest."""

    def __init__(self, node: ClusterNode, shape: Shape, pods: Sequence[Pod]) -> None:
        used_gpus = {index for pod in pods for index in pod.gpus}
        pinned = {core for pod in pods for core in pod.cores}
        cores = {numa.id: sorted(set(numa.cores) - pinned) for numa in node.numa_nodes}
        by_numa: dict[int, list[int]] = defaultdict(list)
        for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
            if gpu.index not in used_gpus:
                by_numa[gpu.numa].append(gpu.index)
        self.gpus = [by_numa[numa] for numa in shape.numa_ids]
        self.cores = [cores[numa] for numa in shape.numa_ids]
        self.node, self.numa_ids = node, shape.numa_ids

    def give_back(self, pod: Pod) -> None:
        """What a pod held is free, now that it is gone."""
        numa_of_gpu = {gpu.index: gpu.numa for gpu in self.node.gpus}
        numa_of_core = {core: numa.id for numa in self.node.numa_nodes for core in numa.cores} if pod.cores else {}
        for index in pod.gpus:
            insort(self.gpus[self.numa_ids.index(numa_of_gpu[index])], index)
        for core in pod.cores:
            insort(self.cores[self.numa_ids.index(numa_of_core[core])], core)


def _part(site: Site, replica: int, fleet: Fleet, node: int, groups: list[HeldGroup], free: _Free) -> PlacedPart:
    record, shape = fleet.nodes[node], fleet.shapes[node]
    gpus = [index for group in groups for index in _handed(free.gpus, group.gpus)]
    cores = [core for group in groups for core in _handed(free.cores, group.cores)]
    numas = {gpu.numa for gpu in record.gpus if gpu.index in set(gpus)}
    return PlacedPart(
        island=site.demand.island,
        replica=replica,
        node=record.name,
        asw=record.asw,
        tp=site.demand.tp,
        gpu_indices=tuple(gpus),
        numa_nodes=tuple(numa for numa in shape.numa_ids if numa in numas),
        cores=tuple(sorted(cores)),
        nics=tuple(_nics(record, gpus)) if fleet.open[node] else (),
        gpus_assumed=not fleet.open[node],
    )


def _handed(lists: list[list[int]], counts: Sequence[int]) -> Iterator[int]:
    for ids, count in zip(lists, counts, strict=True):
        yield from ids[:count]
        del ids[:count]


def _nics(node: ClusterNode, gpus: Sequence[int]) -> Iterator[str]:
    """Each GPU's card: those of its NUMA node are shared out over that node's GPUs in order."""
    used: set[str] = set()
    for numa in node.numa_nodes:
        cards = sorted(nic.name for nic in node.nics if nic.numa == numa.id)
        near = sorted(gpu.index for gpu in node.gpus if gpu.numa == numa.id)
        used |= {cards[near.index(g) * len(cards) // len(near)] for g in gpus if cards and g in near}
    return iter(sorted(used))


def record_of(site: Site, fleet: Fleet, waits_for: tuple[int, ...] | None = None) -> IslandSite:
    """How well an island lies, and which evictions it waits for."""
    nodes = site.nodes
    under = under_switches(nodes.items(), fleet.switch_of)
    # Without domains places are switches, and are told as those.
    inside = under_switches(nodes.items(), fleet.places.of) if fleet.places.has_domains else {}
    lies = {alignment_of(fleet.width(group.node, group.gpus)) for group in site.groups}
    return IslandSite(
        island=site.demand.island,
        gpus=site.demand.size,
        nodes=len(nodes),
        switches=tuple(
            (fleet.switches[s], gpus) for s, gpus in sorted(under.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
        entropy=entropy(list(under.values())),
        aligned=all(_aligned(site, fleet, group) for group in site.groups),
        worst=min(lies, key=lambda alignment: T_OF[Alignment(alignment)]),
        crossing_replicas=sum(len({fleet.switch_of[group.node] for group in replica}) > 1 for replica in site.replicas),
        domains=tuple(
            (fleet.places.domain[place], gpus)
            for place, gpus in sorted(inside.items(), key=lambda pair: (-pair[1], pair[0]))
            if fleet.places.domain[place]
        ),
        crossing_domains=sum(_leaves_a_domain(replica, fleet) for replica in site.replicas),
        waits_for=waits_for,
    )


def _leaves_a_domain(groups: Iterable[HeldGroup], fleet: Fleet) -> bool:
    places = {fleet.places.of[group.node] for group in groups}
    return len(places) > 1 and any(fleet.places.domain[place] for place in places)


def _aligned(site: Site, fleet: Fleet, group: HeldGroup) -> bool:
    shape = fleet.shapes[group.node]
    narrowest = least_width(shape, site.ask.kind)
    return narrowest is not None and fleet.width(group.node, group.gpus) <= narrowest
