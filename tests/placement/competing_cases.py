"""Small clusters on which islands of both phases compete for what evictions free, and the best sets of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import yaml

from planner.domain import (
    PHASES,
    Cluster,
    ClusterNode,
    NodeGpu,
    NumaNode,
    Phase,
    PlacementDemand,
    PlacementSettings,
    Pod,
    Qos,
)
from planner.files.cluster.cluster_sections import cluster_from_section
from planner.files.sections import Section
from planner.placement import place

Case = tuple[Cluster, list[PlacementDemand]]
Worth = tuple[float, float]

PREEMPTING = PlacementSettings(preempt=True, priority=1000)


def recorded(name: str) -> Case:
    """A case of the folder beside this file."""
    document = yaml.safe_load((Path(__file__).parent / "competing_clusters" / f"{name}.yaml").read_text())
    rows = ({**row, "phase": Phase(row["phase"]), "qos": Qos(row["qos"])} for row in document["demands"])
    return cluster_from_section(Section(document["cluster"], file=name)), [PlacementDemand(**row) for row in rows]


def drawn(seed: int) -> Case:
    """4 to 13 nodes of one or two GPU types, up to nine in ten GPUs held by single pods; 2 to 6 islands."""
    rng = np.random.default_rng(seed)
    types = [str(gpu) for gpu in rng.choice(["H20", "H100", "H800"], size=int(rng.integers(1, 3)), replace=False)]
    nodes: list[ClusterNode] = []
    pods: list[Pod] = []
    count, switch = int(rng.integers(4, 14)), -1
    while len(nodes) < count:
        switch, gpu = switch + 1, types[int(rng.integers(len(types)))]
        for _ in range(int(rng.integers(1, 5))):
            if len(nodes) < count:
                nodes.append(_node(rng, f"n{len(nodes)}", gpu, f"s{switch}"))
                pods += _pods(rng, nodes[-1])
    return Cluster(name="drawn", nodes=tuple(nodes), pods=tuple(pods)), _islands(rng, types)


def _node(rng: np.random.Generator, name: str, gpu: str, switch: str) -> ClusterNode:
    gpus, numas = int(rng.choice([4, 8, 8])), int(rng.choice([2, 4]))
    sockets = 2 if rng.random() < 0.6 else 1
    return ClusterNode(
        name=name,
        gpu=gpu,
        gpus=tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=k * numas // gpus) for k in range(gpus)),
        numa_nodes=tuple(NumaNode(id=k, socket=k * sockets // numas) for k in range(numas)),
        cpus=192.0,
        memory_gb=2000.0,
        asw=switch,
        aggregation="a0",
    )


def _pods(rng: np.random.Generator, node: ClusterNode) -> Iterator[Pod]:
    busy = rng.choice([0, 0.3, 0.5, 0.7, 0.9])
    for gpu in node.gpus:
        if rng.random() < busy:
            yield Pod(
                name=f"p{gpu.uuid}",
                node=node.name,
                gpus=(gpu.index,),
                cpus=float(rng.choice([4, 8, 16])),
                memory_gb=10.0,
                priority=int(rng.choice([0, 100, 2000])),
                preemptible=bool(rng.random() < 0.6),
            )


def _islands(rng: np.random.Generator, types: Sequence[str]) -> list[PlacementDemand]:
    return [
        PlacementDemand(
            island=f"i{k}",
            gpu=types[int(rng.integers(len(types)))],
            phase=list(PHASES)[int(rng.integers(2))],
            replicas=int(rng.integers(1, 3)),
            groups=int(rng.integers(1, 4)),
            tp=int(rng.choice([1, 2, 4, 4, 8])),
            qos=list(Qos)[int(rng.choice([1, 1, 2, 3]))],
            cpus_per_gpu=int(rng.choice([0, 8])),
        )
        for k in range(int(rng.integers(2, 7)))
    ]


def worth(placed: Sequence[PlacementDemand], demands: Sequence[PlacementDemand]) -> Worth:
    """What the phase with the least has of its GPUs, and the sum of what all have."""
    phases = {one.phase for one in demands}
    total = {phase: sum(one.size for one in demands if one.phase is phase) for phase in phases}
    got = [sum(one.size for one in placed if one.phase is phase) / total[phase] for phase in phases]
    return round(min(got), 9), round(sum(got), 9)


def best_set(cluster: Cluster, demands: Sequence[PlacementDemand], got: Worth) -> Worth:
    """The most of all sets of islands that are worth more than what was `got` and fit once everybody is gone who may
    go, as there are no limits; else that."""
    goes = {pod.key for pod in cluster.pods if pod.preemptible and not pod.locked and pod.priority < 1000}
    emptied = replace(cluster, pods=tuple(pod for pod in cluster.pods if pod.key not in goes))
    sets = (some for count in range(1, len(demands) + 1) for some in combinations(demands, count))
    for some in sorted(sets, key=lambda some: worth(some, demands), reverse=True):
        if worth(some, demands) <= got:
            break
        if len(place(some, emptied, PlacementSettings()).sites) == len(some):
            return worth(some, demands)
    return got
