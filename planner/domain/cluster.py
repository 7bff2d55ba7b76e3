"""A real cluster: nodes with their hardware topology, and the pods that hold parts of them."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import PRINTABLE, RANGES, Bounds, Key, Mapped, OneOf

MOST_GPUS_OF_A_NODE = 16
"""More than any host has today; a node's GPUs are kept as bits of one word."""

CORE_GROUP_SIZE = 8
SWITCH_LEVELS = ("asw", "aggregation")
"""Switch levels of a cluster, from the node upwards."""

HIGHEST_GPU = 63
HIGHEST_CORE = 65_535
HIGHEST_NUMA = 1_023
MOST_CPUS = 1e6
MOST_GB = 1e9

_Name = Annotated[str, PRINTABLE]
_Gigabytes = Annotated[float, Bounds(low=0, high=MOST_GB)]
_Numa = Annotated[int, Bounds(low=0, high=HIGHEST_NUMA)]
_Cores = Annotated[tuple[int, ...], RANGES, Bounds(low=0, high=HIGHEST_CORE)]
_Age = Annotated[float | None, Bounds(low=0, high=1e12)]

LOWEST_PRIORITY, HIGHEST_PRIORITY = -(2**31), 2**31 - 1
"""Kubernetes keeps a pod's priority in 32 bits."""


class PodClass(StrEnum):
    """What a pod is for: a service that answers users, work that can wait, capacity that may go at any moment."""

    ONLINE = "online"
    OFFLINE = "offline"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """A NUMA node."""

    id: _Numa
    socket: _Numa
    cores: Annotated[_Cores, Key("ids of the operating system", sparse=True)] = ()
    memory_gb: Annotated[_Gigabytes, Key("0: not known", sparse=True)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpu:
    """One GPU of a node and the NUMA node that it is nearest to."""

    index: int
    uuid: str
    numa: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network card."""

    name: _Name
    numa: Annotated[_Numa, Key("the NUMA node that it is nearest to")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """What keeps pods off a node, as in Kubernetes."""

    key: str
    value: Annotated[str, Key(sparse=True)] = ""
    effect: Annotated[str, OneOf(("NoSchedule", "PreferNoSchedule", "NoExecute"))] = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A machine. `gpu` is the type of all its GPUs ("": it has none); `cpus` and `memory_gb` are what pods may have.

    `asw` is its access switch, `aggregation` the switch above ("": not known); `nvlink_domain`: the NVLink domain of
    several hosts that it is part of ("": none, or not known). `offers`: parts of GPUs that pods may ask for (MIG
    slices, shares of a GPU) by resource name and number; GPUs that are cut up this way are not among `gpus`.
    """

    name: str
    gpu: str
    gpus: tuple[NodeGpu, ...]
    numa_nodes: tuple[NumaNode, ...]
    cpus: float
    memory_gb: float
    asw: str
    aggregation: str = ""
    nvlink_domain: str = ""
    nics: tuple[Nic, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    offers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that runs on a node, and what it holds there.

    Where `gpu_request` is more than `gpus`, nobody said which ones it holds, and the node's free GPUs count by number.
    Without pinned `cores` it floats, and only its request `cpus` counts. `gpu_share`: parts of GPUs that it shares with
    other pods, in GPUs; they come on top of the whole ones in `gpus` and `gpu_request`.
    """

    name: _Name
    node: _Name
    namespace: Annotated[_Name, Key(sparse=True)] = "default"
    gpus: Annotated[tuple[int, ...], Bounds(low=0, high=HIGHEST_GPU), Key("indices on its node", sparse=True)] = ()
    gpu_request: Annotated[int, Bounds(low=0, high=HIGHEST_GPU + 1), Key("GPUs that it asked for", sparse=True)] = 0
    gpu_share: Annotated[
        float, Bounds(low=0, high=HIGHEST_GPU + 1), Key("parts of shared GPUs, in GPUs", sparse=True)
    ] = 0.0
    cpus: Annotated[float, Bounds(low=0, high=MOST_CPUS), Key("that it asked for", sparse=True)] = 0.0
    memory_gb: Annotated[_Gigabytes, Key("that it asked for", sparse=True)] = 0.0
    cores: Annotated[_Cores, Key("ids of pinned cores", sparse=True)] = ()
    priority: Annotated[int, Bounds(low=LOWEST_PRIORITY, high=HIGHEST_PRIORITY), Key(sparse=True)] = 0
    preemptible: Annotated[bool, Key("whether it may be evicted", sparse=True)] = False
    kind: Annotated[PodClass, Key("what it is for", sparse=True)] = PodClass.ONLINE
    checkpoint_age_s: Annotated[_Age, Key("work that an eviction would lose; else it is not known", sparse=True)] = None
    node_selector: Annotated[
        tuple[tuple[str, str], ...], Mapped(), Key("labels that its node must have", sparse=True)
    ] = ()
    anti_affinity: Annotated[_Name, Key("a group of pods that never share a node", sparse=True)] = ""
    locked: Annotated[bool, Key("never moved or evicted", sparse=True)] = False
    age_s: Annotated[_Age, Key("since it started; else it is not known", sparse=True)] = None
    disruption_budget: Annotated[_Name, Key("of the cluster's, the one that it counts in", sparse=True)] = ""
    job: Annotated[_Name, Key("that it is part of, such as an island: pods that talk to each other", sparse=True)] = ""

    @property
    def key(self) -> str:
        """The pod's name in its namespace."""
        return f"{self.namespace}/{self.name}"

    @property
    def gpu_count(self) -> int:
        """GPUs that it holds, whether or not it is known which."""
        return max(self.gpu_request, len(self.gpus))

    @property
    def cpu_count(self) -> float:
        """CPUs that it holds; pinned cores are gone in any case."""
        return max(self.cpus, len(self.cores))

    @property
    def gpus_known(self) -> bool:
        """Whether it is known which GPUs it holds."""
        return self.gpu_count == len(self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """What a PodDisruptionBudget lets go now."""

    name: _Name
    allowed: Annotated[int, Bounds(low=0, high=2**31), Key("of its pods to be evicted: status.disruptionsAllowed")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Nodes and the pods on them. `notes`: what an import assumed, in words. `levels`: (switch level, node label that
    names a node's switch of it) pairs, where that is known."""

    name: str
    nodes: tuple[ClusterNode, ...]
    pods: tuple[Pod, ...] = ()
    core_group_size: int = CORE_GROUP_SIZE
    notes: tuple[str, ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    levels: tuple[tuple[str, str], ...] = ()

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs of each type."""
        counts: Counter[str] = Counter()
        for node in self.nodes:
            if node.gpus:
                counts[node.gpu] += len(node.gpus)
        return dict(sorted(counts.items()))

    @property
    def idle_gpus(self) -> dict[str, int]:
        """GPUs of each type that no pod holds."""
        types = {node.name: node.gpu for node in self.nodes}
        idle = Counter(self.gpus)
        for pod in self.pods:
            if pod.gpu_count:
                idle[types[pod.node]] -= pod.gpu_count
        return {gpu: idle[gpu] for gpu in self.gpus}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A piece of hardware in a FlexTopo graph; `kind` is Socket, NUMANode, CoreGroup, CPUCore or GPU."""

    id: str
    kind: str
    attributes: tuple[tuple[str, str | int | float | bool | None], ...] = ()

    def get(self, name: str) -> str | int | float | bool | None:
        """An attribute; None where it is not given."""
        return dict(self.attributes).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyEdge:
    """A relation of two pieces of hardware; `kind` is host, contain, localized or nearby (the agent: contains)."""

    source: str
    target: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexTopo:
    """The FlexTopo object of one node (paper, table 2): hardware as a graph, with who uses what."""

    node: str
    vertices: tuple[Vertex, ...]
    edges: tuple[TopologyEdge, ...]
