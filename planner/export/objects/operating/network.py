"""The network and the memory of pods that talk to others: RDMA devices, huge pages, variables.

A pod talks to others where its copy spans pods, or where it hands KV caches on or takes them; a placement that has all
of the plan's split islands on one node keeps those inside it.

variable                            meaning                                          set where
NCCL_IB_HCA                         the network cards that NCCL uses                 option nccl_ib_hca
NCCL_SOCKET_IFNAME                  the interface of NCCL's rendezvous               option socket_interface
GLOO_SOCKET_IFNAME                  that of torch's CPU groups                       as above
NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME   that of NVSHMEM's rendezvous (DeepEP)            as above

None is set by default: NCCL and UCX find InfiniBand and RoCE devices by themselves, and DeepEP sets what NVSHMEM needs
for its own transport.
Sources: NCCL's and NVSHMEM's documents of their variables; Kubernetes, huge pages.
"""

from typing import Any

from planner.domain import Plan
from planner.export.islands import ServingIsland
from planner.export.options import hugepages_of, rdma_of
from planner.export.seams import Deployment

RDMA = "rdma"
"""What names of RDMA resources have in common, as rdma/ib or nvidia.com/hostdev-rdma."""
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME")


def talks(island: ServingIsland, plan: Plan) -> bool:
    """Whether the island's pods talk to other pods on other nodes."""
    return island.grouping.pods > 1 or not (island.mixed or _on_one_node(plan))


def _on_one_node(plan: Plan) -> bool:
    nodes: set[str] = set()
    for part in plan.placement.parts if plan.placement else ():
        # a second node ends it, and so few islands are looked up
        if part.node not in nodes and any(island.id == part.island and island.phase for island in plan.islands):
            nodes.add(part.node)
            if len(nodes) > 1:
                return False
    return len(nodes) == 1


def network_limits(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """Devices and huge pages of one pod."""
    limits: dict[str, Any] = {}
    rdma, hugepages = rdma_of(deployment.options), hugepages_of(deployment.options)
    if rdma is not None and talks(island, deployment.plan):
        name, count = rdma
        limits[name] = count or island.grouping.gpus_per_pod
    if hugepages is not None:
        size, total = hugepages
        limits[f"hugepages-{size}"] = total
    return limits


def network_environment(island: ServingIsland, deployment: Deployment) -> list[dict[str, Any]]:
    """The variables that the options ask for, in pods that talk to others."""
    options = deployment.options
    if not talks(island, deployment.plan):
        return []
    rows = [(name, options.socket_interface) for name in _INTERFACES]
    return [{"name": name, "value": value} for name, value in (("NCCL_IB_HCA", options.nccl_ib_hca), *rows) if value]


def registers(island: ServingIsland, deployment: Deployment) -> bool:
    """Whether a pod has RDMA devices, by either option: its engine registers memory with them."""
    options = deployment.options
    return talks(island, deployment.plan) and (
        bool(options.rdma) or any(RDMA in name for name, _ in options.pod_resources)
    )


def network_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """What the pods lack."""
    if not talks(island, deployment.plan) or registers(island, deployment):
        return ()
    return (
        f"No RDMA devices are asked for (--rdma): between nodes these pods talk TCP, and the plan counts "
        f"on {island.gpu.nic_gb_s:g} GB/s of each GPU's network card.",
    )
