"""A cluster of five nodes below one access switch."""

from planner.domain.cluster import Cluster, ClusterNode, NodeGpu, NumaNode


def node(name: str) -> ClusterNode:
    """Eight H200 on two sockets."""
    return ClusterNode(
        name=name,
        gpu="H200",
        gpus=tuple(NodeGpu(index=i, uuid=f"{name}-{i}", numa=i // 4) for i in range(8)),
        numa_nodes=tuple(NumaNode(id=n, socket=n, cores=tuple(range(48 * n, 48 * n + 48))) for n in range(2)),
        cpus=96.0,
        memory_gb=1000.0,
        asw="a",
    )


CLUSTER = Cluster(name="five", nodes=tuple(node(f"n-{k}") for k in range(5)))
