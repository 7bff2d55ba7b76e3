"""Clusters of a few nodes, written as what each node holds."""

from collections.abc import Sequence
from typing import Any

from planner.domain import Cluster, ClusterNode, DisruptionBudget, NodeGpu, NumaNode, Pod, Taint


def node(name: str, gpus: int = 8, **changes: Any) -> ClusterNode:
    """A node with 16 CPUs and 128 GB a GPU."""
    values: dict[str, Any] = {
        "gpu": "H20",
        "gpus": tuple(NodeGpu(index=at, uuid=f"GPU-{name}-{at}", numa=0) for at in range(gpus)),
        "numa_nodes": (NumaNode(id=0, socket=0),),
        "cpus": 16.0 * gpus,
        "memory_gb": 128.0 * gpus,
        "asw": "asw-0",
    }
    return ClusterNode(name=name, **values | changes)


def pod(name: str, place: str, gpus: Sequence[int], **changes: Any) -> Pod:
    """A pod on these GPUs with 8 CPUs and 64 GB each."""
    values: dict[str, Any] = {
        "gpus": tuple(gpus),
        "gpu_request": len(gpus),
        "cpus": 8.0 * len(gpus),
        "memory_gb": 64.0 * len(gpus),
    }
    return Pod(name=name, node=place, **values | changes)


def cluster(nodes: Sequence[ClusterNode], pods: Sequence[Pod], budgets: Sequence[tuple[str, int]] = ()) -> Cluster:
    """A cluster of them."""
    rows = tuple(DisruptionBudget(name=name, allowed=allowed) for name, allowed in budgets)
    return Cluster(name="small", nodes=tuple(nodes), pods=tuple(pods), disruption_budgets=rows)


def figure_15() -> Cluster:
    """ASI paper, figure 15, as the facts have it: nodes of 4 GPUs with one idle each; J1, J3 and J7 may be moved."""
    pods = [
        pod("j1", "n0", [0, 1, 2]),
        pod("j2", "n1", [0], locked=True),
        pod("j3", "n1", [1, 2]),
        pod("j4", "n2", [0], locked=True),
        pod("j5", "n2", [1], locked=True),
        pod("j7", "n2", [2]),
        pod("j8", "n3", [0, 1, 2], locked=True),
    ]
    return cluster([node(f"n{at}", 4) for at in range(4)], pods)


TAINT = Taint(key="dedicated", value="training")
