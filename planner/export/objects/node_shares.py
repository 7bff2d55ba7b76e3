"""GPUs that a plan's placement gives each copy of an island on a node, as far as they bound the size of a pod.

symbol    meaning                                                  source
share     GPUs of one copy on one node                             PlacedPart.gpu_indices
aligned   the part of a share in one NUMA node                     NodeGpu.numa

A pod lies on one node, so pods of `gpus` GPUs can lie where the placement has the island if `gpus` divides every share.
Where the kubelet holds pods to NUMA nodes (`restricted`, `single-numa-node`) and `gpus` fit one, it admits a pod only
inside one, so that `gpus` has to divide the aligned parts; larger pods must span as few NUMA nodes as on an empty node,
and may span none under `single-numa-node`.
"""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

from planner.domain import PlacedPart, Plan, Qos


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """`gpus` of a copy on a node: `by_numa` how many in each NUMA node; `numa_gpus`: those of the node's largest one.

    Both are empty or 0 where nothing keeps pods on NUMA nodes. `one_numa`: no pod may span two.
    """

    gpus: int
    by_numa: tuple[int, ...] = ()
    numa_gpus: int = 0
    one_numa: bool = False

    def takes(self, gpus: int) -> bool:
        """Whether pods of so many GPUs fill the share."""
        if gpus <= self.numa_gpus:
            return all(part % gpus == 0 for part in self.by_numa)
        if self.one_numa or self.gpus % gpus:
            return False
        spanned = -(-gpus // self.numa_gpus) if self.numa_gpus else len(self.by_numa)
        return len(self.by_numa) <= spanned * (self.gpus // gpus)


class NodeShares:
    """The shares of every island of a plan."""

    def __init__(self, plan: Plan) -> None:
        parts = plan.placement.parts if plan.placement else ()
        self._settings = plan.scenario.placement
        self._phases = {island.id: island.phase for island in plan.islands}
        self._parts: dict[str, list[PlacedPart]] = {}
        for part in parts:
            self._parts.setdefault(part.island, []).append(part)
        self._numa = _numa_nodes(plan, {part.node for part in parts})

    def of(self, island_id: str) -> tuple[NodeShare, ...]:
        """The shares of an island's copies, in the placement's order; empty where it lies on no nodes."""
        phase = self._phases[island_id]
        qos = self._settings.qos(phase) if phase else Qos.NONE
        return tuple(
            _share(part, self._numa.get(part.node, {}) if qos.binds else {}, qos)
            for part in self._parts.get(island_id, ())
        )


def _share(part: PlacedPart, numa_of_gpu: Mapping[int, int], qos: Qos) -> NodeShare:
    by_numa = Counter(numa_of_gpu[index] for index in part.gpu_indices if index in numa_of_gpu)
    return NodeShare(
        gpus=len(part.gpu_indices),
        by_numa=tuple(by_numa[key] for key in sorted(by_numa)),
        numa_gpus=max(Counter(numa_of_gpu.values()).values(), default=0),
        one_numa=qos is Qos.SINGLE_NUMA and bool(numa_of_gpu),
    )


def _numa_nodes(plan: Plan, names: Set[str]) -> dict[str, dict[int, int]]:
    """Node -> GPU index -> NUMA node, of the nodes with these names."""
    nodes = plan.scenario.cluster.nodes if plan.scenario.cluster else ()
    return {node.name: {gpu.index: gpu.numa for gpu in node.gpus} for node in nodes if node.name in names}
