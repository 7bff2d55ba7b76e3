"""The nodes of a plan's placement as objects for schedulers that know NUMA: NodeResourceTopology, and FlexTopo.

symbol       meaning                                             unit   source
capacity     GPUs, cores of a NUMA node                          -      NodeGpu.numa, NumaNode.cores
allocatable  what pods may have of it: of the cores their part   -      ClusterNode.cpus, shared out like the cores
             of the node's, rounded down to a thousandth
available    allocatable less what running pods hold alone:      -      Pod.gpus, Pod.cores; what floats belongs to no
             their GPUs and pinned cores                                NUMA node, as exporters count

Sources: topology.node.k8s.io/v1alpha2 (k8stopologyawareschedwg/noderesourcetopology-api): zones of type Node, named
node-<id>; the kubelet's policy as a top-level attribute, topologyPolicies being deprecated. The FlexTopo documents come
from whoever asks: the export knows no graphs.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planner.domain import Cluster, ClusterNode, NumaNode, Plan, Pod, Qos
from planner.errors import ExportError, InputError
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import is_dns_subdomain, one_line
from planner.export.objects.pods import GPU_RESOURCES

TOPOLOGY_VERSION = "topology.node.k8s.io/v1alpha2"
TOPOLOGY_KIND = "NodeResourceTopology"
FLEXTOPO_VERSION = "flextopo.baichuan-inc.com/v1alpha1"
FLEXTOPO_KIND = "FlexTopo"
TOPOLOGY_FILE = "noderesourcetopologies.yaml"
FLEXTOPO_FILE = "flextopo.yaml"
ZONE = "node-"
_STRICTEST = (Qos.SINGLE_NUMA, Qos.GUARANTEED, Qos.BEST_EFFORT, Qos.NONE)
_MANAGED = {"app.kubernetes.io/managed-by": "planner"}


def placed_nodes(plan: Plan) -> tuple[ClusterNode, ...]:
    """The nodes that the placement gives to an island, in the cluster's order.

    Raises:
        InputError: the plan lies on no nodes.
    """
    used = {part.node for part in plan.placement.parts} if plan.placement else set()
    nodes = tuple(node for node in _cluster(plan).nodes if node.name in used) if used else ()
    if not nodes:
        raise InputError(
            f"Plan {plan.scenario.name}, placement: must have nodes to write topology objects of, has none.",
            hint="Place the plan first (`planner place`), or leave --topology-objects out.",
        )
    return nodes


def node_pods(plan: Plan, node: ClusterNode) -> tuple[Pod, ...]:
    """The pods that run on a node in the cluster file."""
    return tuple(pod for pod in _cluster(plan).pods if pod.node == node.name)


def _cluster(plan: Plan) -> Cluster:
    return plan.scenario.cluster or Cluster(name="", nodes=())


def node_files(plan: Plan, flextopos: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """`noderesourcetopologies.yaml` and `flextopo.yaml` of the placement's nodes; `flextopos`: their FlexTopo objects.

    Raises:
        InputError: the plan lies on no nodes, or a node's name cannot be an object's.
        ExportError: GPUs of a vendor without a device plugin.
    """
    nodes = placed_nodes(plan)
    for node in nodes:
        if not is_dns_subdomain(node.name):
            raise InputError(
                f"Node {node.name!r}, name: must be a DNS subdomain to name a topology object.",
                hint="Import the cluster from Kubernetes, or leave --topology-objects out.",
            )
    comments = (
        f"{len(nodes)} nodes of cluster {one_line(_cluster(plan).name)} that plan {plan.scenario.name} lies on, as the "
        "cluster file has them: before its islands come.",
        "Exporters on the nodes write these objects themselves; apply them only where none does.",
    )
    return {
        TOPOLOGY_FILE: yaml_text(comments, [_topology(node, plan) for node in nodes]),
        FLEXTOPO_FILE: yaml_text(comments, [_managed(flextopo) for flextopo in flextopos]),
    }


def _managed(flextopo: Mapping[str, Any]) -> dict[str, Any]:
    return {**flextopo, "metadata": {**flextopo["metadata"], "labels": _MANAGED}}


def _topology(node: ClusterNode, plan: Plan) -> dict[str, Any]:
    pods = node_pods(plan, node)
    return {
        "apiVersion": TOPOLOGY_VERSION,
        "kind": TOPOLOGY_KIND,
        "metadata": {"name": node.name, "labels": _MANAGED},
        "attributes": [{"name": "topologyManagerPolicy", "value": _policy(node, plan)}],
        "zones": [
            {
                "name": f"{ZONE}{numa.id}",
                "type": "Node",
                "parent": f"socket-{numa.socket}",
                "resources": [*_gpus(node, numa, pods, plan), *_cpus(node, numa, pods)],
            }
            for numa in node.numa_nodes
        ],
    }


def _policy(node: ClusterNode, plan: Plan) -> str:
    """The strictest that an island on the node needs."""
    here = {part.island for part in plan.placement.parts if part.node == node.name} if plan.placement else set()
    settings = plan.scenario.placement
    policies = {settings.qos(island.phase) for island in plan.islands if island.id in here and island.phase is not None}
    return next(qos for qos in (*_STRICTEST, Qos.NONE) if qos in policies or qos is Qos.NONE).kubelet_policy


def _gpus(node: ClusterNode, numa: NumaNode, pods: Sequence[Pod], plan: Plan) -> list[dict[str, Any]]:
    here = {gpu.index for gpu in node.gpus if gpu.numa == numa.id}
    busy = {index for pod in pods for index in pod.gpus} & here
    vendor = plan.scenario.inventory.item(node.gpu).gpu.vendor
    if vendor.upper() not in GPU_RESOURCES:
        raise ExportError(
            f"GPU {node.gpu}, vendor: must be one of {', '.join(GPU_RESOURCES)}, got {vendor!r}.",
            hint="Leave out --topology-objects, or mend the vendor.",
        )
    return [_row(GPU_RESOURCES[vendor.upper()], len(here), len(here), len(here) - len(busy))]


def _cpus(node: ClusterNode, numa: NumaNode, pods: Sequence[Pod]) -> list[dict[str, Any]]:
    """None where the cluster file gives no cores."""
    every = sum(len(each.cores) for each in node.numa_nodes)
    if not every or not numa.cores:
        return []
    thousandths = min(1000 * len(numa.cores), math.floor(1000 * node.cpus * len(numa.cores) / every))
    pinned = Counter(core for pod in pods for core in pod.cores)
    busy = sum(1 for core in numa.cores if pinned[core])
    return [_row("cpu", len(numa.cores), _cores(thousandths), _cores(max(0, thousandths - 1000 * busy)))]


def _cores(thousandths: int) -> int | str:
    return f"{thousandths}m" if thousandths % 1000 else thousandths // 1000


def _row(name: str, capacity: int, allocatable: int | str, available: int | str) -> dict[str, Any]:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": available}
