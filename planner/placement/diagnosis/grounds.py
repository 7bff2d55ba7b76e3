"""A cluster's nodes of one GPU type as they are, and as they would be without some of their pods."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from planner.domain import Cluster, ClusterNode, Pod, Qos
from planner.domain.diagnosis import GpuRequest
from planner.domain.shapes import Shape
from planner.placement.diagnosis.rooms import Room, pods_by_node, requests_that_fit, room_of

Counted = tuple[tuple[Room, int], ...]
"""Rooms, each with how many nodes have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movable:
    """What pods that are not locked hold on nodes of a type: pods with GPUs, then CPUs and GB of pods without."""

    pods: int
    plain_cpus: float
    plain_memory_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Nodes of one GPU type. `rooms` in the order of `nodes`; others are what is left once some pods are gone: the
    preemptible, those with parts of GPUs, those that are not locked, all of them. None: there are no such pods.
    Beside them equal rooms `counted` together."""

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
    movable: Movable


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
        movable=_movable(flat),
    )


def _movable(pods: Sequence[Pod]) -> Movable:
    moves = [pod for pod in pods if not pod.locked]
    return Movable(
        pods=sum(_holds_gpus(pod) for pod in moves),
        plain_cpus=sum(pod.cpu_count for pod in moves if not _holds_gpus(pod)),
        plain_memory_gb=sum(pod.memory_gb for pod in moves if not _holds_gpus(pod)),
    )


def _holds_parts(pod: Pod) -> bool:
    return pod.gpu_share > 0 and not pod.gpu_count


def _holds_gpus(pod: Pod) -> bool:
    return bool(pod.gpu_count or pod.gpu_share)
