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

A `Ground` is a cluster's nodes of one GPU type as they are, and as they would be without some of their pods.

The scripts released with ASI's trace count what cannot be allocated in their own way:
fractional: i - floor(i) where u >= c and floor(i) >= g. stranded: floor(i) where u >= c and 0 < floor(i) < g.
CPU: min(g, i) where u < c, however many more are idle. Nodes of 16 GPUs are passed over. A job's slots on a node:
min(GPUs - floor(GPUs held), floor(u / 12)), the GPU of which a part is held counted as free.
Source: cluster-trace-gpu-v2026, build_aggregates.py; ASI paper, figures 13 and 14.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from planner.domain import Cluster, ClusterNode, Pod, Qos
from planner.domain.diagnosis import GpuRequest, OverCommitment, ReleasedCounts, StrandingCause
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


Counted = tuple[tuple[Room, int], ...]
"""Rooms, each with how many nodes have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Nodes of one GPU type. `rooms` in the order of `nodes`; others are what is left once some pods are gone: the
    preemptible, those with parts of GPUs, those that are not locked, all of them. None: there are no such pods.
    Beside them equal rooms `counted` together, how many pods with GPUs are `movable_pods`, not locked, and the CPUs and
    GB of those `without_gpus` that are not."""

    gpu: str
    nodes: tuple[ClusterNode, ...]
    rooms: tuple[Room, ...]
    unpreempted: tuple[Room, ...] | None
    unmoved: tuple[Room, ...]
    empty: tuple[Room, ...]
    counted: Counted
    counted_unpreempted: Counted | None
    counted_without_parts: Counted | None
    counted_unmoved: Counted
    counted_empty: Counted
    preemptible_pods: int
    parts_pods: int
    movable_pods: int
    without_gpus: tuple[float, float]


def counted(rooms: Iterable[Room]) -> Counted:
    """Equal rooms together."""
    return tuple(Counter(rooms).items())


def pooled(grounds: Sequence[Ground]) -> Counted:
    """Rooms of several types; no two of them are equal."""
    return tuple(pair for ground in grounds for pair in ground.counted)


def total_fit(rooms: Counted, request: GpuRequest, qos: Qos) -> int:
    """How many requests there is room for on all nodes."""
    return sum(nodes * requests_that_fit(room, request, qos) for room, nodes in rooms)


def grounds_of(cluster: Cluster) -> tuple[Ground, ...]:
    """The ground of each GPU type, by its name."""
    by_node = pods_by_node(cluster.pods)
    by_type: dict[str, list[ClusterNode]] = {}
    for node in cluster.nodes:
        if node.gpus:
            by_type.setdefault(node.gpu, []).append(node)
    return tuple(_ground(gpu, by_type[gpu], by_node) for gpu in sorted(by_type))


def _ground(gpu: str, nodes: Sequence[ClusterNode], by_node: Mapping[str, Sequence[Pod]]) -> Ground:
    shapes = [Shape.of(node) for node in nodes]
    pods = [list(by_node.get(node.name, ())) for node in nodes]

    def rooms_with(keeps: Callable[[Pod], bool]) -> tuple[Room, ...]:
        return tuple(
            room_of(node, [pod for pod in node_pods if keeps(pod)], shape)
            for node, node_pods, shape in zip(nodes, pods, shapes, strict=True)
        )

    flat = [pod for node_pods in pods for pod in node_pods]
    plain = [pod for pod in flat if not pod.locked and not _holds_gpus(pod)]
    preemptible, parts = sum(pod.preemptible for pod in flat), sum(_holds_parts(pod) for pod in flat)
    rooms, unmoved, empty = (rooms_with(keeps) for keeps in (lambda _: True, lambda pod: pod.locked, lambda _: False))
    unpreempted = rooms_with(lambda pod: not pod.preemptible) if preemptible else None
    return Ground(
        gpu=gpu,
        nodes=tuple(nodes),
        rooms=rooms,
        unpreempted=unpreempted,
        unmoved=unmoved,
        empty=empty,
        # Counted once: every request asks again, and a large cluster has few kinds of rooms.
        counted=counted(rooms),
        counted_unpreempted=counted(unpreempted) if unpreempted else None,
        counted_without_parts=counted(rooms_with(lambda pod: not _holds_parts(pod))) if parts else None,
        counted_unmoved=counted(unmoved),
        counted_empty=counted(empty),
        preemptible_pods=preemptible,
        parts_pods=parts,
        movable_pods=sum(_holds_gpus(pod) for pod in flat if not pod.locked),
        without_gpus=(sum(pod.cpu_count for pod in plain), sum(pod.memory_gb for pod in plain)),
    )


def _holds_parts(pod: Pod) -> bool:
    return pod.gpu_share > 0 and not pod.gpu_count


def _holds_gpus(pod: Pod) -> bool:
    return bool(pod.gpu_count or pod.gpu_share)


PASSED_OVER = 16


def released_counts(rooms: Iterable[tuple[Room, int]], request: GpuRequest) -> ReleasedCounts:
    """The three counts over rooms, each with how many nodes have it."""
    fractional = stranded = cpu = 0.0
    for room, nodes in rooms:
        if sum(room.shape.gpus) == PASSED_OVER:
            continue
        if room.cpus < request.cpus:
            cpu += nodes * min(request.gpus, room.idle)
        elif room.whole_gpus >= request.gpus:
            fractional += nodes * max(room.idle - room.whole_gpus, 0.0)
        else:
            stranded += nodes * room.whole_gpus
    return ReleasedCounts(fractional=round(fractional, 6), stranded=stranded, cpu=round(cpu, 6))


def released_slots(room: Room, cpus_per_gpu: int) -> int:
    """A job's GPUs on a node, as the scripts count them."""
    free = ceil(room.idle - ROUNDING)
    return min(free, floor((room.cpus + ROUNDING) / cpus_per_gpu)) if cpus_per_gpu else free
