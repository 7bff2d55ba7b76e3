"""Nodes, clusters and placements for the tests, written out by hand."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import log

from planner.domain import (
    Alignment,
    Cluster,
    ClusterNode,
    ClusterState,
    IslandSite,
    Nic,
    NodeGpu,
    NumaNode,
    PlacedPart,
    Placement,
    PlacementDemand,
    Pod,
    Shortfall,
    Victim,
)

NOTHING = ClusterState(gpus=0, allocated=0, idle=0, headroom_gpus=0, watts=0.0, empty_nodes=0, fragments=())


def node(
    name: str,
    *,
    numas: int = 2,
    sockets: int = 2,
    gpus: int = 4,
    cores: int = 32,
    asw: str = "asw-1",
    **changes: object,
) -> ClusterNode:
    """A node with `gpus` GPUs and `cores` cores in each NUMA node, GPUs and cores in order."""
    fields: dict[str, object] = {
        "name": name,
        "gpu": "H20",
        "gpus": tuple(NodeGpu(index=i, uuid=f"{name}-{i}", numa=i // gpus) for i in range(numas * gpus)),
        "numa_nodes": tuple(
            NumaNode(id=n, socket=n * sockets // numas, cores=tuple(range(n * cores, (n + 1) * cores)))
            for n in range(numas)
        ),
        "cpus": float(numas * cores),
        "memory_gb": 1000.0,
        "asw": asw,
        "nics": tuple(Nic(name=f"mlx5_{n}", numa=n) for n in range(numas)),
    }
    return ClusterNode(**(fields | changes))  # type: ignore[arg-type]


def cluster_of(*nodes: ClusterNode, pods: Iterable[Pod] = ()) -> Cluster:
    """A cluster of these."""
    return Cluster(name="small", nodes=nodes, pods=tuple(pods))


def placement_of(
    cluster: Cluster,
    parts: Sequence[PlacedPart],
    *,
    shortfalls: Sequence[Shortfall] = (),
    victims: Sequence[Victim] = (),
    aligned: bool = True,
) -> Placement:
    """A placement of these parts, its sites worked out from them; `aligned` as told."""
    islands: dict[str, list[PlacedPart]] = defaultdict(list)
    for part in parts:
        islands[part.island].append(part)
    return Placement(
        cluster=cluster.name,
        parts=tuple(parts),
        sites=tuple(_site(cluster, name, found, aligned) for name, found in islands.items()),
        shortfalls=tuple(shortfalls),
        before=NOTHING,
        after=NOTHING,
        score=0.0,
        terms=(),
        victims=tuple(victims),
    )


def _site(cluster: Cluster, island: str, parts: Sequence[PlacedPart], aligned: bool) -> IslandSite:
    nodes = {one.name: one for one in cluster.nodes}
    switches: Counter[str] = Counter()
    replicas: dict[int, set[str]] = defaultdict(set)
    worst = 0
    for part in parts:
        switches[part.asw] += len(part.gpu_indices)
        replicas[part.replica].add(part.asw)
        numa_of = {gpu.index: gpu.numa for gpu in nodes[part.node].gpus}
        socket_of = {numa.id: numa.socket for numa in nodes[part.node].numa_nodes}
        for group in part.groups:
            numas = {numa_of[index] for index in group}
            worst = max(worst, 2 if len({socket_of[numa] for numa in numas}) > 1 else int(len(numas) > 1))
    gpus = sum(switches.values())
    return IslandSite(
        island=island,
        gpus=gpus,
        nodes=len({part.node for part in parts}),
        switches=tuple(switches.items()),
        entropy=-sum(n / gpus * log(n / gpus) for n in switches.values()),
        aligned=aligned,
        worst=(Alignment.NUMA, Alignment.SOCKET, Alignment.CROSS)[worst],
        crossing_replicas=sum(len(names) > 1 for names in replicas.values()),
    )


def short(demand: PlacementDemand) -> Shortfall:
    """An island that was not placed."""
    return Shortfall(island=demand.island, gpu=demand.gpu, gpus=demand.size, resource="GPUs", reason="none idle")
