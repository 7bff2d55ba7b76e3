"""What is idle on each node of a cluster, and how many requests there is room for.

| symbol | meaning | unit |
|---|---|---|
| i | idle GPUs of a node: its GPUs less those that pods hold, whole ones and parts | GPUs |
| w | whole ones of them, parts taken to lie on as few GPUs as they can: floor(i) | GPUs |
| u, m | CPUs and memory that no pod asked for or pinned, at least 0 | CPUs, GB |
| g, c, b | GPUs, CPUs and memory of a request | GPUs, CPUs, GB |
| k1 | requests by GPUs alone: floor(w / g) | 1 |
| k2 | by CPUs, too: min(k1, floor(u / c)) | 1 |
| k3 | by memory, too: min(k2, floor(m / b)) | 1 |
| k4 | by alignment, too: min(k3, groups of g GPUs that the QoS admits, one after the other) | 1 |

Of a node's i GPUs k4 * g serve; i - w are fractional, w - k1 * g stranded, (k1 - k2) * g short of CPUs,
(k2 - k3) * g of memory, (k3 - k4) * g of alignment ("unknown" where nobody said which GPUs are idle and the QoS needs
to know). A node with a fault serves nothing: its i are barred. These are all of i, so causes partition it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from planner.domain import Cluster, ClusterNode, Pod, Qos
from planner.domain.diagnosis import GpuRequest, OverCommitment, StrandingCause
from planner.domain.node_room import left_on, parts_held
from planner.domain.shapes import Counts, GroupKind, Shape, capacity, offered
from planner.domain.usable import fault_of

ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Room:
    """What is idle on a node; equal rooms are counted together. `numa_gpus` and `numa_cores` by NUMA node."""

    gpu: str
    shape: Shape
    idle: float
    cpus: float
    memory_gb: float
    numa_gpus: Counts
    numa_cores: Counts
    placed: bool
    barred: bool

    @property
    def whole_gpus(self) -> int:
        """w."""
        return floor(self.idle + ROUNDING)

    def roomier(self, *, cpus: float = 0.0, memory_gb: float = 0.0) -> "Room":
        """With so many more CPUs, spread over its NUMA nodes, and so much more memory."""
        # Rounded up, as no core lies in two NUMA nodes.
        cores = tuple(count + ceil(cpus / max(len(self.numa_cores), 1)) for count in self.numa_cores)
        return replace(
            self,
            cpus=self.cpus + cpus,
            memory_gb=self.memory_gb + memory_gb,
            numa_cores=cores if self.shape.lists_cores else self.numa_cores,  # no cores listed: none that could be near
        )


def room_of(node: ClusterNode, pods: Sequence[Pod], shape: Shape) -> Room:
    """What these pods leave of a node. More held than there is leaves 0 (`overcommitments` tells of it)."""
    remainder = left_on(node, shape, pods)
    shares = parts_held(node, pods)
    idle = len(node.gpus) - sum(pod.gpu_count for pod in pods) - shares
    return Room(
        gpu=node.gpu,
        shape=shape,
        idle=max(round(idle, 6), 0.0),
        cpus=max(remainder.cpus, 0.0),
        memory_gb=max(remainder.memory_gb, 0.0),
        numa_gpus=tuple(max(count, 0) for count in remainder.gpus),
        numa_cores=tuple(max(count, 0) for count in remainder.cores),
        placed=not shares and all(pod.gpus_known for pod in pods),
        barred=fault_of(node) is not None,
    )


def pods_by_node(pods: Iterable[Pod]) -> Mapping[str, list[Pod]]:
    """The pods on each node."""
    by_node: Mapping[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        by_node[pod.node].append(pod)
    return by_node


def requests_by_gpus(room: Room, request: GpuRequest) -> int:
    """k1."""
    return room.whole_gpus // request.gpus


def _by_cpus(room: Room, request: GpuRequest) -> int:
    fit = requests_by_gpus(room, request)
    return min(fit, floor((room.cpus + ROUNDING) / request.cpus)) if request.cpus else fit


def _by_memory(room: Room, request: GpuRequest) -> int:
    fit = _by_cpus(room, request)
    return min(fit, floor((room.memory_gb + ROUNDING) / request.memory_gb)) if request.memory_gb else fit


def requests_that_fit(room: Room, request: GpuRequest, qos: Qos) -> int:
    """How many requests a node takes at once: k4; 0 on a node with a fault."""
    if room.barred:
        return 0
    fit = _by_memory(room, request)
    if not (fit and qos.binds):
        return fit
    if not room.placed:  # a single GPU is aligned wherever it lies, if its cores do not have to be near
        return fit if request.gpus == 1 and not room.shape.lists_cores else 0
    return min(fit, _aligned(room, request, qos))


def _aligned(room: Room, request: GpuRequest, qos: Qos) -> int:
    # Cores are pinned whole.
    kind = GroupKind(request.gpus, ceil(request.cpus / request.gpus), qos)
    return capacity(room.shape, offered(room.shape, room.numa_gpus, room.numa_cores, kind), kind)


def causes_on(room: Room, request: GpuRequest, qos: Qos) -> dict[StrandingCause, float]:
    """Idle GPUs of a node that cannot serve the request, by cause; with those that serve they are all of them."""
    if room.barred:
        return {StrandingCause.BARRED: room.idle}
    by_gpus, by_cpus, by_memory = (count(room, request) for count in (requests_by_gpus, _by_cpus, _by_memory))
    aligned = by_memory - requests_that_fit(room, request, qos)
    return {
        StrandingCause.FRACTIONAL: max(room.idle - room.whole_gpus, 0.0),
        StrandingCause.STRANDED: room.whole_gpus - by_gpus * request.gpus,
        StrandingCause.CPU: (by_gpus - by_cpus) * request.gpus,
        StrandingCause.MEMORY: (by_cpus - by_memory) * request.gpus,
        (StrandingCause.NUMA if room.placed else StrandingCause.UNKNOWN): aligned * request.gpus,
    }


def overcommitments(cluster: Cluster) -> tuple[OverCommitment, ...]:
    """Nodes whose pods hold more than there is, in the cluster's order."""
    by_node = pods_by_node(cluster.pods)
    listed = []
    for node in cluster.nodes:
        pods = by_node.get(node.name, [])
        shares = parts_held(node, pods)
        for resource, used, had in (
            ("gpus", sum(pod.gpu_count for pod in pods) + shares, float(len(node.gpus))),
            ("cpus", sum(pod.cpu_count for pod in pods), node.cpus),
            ("memory_gb", sum(pod.memory_gb for pod in pods), node.memory_gb),
        ):
            if used > had * (1 + ROUNDING) + ROUNDING:
                listed.append(OverCommitment(node=node.name, resource=resource, used=round(used, 6), had=had))
    return tuple(listed)
