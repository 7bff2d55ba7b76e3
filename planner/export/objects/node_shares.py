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
from collections.abc import Set
from dataclasses import dataclass

from planner.domain import Plan, Qos


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


def node_shares(plan: Plan, island_id: str) -> tuple[NodeShare, ...]:
    """The shares of the island's copies, in the placement's order; empty where it lies on no nodes."""
    phase = next(island.phase for island in plan.islands if island.id == island_id)
    qos = plan.scenario.placement.qos(phase) if phase else Qos.NONE
    parts = [part for part in plan.placement.parts if part.island == island_id] if plan.placement else []
    numa = _numa_nodes(plan, {part.node for part in parts}) if qos.binds else {}
    shares: list[NodeShare] = []
    for part in parts:
        of_node = numa.get(part.node, {})
        by_numa = Counter(of_node[index] for index in part.gpu_indices if index in of_node)
        shares.append(
            NodeShare(
                gpus=len(part.gpu_indices),
                by_numa=tuple(by_numa[key] for key in sorted(by_numa)),
                numa_gpus=max(Counter(of_node.values()).values(), default=0),
                one_numa=qos is Qos.SINGLE_NUMA and bool(of_node),
            )
        )
    return tuple(shares)


def _numa_nodes(plan: Plan, names: Set[str]) -> dict[str, dict[int, int]]:
    """Node -> GPU index -> NUMA node, of the nodes with these names."""
    nodes = plan.scenario.cluster.nodes if plan.scenario.cluster else ()
    return {node.name: {gpu.index: gpu.numa for gpu in node.gpus} for node in nodes if node.name in names}
