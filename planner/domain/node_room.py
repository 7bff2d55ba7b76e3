"""What is free on a node, what alike groups ask of it, and how many of them there is room for."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import add

from planner.domain.cluster import ClusterNode, Pod
from planner.domain.shapes import Counts, GroupKind, Shape, capacity, minus, offered

ROUNDING = 1e-6

RESERVATIONS = ("kai-resource-reservation", "runai-reservation")
"""Namespaces of pods that hold a whole GPU for those that share it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Servers of `groups` groups, each inside one node, and no more than `per_node` of an island on any.

    `running`: those of the island that run on already, by name of the node.
    """

    per_node: int
    groups: int
    running: tuple[tuple[str, int], ...] = ()

    def servers(self, node: str) -> int:
        """The most further servers of the island that the node may have."""
        return max(0, self.per_node - dict(self.running).get(node, 0))


@dataclass(frozen=True, slots=True)
class Ask:
    """What alike groups ask for: a node of a GPU type with some labels, and a share of it. `spread`: of islands whose
    servers may not share nodes as they like."""

    gpu: str
    selector: tuple[tuple[str, str], ...]
    kind: GroupKind
    memory_gb_per_gpu: float
    spread: Spread | None = None

    @property
    def cores(self) -> int:
        """Cores of a group."""
        return self.kind.tp * self.kind.cores_per_gpu

    @property
    def memory_gb(self) -> float:
        """Memory of a group."""
        return self.kind.tp * self.memory_gb_per_gpu


@dataclass(frozen=True, slots=True)
class Left:
    """What is free on a node: GPUs and cores by NUMA node, CPUs, memory.

    `unlocated`: GPUs among `gpus` that pods hold, or share, without anybody saying which ones they are.
    """

    gpus: Counts
    cores: Counts
    cpus: float
    memory_gb: float
    unlocated: int = 0

    @property
    def idle(self) -> int:
        """Idle GPUs."""
        return sum(self.gpus) - self.unlocated

    def offered(self, shape: Shape, kind: GroupKind) -> Counts:
        """GPUs that each NUMA node can give to such groups."""
        return offered(shape, self.gpus, self.cores, kind)

    def room(self, shape: Shape, ask: Ask) -> int:
        """Groups that there is room for. Where it is not known which GPUs are free, their number counts, and only for
        groups that need not be aligned and find their cores near any GPU: the kubelet picks the GPUs.
        """
        if self.unlocated:
            anywhere = not ask.kind.aligns and self._serves_any(shape, ask)
            groups = max(self.idle, 0) // ask.kind.tp if anywhere else 0
        else:
            groups = capacity(shape, self.offered(shape, ask.kind), ask.kind)
        if groups and ask.cores:
            groups = min(groups, int((self.cpus + ROUNDING) // ask.cores))
            if shape.lists_cores:
                groups = min(groups, sum(self.cores) // ask.cores)
        if groups and ask.memory_gb:
            groups = min(groups, int((self.memory_gb + ROUNDING) // ask.memory_gb))
        return max(groups, 0)

    def _serves_any(self, shape: Shape, ask: Ask) -> bool:
        """Whether every GPU would find its cores in its own NUMA node, where that is asked."""
        near = ask.kind.cores_per_gpu if ask.kind.qos.binds and shape.lists_cores else 0
        return all(gpus * near <= cores for gpus, cores in zip(self.gpus, self.cores, strict=True))

    def plus(self, other: "Left") -> "Left":
        """Both together."""
        return Left(
            gpus=tuple(map(add, self.gpus, other.gpus)),
            cores=tuple(map(add, self.cores, other.cores)),
            cpus=self.cpus + other.cpus,
            memory_gb=self.memory_gb + other.memory_gb,
            unlocated=self.unlocated + other.unlocated,
        )

    def minus(self, other: "Left") -> "Left":
        """Without the other."""
        return Left(
            gpus=minus(self.gpus, other.gpus),
            cores=minus(self.cores, other.cores),
            cpus=self.cpus - other.cpus,
            memory_gb=self.memory_gb - other.memory_gb,
            unlocated=self.unlocated - other.unlocated,
        )


def left_on(node: ClusterNode, shape: Shape, pods: Sequence[Pod]) -> Left:
    """What these pods leave of a node."""
    if not pods:
        return Left(shape.gpus, shape.cores, node.cpus, node.memory_gb)
    at = {numa: k for k, numa in enumerate(shape.numa_ids)}
    gpus, cores = list(shape.gpus), list(shape.cores)
    numa_of_gpu = {gpu.index: at[gpu.numa] for gpu in node.gpus}
    if any(pod.cores for pod in pods):
        numa_of_core = {core: at[numa.id] for numa in node.numa_nodes for core in numa.cores}
        for pod in pods:
            for core in pod.cores:
                cores[numa_of_core[core]] -= 1
    for pod in pods:
        for index in pod.gpus:
            gpus[numa_of_gpu[index]] -= 1
    return Left(
        gpus=tuple(gpus),
        cores=tuple(cores),
        cpus=node.cpus - sum(pod.cpu_count for pod in pods),
        memory_gb=node.memory_gb - sum(pod.memory_gb for pod in pods),
        unlocated=sum(pod.gpu_count - len(pod.gpus) for pod in pods) + ceil(parts_held(node, pods) - ROUNDING),
    )


def parts_held(node: ClusterNode, pods: Sequence[Pod]) -> float:
    """Parts of the node's own GPUs that pods hold: none of GPUs that are cut up (`offers`), nor of those that a
    reservation holds for the pods that share them."""
    if node.offers:
        return 0.0
    reserved = sum(pod.gpu_count for pod in pods if pod.namespace in RESERVATIONS)
    return max(sum(pod.gpu_share for pod in pods) - reserved, 0.0)
