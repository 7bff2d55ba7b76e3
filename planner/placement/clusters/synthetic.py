"""Made-up clusters that look like Alibaba's ASI: homogeneous access switches of 32-64 nodes, filled and churned.

Sources: ASI paper, sections 2 and 4.1 (switches, request sizes, locked tasks); H800 hosts of its node list (8 GPUs, 192
CPUs). Draws come from one numpy Generator, so one seed gives one cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, floor

import numpy as np

from planner.domain import Cluster, ClusterNode, Nic, NodeGpu, NumaNode, Pod
from planner.errors import InputError
from planner.placement.clusters.synthetic_pods import LEAST_CPUS, POOLS, TaskMix, fill

SOCKETS = 2
PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
ASW_LABEL = "topology.planner/asw"
AGGREGATION_LABEL = "topology.planner/aggregation"
POOL_LABEL = "pool"
CLIQUE_LABEL = "nvidia.com/gpu.clique"


class Fit(StrEnum):
    """How tasks found their nodes: on the fullest that has room (packed), or on any that has (fragmented)."""

    BEST = "best"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """Nodes of one GPU type: their share of all nodes, the labels that name the type, their GPUs and NUMA nodes.

    `nodes_per_domain`: nodes of an NVLink domain of several (18 trays of an NVL72; 1: nodes are apart).
    """

    gpu: str
    share: float
    labels: tuple[tuple[str, str], ...] = ()
    gpus: int = 8
    numa_per_socket: int = 1
    cores_per_socket: int = 96
    memory_gb: float = 2048.0
    nodes_per_domain: int = 1

    @property
    def numas(self) -> int:
        """NUMA nodes of a node."""
        return SOCKETS * self.numa_per_socket

    @property
    def cores_per_gpu(self) -> int:
        """Cores of a NUMA node for each of its GPUs."""
        return SOCKETS * self.cores_per_socket // self.gpus


MOST_NODES = 1_000_000
"""More would take an hour and the memory of a large machine."""

DEFAULT_TYPES = (
    NodeType(gpu="H200", share=0.4, labels=((PRODUCT_LABEL, "NVIDIA-H200"),)),
    NodeType(gpu="H800", share=0.3, labels=((PRODUCT_LABEL, "NVIDIA-H800"),)),
    NodeType(gpu="H20", share=0.3, labels=((PRODUCT_LABEL, "NVIDIA-H20"),)),
)


def synthesize(
    nodes: int,
    seed: int,
    load: float,
    *,
    types: Sequence[NodeType] = DEFAULT_TYPES,
    nodes_per_asw: tuple[int, int] = (32, 64),
    asws_per_aggregation: int = 8,
    fit: Fit = Fit.BEST,
    mix: TaskMix | None = None,
    name: str = "",
) -> Cluster:
    """A cluster of `nodes` nodes whose pods hold the share `load` of its GPUs, rounded to a GPU.

    `nodes_per_asw` bounds the nodes of a switch; the last switch of a type may have fewer. Tasks arrive until the load
    is reached, a share departs, others take their place (`mix`). Raises InputError for values outside their range.
    """
    _require(nodes, seed, load, nodes_per_asw, asws_per_aggregation)
    _require_types(types)
    generator = np.random.default_rng(seed)
    counts = _exact_counts(nodes, [kind.share for kind in types])
    switches = [
        (kind, size)
        for kind, count in zip(types, counts, strict=True)
        for size in _switch_sizes(count, nodes_per_asw, kind.nodes_per_domain, generator)
    ]
    order = [switches[at] for at in generator.permutation(len(switches))]
    machines = _nodes(order, nodes, asws_per_aggregation, generator)
    pods = _pods(machines, types, load, mix or TaskMix(), fit is Fit.BEST, generator)
    return Cluster(
        name=name or f"synthetic-{nodes}-{seed}",
        nodes=tuple(machines),
        pods=pods,
        notes=(f"made up: {nodes} nodes, seed {seed}, load {load:g}, {fit.value} fit",),
    )


def _require(nodes: int, seed: int, load: float, per_asw: tuple[int, int], per_aggregation: int) -> None:
    for key, holds, rule, value in (
        ("nodes", 1 <= nodes <= MOST_NODES, f"must be within 1 and {MOST_NODES:,}", nodes),
        ("seed", seed >= 0, "must be at least 0", seed),
        ("load", 0 <= load <= 1, "must be within 0 and 1", load),
        ("nodes_per_asw", 1 <= per_asw[0] <= per_asw[1], "must be two ascending counts, at least 1", per_asw),
        ("asws_per_aggregation", per_aggregation >= 1, "must be at least 1", per_aggregation),
    ):
        if not holds:
            raise InputError(f"Synthetic cluster: {key} {rule}, got {value}.", hint="Correct the value.")


def _require_types(types: Sequence[NodeType]) -> None:
    names = [kind.gpu for kind in types]
    if not types or len(set(names)) < len(names) or any(not kind.share > 0 for kind in types):
        raise InputError(
            "Synthetic cluster: types must be one or more GPU types, each once and of a share above 0, "
            f"got {', '.join(f'{kind.gpu}={kind.share:g}' for kind in types) or 'none'}.",
            hint="Give each type one share; shares need not sum to 1.",
        )
    for kind in types:
        if kind.nodes_per_domain < 1:
            raise InputError(
                f"Synthetic cluster: {kind.gpu}: nodes_per_domain must be at least 1, got {kind.nodes_per_domain}.",
                hint="1: its nodes share no NVLink domain.",
            )
        even = kind.numa_per_socket >= 1 and kind.gpus >= 1 and not (kind.gpus % kind.numas and kind.numas % kind.gpus)
        if not even or kind.cores_per_socket % kind.numa_per_socket or kind.cores_per_gpu < LEAST_CPUS:
            raise InputError(
                f"Synthetic cluster: type {kind.gpu}: gpus and cores must divide evenly over NUMA nodes, with "
                f"{LEAST_CPUS} cores a GPU or more, got {kind.gpus} GPUs and {kind.cores_per_socket} cores a socket "
                f"with {kind.numa_per_socket} NUMA nodes a socket.",
                hint="Choose other NUMA nodes per socket.",
            )


def _exact_counts(total: int, shares: Sequence[float]) -> list[int]:
    """`total` cut in proportion to `shares`; the largest remainders are rounded up."""
    exact = [total * share / sum(shares) for share in shares]
    counts = [floor(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda at: (counts[at] - exact[at], at))
    for at in by_remainder[: total - sum(counts)]:
        counts[at] += 1
    return counts


def _switch_sizes(count: int, bounds: tuple[int, int], unit: int, generator: np.random.Generator) -> list[int]:
    """Nodes of each switch: whole NVLink domains of `unit` nodes, the last one's rest apart."""
    if unit > 1:
        low = max(1, ceil(bounds[0] / unit))
        domains = _switch_sizes(ceil(count / unit), (low, max(low, bounds[1] // unit)), 1, generator)
        return [*(size * unit for size in domains[:-1]), count - unit * sum(domains[:-1])] if domains else []
    low, high = bounds
    sizes: list[int] = []
    remaining = count
    while remaining > high:
        # What remains must be enough for another switch.
        largest = max(low, min(high, remaining - low))
        sizes.append(int(generator.integers(low, largest + 1)))
        remaining -= sizes[-1]
    return [*sizes, remaining] if remaining else sizes


def _nodes(
    switches: Sequence[tuple[NodeType, int]], total: int, per_aggregation: int, generator: np.random.Generator
) -> list[ClusterNode]:
    pools = generator.integers(len(POOLS), size=total)
    width, asw_width = max(4, len(str(total - 1))), max(3, len(str(len(switches) - 1)))
    nodes: list[ClusterNode] = []
    for number, (kind, size) in enumerate(switches):
        asw, aggregation = f"asw-{number:0{asw_width}}", f"agg-{number // per_aggregation:02}"
        shared = (*kind.labels, (COUNT_LABEL, str(kind.gpus)), (ASW_LABEL, asw), (AGGREGATION_LABEL, aggregation))
        numas, nics = _numa_nodes(kind), _nics(kind)
        for place in range(size):
            at = len(nodes)
            if place % kind.nodes_per_domain == 0:
                domain = f"nvl-{at:0{width}}" if kind.nodes_per_domain > 1 else ""
                with_domain = (*shared, (CLIQUE_LABEL, domain)) if domain else shared
                # Made once a domain and shared by its nodes: a million nodes would not fit otherwise.
                labels = [tuple(sorted((*with_domain, (POOL_LABEL, pool)))) for pool in POOLS]
            nodes.append(
                ClusterNode(
                    name=f"node-{at:0{width}}",
                    gpu=kind.gpu,
                    gpus=tuple(
                        NodeGpu(index=gpu, uuid=f"GPU-{at:08x}-0000-0000-0000-{gpu:012x}", numa=_numa_of(kind, gpu))
                        for gpu in range(kind.gpus)
                    ),
                    numa_nodes=numas,
                    cpus=float(SOCKETS * kind.cores_per_socket),
                    memory_gb=kind.memory_gb,
                    asw=asw,
                    aggregation=aggregation,
                    nvlink_domain=domain,
                    nics=nics,
                    labels=labels[pools[at]],
                )
            )
    return nodes


def _numa_of(kind: NodeType, gpu: int) -> int:
    return gpu * kind.numas // kind.gpus


def _numa_nodes(kind: NodeType) -> tuple[NumaNode, ...]:
    cores = kind.cores_per_socket // kind.numa_per_socket
    return tuple(
        NumaNode(
            id=numa,
            socket=numa // kind.numa_per_socket,
            cores=tuple(range(numa * cores, (numa + 1) * cores)),
            memory_gb=kind.memory_gb / kind.numas,
        )
        for numa in range(kind.numas)
    )


def _nics(kind: NodeType) -> tuple[Nic, ...]:
    """A card for each GPU, beside it."""
    return tuple(Nic(name=f"mlx5_{gpu}", numa=_numa_of(kind, gpu)) for gpu in range(kind.gpus))


def _pods(
    nodes: Sequence[ClusterNode],
    types: Sequence[NodeType],
    load: float,
    mix: TaskMix,
    best: bool,
    generator: np.random.Generator,
) -> tuple[Pod, ...]:
    """Tasks ask for one GPU type each, as more than 99 % of ASI's do, so the types are filled one by one."""
    total = sum(len(node.gpus) for node in nodes)
    aim, behind = round(load * total), 0
    pods: list[Pod] = []
    for kind in types:
        of_type = [node for node in nodes if node.gpu == kind.gpu]
        before, behind = behind, behind + sum(len(node.gpus) for node in of_type)
        # A difference of rounded sums: so the types together meet the load to a GPU.
        target = aim * behind // total - aim * before // total
        if of_type:
            pods += fill(of_type, kind.cores_per_gpu, target, mix, best, generator, first=len(pods))
    return tuple(pods)
