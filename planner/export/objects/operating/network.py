"""The network and the memory of pods that talk to others: RDMA devices, huge pages, variables, privileges.

A pod talks to others where its copy spans pods, or where it hands KV caches on or takes them; a placement that has all
of the plan's split islands on one node keeps those inside it. RDMA registers memory, which takes the capability
IPC_LOCK; Pod Security's level `baseline` refuses it, and so no pod has it without RDMA devices.

variable                            meaning                                          set where
NCCL_IB_HCA                         the network cards that NCCL uses                 option nccl_ib_hca
NCCL_SOCKET_IFNAME                  the interface of NCCL's rendezvous               option socket_interface
GLOO_SOCKET_IFNAME                  that of torch's CPU groups                       as above
NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME   that of NVSHMEM's rendezvous (DeepEP)            as above

None is set by default: NCCL and UCX find InfiniBand and RoCE devices by themselves, and DeepEP sets what NVSHMEM needs
for its own transport.
Sources: NCCL's and NVSHMEM's documents of their variables; Kubernetes, Pod Security Standards and huge pages.
"""

from typing import Any

from planner.domain import Plan
from planner.export.islands import ServingIsland
from planner.export.objects.weights import Source, hardened, weights_source
from planner.export.options import hugepages_of, rdma_of
from planner.export.seams import Deployment

IPC_LOCK = "IPC_LOCK"
RDMA = "rdma"
"""What names of RDMA resources have in common, as rdma/ib or nvidia.com/hostdev-rdma."""
ENFORCE = "pod-security.kubernetes.io/enforce"
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


def privileges(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """Of the engine's container: what any has, and locked memory where it has RDMA devices."""
    context = hardened()
    if _registers(island, deployment):
        context["capabilities"] = {"add": [IPC_LOCK]}
    return {"securityContext": context}


def _registers(island: ServingIsland, deployment: Deployment) -> bool:
    """Whether a pod has RDMA devices, by either option."""
    options = deployment.options
    return talks(island, deployment.plan) and (
        bool(options.rdma) or any(RDMA in name for name, _ in options.pod_resources)
    )


def network_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """What the namespace must allow, and what the pods lack."""
    notes: list[str] = []
    rdma = _registers(island, deployment)
    by_node = weights_source(island.weights, deployment.options) is Source.NODE
    if rdma or by_node:
        why = [*(["RDMA needs IPC_LOCK"] if rdma else []), *(["the node's folder is a hostPath"] if by_node else [])]
        reasons = " and ".join(why)
        notes.append(
            f"Pod Security: {reasons}, which level baseline refuses; label the namespace {ENFORCE}=privileged."
        )
    else:
        notes.append(f"Pod Security: level baseline ({ENFORCE}=baseline on the namespace).")
    if talks(island, deployment.plan) and not rdma:
        notes.append(
            f"No RDMA devices are asked for (--rdma): between nodes these pods talk TCP, and the plan counts "
            f"on {island.gpu.nic_gb_s:g} GB/s of each GPU's network card."
        )
    return tuple(notes)
