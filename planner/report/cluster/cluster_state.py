"""A cluster in numbers: who holds its GPUs, and what fits into those that are idle."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from planner.domain import Cluster, ClusterNode, FragmentShare, Pod, PodClass
from planner.domain.usable import LeftOut, fault_of

REQUESTS = (1, 2, 4, 8)
"""GPUs of the requests whose fit is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeState:
    """GPUs of one type. `shut`: that no pod holds, on nodes with a fault; `empty_nodes`: of those without one.
    `switches`: nodes under each access switch, ascending."""

    gpu: str
    nodes: int
    gpus: int
    held: int
    shut: int
    empty_nodes: int
    switches: tuple[int, ...]

    @property
    def idle(self) -> int:
        """GPUs that a pod could have."""
        return self.gpus - self.held - self.shut


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassState:
    """Pods of one class that hold GPUs, their GPUs and CPUs; GPUs that may be preempted, GPUs that are locked."""

    kind: PodClass
    pods: int
    gpus: int
    cpus: float
    preemptible_gpus: int
    locked_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferState:
    """Parts of GPUs of one type that nodes offer under one name, and what pods hold of such nodes, in GPUs."""

    gpu: str
    resource: str
    nodes: int
    pieces: int
    held_gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """What there is to say about a cluster in a page.

    `crossing`: pods of several GPUs that lie in both sockets although one has GPUs enough (FlexTopo paper, figure 8),
    out of `alignable` pods. `unknown_nodes`: nodes with pods whose GPUs are not known; their idle GPUs count by number.
    `shut`: GPUs that nobody holds and nobody can have, as their nodes have a fault.
    `offers`: GPUs in parts, which are in no other count. `plain_nodes` have no GPUs, neither whole nor in parts.
    """

    name: str
    nodes: int
    plain_nodes: int
    types: tuple[TypeState, ...]
    classes: tuple[ClassState, ...]
    switches: int
    aggregations: int
    nodes_without_switch: int
    fragments: tuple[FragmentShare, ...]
    crossing: int
    alignable: int
    unknown_nodes: tuple[str, ...]
    shut: tuple[LeftOut, ...]
    offers: tuple[OfferState, ...]
    notes: tuple[str, ...]

    @property
    def gpus(self) -> int:
        """GPUs of all types."""
        return sum(state.gpus for state in self.types)

    @property
    def idle(self) -> int:
        """GPUs that a pod could have."""
        return sum(state.idle for state in self.types)


def summarize_cluster(cluster: Cluster) -> ClusterSummary:
    """The figures of a cluster that is sound."""
    busy = Counter[str]()
    for pod in cluster.pods:
        busy[pod.node] += pod.gpu_count
    unknown = {pod.node for pod in cluster.pods if not pod.gpus_known}
    hosts = [node for node in cluster.nodes if node.gpus]
    nodes = {node.name: node for node in hosts}
    spans = [_crosses(pod, nodes[pod.node]) for pod in cluster.pods if len(pod.gpus) > 1]
    return ClusterSummary(
        name=cluster.name,
        nodes=len(cluster.nodes),
        plain_nodes=sum(not node.gpus and not node.offers for node in cluster.nodes),
        types=tuple(_of_type(gpu, hosts, busy) for gpu in cluster.gpus),
        classes=tuple(_of_class(kind, cluster.pods) for kind in PodClass),
        switches=len({node.asw for node in hosts} - {""}),
        aggregations=len({node.aggregation for node in hosts} - {""}),
        nodes_without_switch=sum(not node.asw for node in hosts),
        fragments=fragments(len(node.gpus) - busy[node.name] for node in hosts if not fault_of(node)),
        crossing=sum(span is True for span in spans),
        alignable=sum(span is not None for span in spans),
        unknown_nodes=tuple(node.name for node in hosts if node.name in unknown),
        shut=tuple(_shut(hosts, busy)),
        offers=tuple(_offers(cluster)),
        notes=cluster.notes,
    )


def _shut(hosts: Iterable[ClusterNode], busy: Counter[str]) -> Iterator[LeftOut]:
    """Free GPUs of nodes with a fault, by type and fault."""
    free: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for node in hosts:
        if fault := fault_of(node):
            free[node.gpu, *fault].append(len(node.gpus) - busy[node.name])
    for (gpu, why, remedy), counts in sorted(free.items()):
        yield LeftOut(gpu=gpu, gpus=sum(counts), nodes=len(counts), why=why, remedy=remedy)


def _offers(cluster: Cluster) -> Iterator[OfferState]:
    shared: dict[str, float] = defaultdict(float)
    for pod in cluster.pods:
        shared[pod.node] += pod.gpu_share
    rows: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for node in cluster.nodes:
        for resource, pieces in node.offers:
            rows.setdefault((node.gpu, resource), []).append((pieces, shared[node.name]))
    for (gpu, resource), listed in sorted(rows.items()):
        yield OfferState(
            gpu=gpu,
            resource=resource,
            nodes=len(listed),
            pieces=sum(pieces for pieces, _ in listed),
            held_gpus=round(sum(share for _, share in listed), 3),
        )


def fragments(idle: Iterable[int]) -> tuple[FragmentShare, ...]:
    """What fits into nodes of so many idle GPUs.

    A node with i idle GPUs takes i // g requests of g; where i < g they are stranded.
    """
    counts = Counter(idle)
    return tuple(
        FragmentShare(
            gpus=gpus,
            stranded=sum(free * count for free, count in counts.items() if free < gpus),
            fit=sum(free // gpus * count for free, count in counts.items()),
        )
        for gpus in REQUESTS
    )


def _of_type(gpu: str, hosts: list[ClusterNode], busy: Counter[str]) -> TypeState:
    nodes = [node for node in hosts if node.gpu == gpu]
    return TypeState(
        gpu=gpu,
        nodes=len(nodes),
        gpus=sum(len(node.gpus) for node in nodes),
        held=sum(busy[node.name] for node in nodes),
        shut=sum(len(node.gpus) - busy[node.name] for node in nodes if fault_of(node)),
        empty_nodes=sum(not busy[node.name] and not fault_of(node) for node in nodes),
        switches=tuple(sorted(Counter(node.asw for node in nodes if node.asw).values())),
    )


def _of_class(kind: PodClass, pods: Iterable[Pod]) -> ClassState:
    members = [pod for pod in pods if pod.kind is kind and pod.gpu_count]
    return ClassState(
        kind=kind,
        pods=len(members),
        gpus=sum(pod.gpu_count for pod in members),
        cpus=sum(pod.cpus for pod in members),
        preemptible_gpus=sum(pod.gpu_count for pod in members if pod.preemptible),
        locked_gpus=sum(pod.gpu_count for pod in members if pod.locked),
    )


def sockets(node: ClusterNode) -> dict[int, int]:
    """The socket of each GPU index; GPUs of a NUMA node that is not described count as of one socket."""
    of = {numa.id: numa.socket for numa in node.numa_nodes}
    return {gpu.index: of.get(gpu.numa, 0) for gpu in node.gpus}


def crosses_sockets(node: ClusterNode, gpus: Iterable[int]) -> bool | None:
    """Whether the GPUs lie in several sockets though one has enough; None where none has."""
    of = sockets(node)
    held_gpus = list(gpus)
    if max(Counter(of.values()).values()) < len(held_gpus):
        return None
    return len({of[gpu] for gpu in held_gpus}) > 1


def _crosses(pod: Pod, node: ClusterNode) -> bool | None:
    return crosses_sockets(node, pod.gpus)
