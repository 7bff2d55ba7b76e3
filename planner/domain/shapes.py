"""How a node's GPUs lie on NUMA nodes and sockets, and which of its free GPUs a group takes.

| symbol | meaning | unit |
|---|---|---|
| a[k] | GPUs that NUMA node k can still give: free ones that its free cores suffice for | 1 |
| t | GPUs of a group (tensor-parallel degree) | 1 |
| S | the NUMA nodes that a group takes from | |

A group takes from the S with the fewest sockets, then the fewest NUMA nodes, then the least left over in S (best fit),
then the lowest ids. GPUs of one NUMA node are alike, so states are vectors a and answers are kept.
Source: FlexTopo, section 3.4 (same NUMA before same socket before across); kubelet's Topology Manager (fewest NUMA
nodes that an empty node needs: a preferred hint).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from planner.domain.cluster import ClusterNode
from planner.domain.placement import Alignment, Qos

Counts = tuple[int, ...]
"""GPUs per NUMA node, in the order of `Shape.numa_ids`."""

Width = tuple[int, int]
"""(sockets, NUMA nodes) that a group lies on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The hardware of a node: socket, GPUs and cores of each NUMA node. Equal nodes share one shape."""

    numa_ids: tuple[int, ...]
    sockets: tuple[int, ...]
    gpus: Counts
    cores: Counts

    @classmethod
    def of(cls, node: ClusterNode) -> "Shape":
        """The shape of a node."""
        numas = sorted(node.numa_nodes, key=lambda numa: numa.id)
        return cls(
            numa_ids=tuple(numa.id for numa in numas),
            sockets=tuple(numa.socket for numa in numas),
            gpus=tuple(sum(gpu.numa == numa.id for gpu in node.gpus) for numa in numas),
            cores=tuple(len(numa.cores) for numa in numas),
        )

    @property
    def lists_cores(self) -> bool:
        """Whether core ids are known; where they are not, only the node's number of CPUs binds."""
        return any(self.cores)


@dataclass(frozen=True, slots=True)
class GroupKind:
    """What groups of an island ask of a node, apart from its type: GPUs, cores a GPU, and how firmly they align."""

    tp: int
    cores_per_gpu: int
    qos: Qos

    @property
    def aligns(self) -> bool:
        """Whether it matters which GPUs a group gets: one alone is always aligned."""
        return self.qos.binds and self.tp > 1


def offered(shape: Shape, free_gpus: Counts, free_cores: Counts, kind: GroupKind) -> Counts:
    """a: where alignment binds, every GPU finds its cores in its own NUMA node."""
    if not (kind.qos.binds and kind.cores_per_gpu and shape.lists_cores):
        return free_gpus
    return tuple(min(g, c // kind.cores_per_gpu) for g, c in zip(free_gpus, free_cores, strict=True))


@cache
def least_width(shape: Shape, kind: GroupKind) -> Width | None:
    """The narrowest place that an empty node of this shape has for a group; None: none."""
    bound = GroupKind(kind.tp, kind.cores_per_gpu, Qos.GUARANTEED)
    group_counts = _narrowest(shape, offered(shape, shape.gpus, shape.cores, bound), kind.tp)
    return None if group_counts is None else width_of(shape, group_counts)


def width_of(shape: Shape, group_counts: Counts) -> Width:
    """(sockets, NUMA nodes) of what is taken."""
    on = [k for k, count in enumerate(group_counts) if count]
    return len({shape.sockets[k] for k in on}), len(on)


def widest(shape: Shape, gpus: int) -> Width:
    """The widest place that so many GPUs of a node can have: what they count as where nobody says which they are."""
    on = [k for k, count in enumerate(shape.gpus) if count]
    return min(gpus, len({shape.sockets[k] for k in on})), min(gpus, len(on))


def alignment_of(width: Width) -> Alignment:
    """T of the FlexTopo paper for what is so wide."""
    sockets, numas = width
    if numas <= 1:
        return Alignment.NUMA
    return Alignment.SOCKET if sockets <= 1 else Alignment.CROSS


def admits(shape: Shape, kind: GroupKind, group_counts: Counts) -> bool:
    """Whether a group that lies like this is what its QoS asks for."""
    if not kind.qos.binds:
        return True
    if kind.qos is Qos.SINGLE_NUMA:
        return width_of(shape, group_counts)[1] <= 1
    narrowest = least_width(shape, kind)
    return narrowest is not None and width_of(shape, group_counts) <= narrowest


@cache
def take(shape: Shape, counts: Counts, kind: GroupKind) -> Counts | None:
    """What one group takes of `counts`; None where no place suits its QoS."""
    group_counts = _narrowest(shape, counts, kind.tp)
    return group_counts if group_counts is not None and admits(shape, kind, group_counts) else None


@cache
def capacity(shape: Shape, counts: Counts, kind: GroupKind) -> int:
    """How many groups `counts` hold, one after the other taken as `take` does."""
    groups = 0
    while (group_counts := take(shape, counts, kind)) is not None:
        counts = minus(counts, group_counts)
        groups += 1
    return groups


def minus(counts: Counts, group_counts: Counts) -> Counts:
    """What is left of `counts`."""
    return tuple(a - b for a, b in zip(counts, group_counts, strict=True))


@cache
def _narrowest(shape: Shape, counts: Counts, needed: int) -> Counts | None:
    best: tuple[Width, int, tuple[int, ...]] | None = None
    with_some = [k for k, count in enumerate(counts) if count]
    for size in range(1, len(with_some) + 1):
        for chosen in combinations(with_some, size):
            available = sum(counts[k] for k in chosen)
            if available < needed:
                continue
            width = (len({shape.sockets[k] for k in chosen}), size)
            if best is None or (width, available - needed, chosen) < best:
                best = (width, available - needed, chosen)
    return None if best is None else _emptied(counts, best[2], needed)


def _emptied(counts: Counts, chosen: Sequence[int], needed: int) -> Counts:
    """Smaller shares first, so that what is left is left in one NUMA node."""
    group_counts = [0] * len(counts)
    for k in sorted(chosen, key=lambda k: (counts[k], k)):
        group_counts[k] = min(counts[k], needed)
        needed -= group_counts[k]
    return tuple(group_counts)
