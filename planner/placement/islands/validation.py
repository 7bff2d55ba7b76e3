"""Replays a placement on its cluster from the records alone, and names everything that does not hold.

Nothing of the placer is used here, so that a mistake there shows here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum, isclose, log

from planner.domain import (
    Alignment,
    Cluster,
    ClusterNode,
    IslandSite,
    PlacedPart,
    Placement,
    PlacementDemand,
    PlacementSettings,
    Pod,
    Qos,
    Taint,
)
from planner.placement.islands.evictions.victim_validation import victim_faults

PRIORITY = PlacementSettings().priority
ROUNDING = 1e-6
REPELLING = ("NoSchedule", "NoExecute")
BY_MANIFESTS = (Taint(key="nvidia.com/gpu"), Taint(key="amd.com/gpu"))
"""Taints that every manifest tolerates."""

Hardware = tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]
"""NUMA node of each GPU; (id, socket, cores) of each NUMA node."""


def violations(
    cluster: Cluster,
    demands: Sequence[PlacementDemand],
    placement: Placement,
    *,
    tolerations: Sequence[Taint] = (),
    priority: int = PRIORITY,
    evictions: PlacementSettings | None = None,
) -> tuple[str, ...]:
    """Everything about `placement` that does not hold on `cluster`, a sentence each; none: it is sound.

    `cluster` is the one before placement and sound itself (`require_sound`). `tolerations` are those of the islands'
    pods, `priority` is theirs: victims must be below it. A toleration without key, value or effect covers them all.
    `evictions`: whose limits on victims hold, and whose priority.
    """
    replay = _Replay.of(cluster, demands, placement, tuple(tolerations))
    return (
        *victim_faults(cluster, replay.demands, placement, evictions or PlacementSettings(priority=priority)),
        *(fault for part in placement.parts for fault in replay.part(part)),
        *replay.shared(),
        *replay.completeness(),
        *replay.islands(),
    )


@dataclass(frozen=True, slots=True)
class _Replay:
    """The records by name. `pods`: those of each node that stay; `fewest`: answers about empty nodes."""

    cluster: Cluster
    placement: Placement
    nodes: dict[str, ClusterNode]
    demands: dict[str, PlacementDemand]
    pods: dict[str, list[Pod]]
    parts: dict[str, list[PlacedPart]]
    tolerations: tuple[Taint, ...]
    fewest: dict[tuple[Hardware, int, int], tuple[int, int] | None]

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        demands: Sequence[PlacementDemand],
        placement: Placement,
        tolerations: tuple[Taint, ...],
    ) -> "_Replay":
        """Records sorted by name; evicted pods are gone."""
        evicted = {victim.pod for victim in placement.victims}
        pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in cluster.pods:
            if pod.key not in evicted:
                pods[pod.node].append(pod)
        parts: dict[str, list[PlacedPart]] = defaultdict(list)
        for part in placement.parts:
            parts[part.island].append(part)
        nodes = {node.name: node for node in cluster.nodes}
        by_island = {demand.island: demand for demand in demands}
        return cls(cluster, placement, nodes, by_island, pods, parts, tolerations, {})

    def part(self, part: PlacedPart) -> Iterator[str]:
        """What holds of one part by itself."""
        where = f"island {part.island} replica {part.replica} on node {part.node}:"
        demand, node = self.demands.get(part.island), self.nodes.get(part.node)
        if demand is None:
            yield f"{where} island is not asked for."
        if node is None:
            yield f"{where} node is not in the cluster."
        if demand is None or node is None:
            return
        for fault in (*self._unsuited(part, demand, node), *_broken_gpus(part, demand, node)):
            yield f"{where} {fault}."
        if self._exists(part):
            for fault in (*_broken_cores(part, demand, node), *self._misaligned(part, demand, node)):
                yield f"{where} {fault}."

    def _unsuited(self, part: PlacedPart, demand: PlacementDemand, node: ClusterNode) -> Iterator[str]:
        if node.gpu != demand.gpu:
            yield f"gpu is {node.gpu or 'none'}, not {demand.gpu}"
        if part.asw != node.asw:
            yield f"asw {part.asw!r} is not the node's {node.asw!r}"
        for label in sorted(set(demand.selector) - set(node.labels)):
            yield f"labels lack {label[0]}={label[1]}"
        for taint in node.taints:
            if taint.effect in REPELLING and not any(
                _tolerates(toleration, taint) for toleration in (*BY_MANIFESTS, *self.tolerations)
            ):
                yield f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated"
        if part.gpus_assumed and all(
            pod.gpus_known and not pod.gpu_share for pod in self.cluster.pods if pod.node == node.name
        ):
            yield "gpus_assumed is true, and it is known which GPUs are free"
        if (demand.qos.binds and demand.tp > 1) or not part.gpus_assumed:  # one GPU alone is always aligned
            for pod in self.pods.get(node.name, ()):
                if not pod.gpus_known:
                    yield f"pod {pod.key} holds {pod.gpu_count} GPUs there, and which is not known"

    def _misaligned(self, part: PlacedPart, demand: PlacementDemand, node: ClusterNode) -> Iterator[str]:
        for group in _groups(part):
            if demand.qos is Qos.SINGLE_NUMA and _width(node, group)[1] > 1:
                yield f"GPUs {list(group)} are not inside one NUMA node (qos single_numa)"
            if demand.qos is Qos.GUARANTEED and not self._aligned(node, group, demand):
                narrowest = self._fewest(node, len(group), demand.cpus_per_gpu)
                able = "cannot hold the group with its cores" if narrowest is None else f"needs {narrowest}"
                yield (
                    f"GPUs {list(group)} lie on {_width(node, group)} sockets and NUMA nodes, where an empty node "
                    f"{able} (qos guaranteed)"
                )

    def _aligned(self, node: ClusterNode, group: Sequence[int], demand: PlacementDemand) -> bool:
        return self._narrow(node, len(group), _width(node, group), demand)

    def _narrow(self, node: ClusterNode, size: int, width: tuple[int, int], demand: PlacementDemand) -> bool:
        narrowest = self._fewest(node, size, demand.cpus_per_gpu)
        return narrowest is not None and width <= narrowest

    def _fewest(self, node: ClusterNode, size: int, cpus_per_gpu: int) -> tuple[int, int] | None:
        hardware = (
            tuple(sorted(gpu.numa for gpu in node.gpus)),
            tuple(sorted((numa.id, numa.socket, len(numa.cores)) for numa in node.numa_nodes)),
        )
        key = (hardware, size, cpus_per_gpu)
        if key not in self.fewest:
            self.fewest[key] = fewest(hardware, size, cpus_per_gpu)
        return self.fewest[key]

    def shared(self) -> Iterator[str]:
        """What the parts and pods of each node hold together."""
        by_node: dict[str, list[PlacedPart]] = defaultdict(list)
        for part in self.placement.parts:
            if part.node in self.nodes and part.island in self.demands:
                by_node[part.node].append(part)
        for name, parts in by_node.items():
            pods = self.pods.get(name, [])
            yield from _held_twice(name, parts, pods)
            yield from _counted_twice(self.nodes[name], parts, pods)
            yield from self._over_committed(self.nodes[name], parts, pods)

    def _over_committed(self, node: ClusterNode, parts: Sequence[PlacedPart], pods: Sequence[Pod]) -> Iterator[str]:
        gpus = [(len(part.gpu_indices), self.demands[part.island]) for part in parts]
        cpus = fsum(max(pod.cpus, len(pod.cores)) for pod in pods) + sum(n * ask.cpus_per_gpu for n, ask in gpus)
        memory = fsum(pod.memory_gb for pod in pods) + fsum(n * ask.memory_gb_per_gpu for n, ask in gpus)
        islands = ", ".join(sorted({part.island for part in parts}))
        for key, used, had in (("cpus", cpus, node.cpus), ("memory_gb", memory, node.memory_gb)):
            if used > had * (1 + ROUNDING) + ROUNDING and any(_asks(ask, key) for _, ask in gpus):
                yield f"node {node.name}: {key} {used:g} of {had:g} are asked for (islands {islands})."

    def completeness(self) -> Iterator[str]:
        """Every island is whole in the parts or told as short."""
        short = Counter(shortfall.island for shortfall in self.placement.shortfalls)
        for island, count in short.items():
            if island not in self.demands:
                yield f"island {island}: shortfalls name it, and it is not asked for."
            if count > 1:
                yield f"island {island}: shortfalls name it {count} times."
            if self.parts.get(island):
                yield f"island {island}: it has both parts and a shortfall."
        for island, demand in self.demands.items():
            if island in short:
                continue
            if island not in self.parts:
                if demand.size:
                    yield f"island {island}: it has neither parts nor a shortfall."
                continue
            yield from self._incomplete(demand, self.parts[island])

    def _incomplete(self, demand: PlacementDemand, parts: Sequence[PlacedPart]) -> Iterator[str]:
        groups: Counter[int] = Counter()
        for part in parts:
            groups[part.replica] += len(_groups(part))
        if len(groups) != demand.replicas:
            yield f"island {demand.island}: replicas are {len(groups)}, not {demand.replicas}."
        for replica, count in sorted(groups.items()):
            if count != demand.groups:
                yield f"island {demand.island} replica {replica}: groups are {count}, not {demand.groups}."
        for (replica, node), count in Counter((part.replica, part.node) for part in parts).items():
            if count > 1:
                yield f"island {demand.island} replica {replica} on node {node}: it is listed {count} times."
        if demand.per_node:
            yield from _crowded(demand, parts)

    def islands(self) -> Iterator[str]:
        """The sites tell what the parts are."""
        sites = Counter(site.island for site in self.placement.sites)
        for island in self.parts:
            if sites[island] != 1:
                yield f"island {island}: sites name it {sites[island]} times, not once."
        for site in self.placement.sites:
            parts = self.parts.get(site.island)
            if not parts or site.island not in self.demands:
                yield f"island {site.island}: a site is told, and it has no parts."
            elif all(self._exists(part) for part in parts):
                yield from self._mistold(site, parts, self.demands[site.island])

    def _exists(self, part: PlacedPart) -> bool:
        """Whether its GPUs are there to be judged."""
        node = self.nodes.get(part.node)
        return node is not None and set(part.gpu_indices) <= {gpu.index for gpu in node.gpus}

    def _mistold(self, site: IslandSite, parts: Sequence[PlacedPart], demand: PlacementDemand) -> Iterator[str]:
        switches: Counter[str] = Counter()
        domains: Counter[str] = Counter()
        under: dict[int, set[str]] = defaultdict(set)
        inside: dict[int, set[tuple[str, str]]] = defaultdict(set)
        for part in parts:
            switches[part.asw] += len(part.gpu_indices)
            under[part.replica].add(part.asw)
            domain = self.nodes[part.node].nvlink_domain
            domains[domain] += len(part.gpu_indices)
            inside[part.replica].add((domain, "" if domain else part.asw))
        leaving = sum(len(places) > 1 and any(domain for domain, _ in places) for places in inside.values())
        groups = [(self.nodes[part.node], group, part) for part in parts for group in _groups(part)]
        widths = [_told_width(node, group, part) for node, group, part in groups]
        total = sum(switches.values())
        h = -fsum(count / total * log(count / total) for count in switches.values() if count)
        for key, listed, actual in (
            ("gpus", site.gpus, total),
            ("nodes", site.nodes, len({part.node for part in parts})),
            ("switches", sorted(site.switches), sorted(switches.items())),
            (
                "aligned",
                site.aligned,
                all(
                    self._narrow(node, len(group), width, demand)
                    for (node, group, _), width in zip(groups, widths, strict=True)
                ),
            ),
            ("worst", site.worst.value, _worst(widths).value),
            ("domains", sorted(site.domains), sorted((name, gpus) for name, gpus in domains.items() if name)),
            ("crossing_domains", site.crossing_domains, leaving),
            ("crossing_replicas", site.crossing_replicas, sum(len(names) > 1 for names in under.values())),
        ):
            if listed != actual:
                yield f"island {site.island}: its site's {key} {listed} is not {actual}."
        if not isclose(site.entropy, h, rel_tol=1e-9, abs_tol=1e-9):
            yield f"island {site.island}: its site's entropy {site.entropy:g} is not {h:g}."


def fewest(hardware: Hardware, size: int, cpus_per_gpu: int) -> tuple[int, int] | None:
    """The fewest sockets, then NUMA nodes, of all sets of `size` GPUs of an empty node; None where no set will do.

    A NUMA node hosts at most as many GPUs as its cores suffice for; where no cores are listed they do not limit.
    """
    gpus, numas = hardware
    socket = {numa: where for numa, where, _ in numas}
    cores = {numa: count for numa, _, count in numas}
    limited = cpus_per_gpu > 0 and any(cores.values())
    best: tuple[int, int] | None = None
    for chosen in set(combinations(sorted(gpus), size)):
        counts = Counter(chosen)
        if limited and any(count > cores[numa] // cpus_per_gpu for numa, count in counts.items()):
            continue
        width = (len({socket[numa] for numa in counts}), len(counts))
        best = width if best is None else min(best, width)
    return best


def _crowded(demand: PlacementDemand, parts: Sequence[PlacedPart]) -> Iterator[str]:
    """Servers that losing one node would take, beyond those that the plan counts on."""
    nodes_of: dict[int, set[str]] = defaultdict(set)
    servers_on: dict[str, set[int]] = defaultdict(set)
    for part in parts:
        nodes_of[part.replica].add(part.node)
        servers_on[part.node].add(part.replica)
    running = dict(demand.running)
    for replica, nodes in sorted(nodes_of.items()):
        if len(nodes) > 1:
            names = ", ".join(sorted(nodes))
            yield f"island {demand.island} replica {replica}: it must lie inside one node, not on {names}."
    for node, replicas in sorted(servers_on.items()):
        if (count := len(replicas) + running.get(node, 0)) > demand.per_node:
            yield f"island {demand.island}: {count} servers are on node {node}, where at most {demand.per_node} may be."


def _asks(demand: PlacementDemand, key: str) -> bool:
    return (demand.cpus_per_gpu if key == "cpus" else demand.memory_gb_per_gpu) > 0


def _tolerates(toleration: Taint, taint: Taint) -> bool:
    return (
        toleration.key in ("", taint.key)
        and toleration.value in ("", taint.value)
        and toleration.effect in ("", taint.effect)
    )


def _broken_gpus(part: PlacedPart, demand: PlacementDemand, node: ClusterNode) -> Iterator[str]:
    numa = {gpu.index: gpu.numa for gpu in node.gpus}
    for index in part.gpu_indices:
        if index not in numa:
            yield f"gpu_indices: GPU {index} is not on the node"
    if part.tp != demand.tp:
        yield f"tp {part.tp} is not {demand.tp}"
    if not part.gpu_indices or len(part.gpu_indices) % demand.tp:
        yield f"gpu_indices: {len(part.gpu_indices)} GPUs are no whole groups of {demand.tp}"
    numas = sorted({numa[index] for index in part.gpu_indices if index in numa})
    if sorted(part.numa_nodes) != numas:
        yield f"numa_nodes {list(part.numa_nodes)} are not those of its GPUs, {numas}"
    for name in sorted(set(part.nics) - {nic.name for nic in node.nics}):
        yield f"nics: {name} is not on the node"


def _broken_cores(part: PlacedPart, demand: PlacementDemand, node: ClusterNode) -> Iterator[str]:
    numa_of_core = {core: numa.id for numa in node.numa_nodes for core in numa.cores}
    strange = [core for core in part.cores if core not in numa_of_core]
    if strange:
        yield f"cores: {strange} are not on the node"
        return
    needed = len(part.gpu_indices) * demand.cpus_per_gpu if numa_of_core else 0
    if len(part.cores) != needed:
        yield f"cores: {len(part.cores)} are pinned, {needed} asked for"
    if demand.qos.binds:
        numa_of_gpu = {gpu.index: gpu.numa for gpu in node.gpus}
        gpus = Counter(numa_of_gpu[index] for index in part.gpu_indices)
        cores = Counter(numa_of_core[core] for core in part.cores)
        for numa in sorted({*gpus, *cores}):
            if numa_of_core and cores[numa] != gpus[numa] * demand.cpus_per_gpu:
                yield f"cores: {cores[numa]} lie in NUMA node {numa}, where {gpus[numa]} of its GPUs do"


def _held_twice(node: str, parts: Sequence[PlacedPart], pods: Sequence[Pod]) -> Iterator[str]:
    owners: dict[tuple[str, int], str] = {}
    for pod in pods:
        owners.update({("gpu_indices", index): f"pod {pod.key}" for index in pod.gpus})
        owners.update({("cores", core): f"pod {pod.key}" for core in pod.cores})
    for part in parts:
        name = f"island {part.island} replica {part.replica}"
        items = [("gpu_indices", index) for index in part.gpu_indices] + [("cores", core) for core in part.cores]
        for key, item in items:
            if (key, item) in owners:
                yield f"{name} on node {node}: {key}: {item} is held by {owners[key, item]}, too."
            owners[key, item] = name


def _counted_twice(node: ClusterNode, parts: Sequence[PlacedPart], pods: Sequence[Pod]) -> Iterator[str]:
    """GPUs by number, which is all that is known of those whose pods do not say which they are."""
    by_pods, by_parts = sum(pod.gpu_count for pod in pods), sum(len(part.gpu_indices) for part in parts)
    if by_pods + by_parts > len(node.gpus):
        yield f"node {node.name}: gpu_indices: pods hold {by_pods} and parts {by_parts} of its {len(node.gpus)} GPUs."


def _width(node: ClusterNode, group: Sequence[int]) -> tuple[int, int]:
    """(sockets, NUMA nodes) under a group of GPUs."""
    socket = {numa.id: numa.socket for numa in node.numa_nodes}
    numas = {gpu.numa for gpu in node.gpus if gpu.index in group}
    return len({socket[numa] for numa in numas}), len(numas)


def _groups(part: PlacedPart) -> tuple[tuple[int, ...], ...]:
    return part.groups if part.tp > 0 else ()


def _told_width(node: ClusterNode, group: Sequence[int], part: PlacedPart) -> tuple[int, int]:
    """That of the indices; where they stand for a number alone, of the GPUs that lie farthest apart."""
    if not part.gpus_assumed:
        return _width(node, group)
    sockets, numas = _width(node, [gpu.index for gpu in node.gpus])
    return min(sockets, len(group)), min(numas, len(group))


def _worst(widths: Sequence[tuple[int, int]]) -> Alignment:
    if any(sockets > 1 for sockets, _ in widths):
        return Alignment.CROSS
    return Alignment.SOCKET if any(numas > 1 for _, numas in widths) else Alignment.NUMA
