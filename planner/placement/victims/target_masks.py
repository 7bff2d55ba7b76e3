"""Which GPUs of a node a group may take: target sets as bit masks, made once for each kind of node.

| symbol | meaning | unit | source |
|---|---|---|---|
| g | GPUs of the group | 1 | preemptor |
| G | a target set: g GPUs of one node, as a mask over positions (bit i: the i-th GPU by index) | | |
| width | (sockets, NUMA nodes) that G lies on | 1 | planner.domain.shapes |
| T | level of G: one NUMA node, one socket, across sockets | | FlexTopo paper, equation 1 |

Guaranteed: the G of the least width that an empty node has (2 for 4 GPUs of 2 sockets with 4 NUMA nodes of one GPU
each, 12 for 2, 1 for 8). Single NUMA: inside one NUMA node. Best effort and none: all C(n, g).
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from planner.domain import Alignment, ClusterNode, Qos
from planner.domain.shapes import Width, alignment_of

LEVELS = (Alignment.NUMA, Alignment.SOCKET, Alignment.CROSS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLayout:
    """A node's GPUs in the order of their indices: index, NUMA node and socket of each. Equal nodes share one."""

    indices: tuple[int, ...]
    numas: tuple[int, ...]
    sockets: tuple[int, ...]

    @classmethod
    def of(cls, node: ClusterNode) -> "GpuLayout":
        """The layout of a node."""
        socket_of = {numa.id: numa.socket for numa in node.numa_nodes}
        gpus = sorted(node.gpus, key=lambda gpu: gpu.index)
        return cls(
            indices=tuple(gpu.index for gpu in gpus),
            numas=tuple(gpu.numa for gpu in gpus),
            sockets=tuple(socket_of[gpu.numa] for gpu in gpus),
        )

    @classmethod
    def even(cls, sockets: int, numa_nodes: int, gpus: int) -> "GpuLayout":
        """GPUs in equal blocks on NUMA nodes, and those on sockets: GPU i on NUMA node i·numa_nodes // gpus."""
        numas = tuple(k * numa_nodes // gpus for k in range(gpus))
        return cls(
            indices=tuple(range(gpus)), numas=numas, sockets=tuple(numa * sockets // numa_nodes for numa in numas)
        )

    def width(self, positions: tuple[int, ...]) -> Width:
        """(sockets, NUMA nodes) of some GPUs."""
        return len({self.sockets[k] for k in positions}), len({self.numas[k] for k in positions})


@dataclass(frozen=True, slots=True)
class Targets:
    """The target sets of one group on one kind of node.

    `masks` (M,) with `levels` (M,) into `LEVELS` and `positions` (M, g), narrowest first, then lowest GPUs; `ordered`
    are the same masks as plain numbers.
    """

    masks: NDArray[np.uint16]
    levels: NDArray[np.uint8]
    positions: NDArray[np.intp]
    ordered: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.ordered)


def positions_of(mask: int) -> tuple[int, ...]:
    """The positions of a mask, ascending."""
    return tuple(k for k in range(mask.bit_length()) if mask >> k & 1)


@cache
def targets_of(layout: GpuLayout, gpus: int, qos: Qos) -> Targets:
    """Every set of GPUs that the group may take; none where the node is too small or too cut up."""
    sets = [(layout.width(chosen), chosen) for chosen in combinations(range(len(layout.indices)), gpus)]
    # Narrowest first; without topology the lowest GPUs first, as combinations come.
    if qos is not Qos.NONE:
        sets.sort()
    if qos is Qos.GUARANTEED:
        sets = [pair for pair in sets if pair[0] == sets[0][0]]
    if qos is Qos.SINGLE_NUMA:
        sets = [pair for pair in sets if pair[0][1] <= 1]
    masks = [sum(1 << k for k in chosen) for _, chosen in sets]
    levels = [LEVELS.index(alignment_of(width)) for width, _ in sets]
    return Targets(
        masks=np.array(masks, dtype=np.uint16),
        levels=np.array(levels, dtype=np.uint8),
        positions=np.array([chosen for _, chosen in sets], dtype=np.intp).reshape(len(sets), gpus),
        ordered=tuple(zip(masks, levels, strict=True)),
    )
