"""Target `kueue`: the inventory as quotas. A ResourceFlavor for each GPU type, a ClusterQueue with what there is of
each, the LocalQueue that workloads name, and a Topology where node labels of switch levels are given. It starts
nothing: the workloads of other targets join by their queue label.

symbol        meaning                                      unit   source
nominalQuota  GPUs of a type that the fleet has            GPUs   Plan.fleet
              their cores and memory                       cores, GPUs x deploy.cpus, memory_gib
                                                           GiB

Source: kueue.x-k8s.io/v1beta2 (kubernetes-sigs/kueue). Its rules beyond the schema that are kept here: every flavor of
a resource group has a quota for every covered resource; a flavor with a topology has a node label; at most 8 taints
and 8 tolerations a flavor; the host name is the last level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from planner.domain import SWITCH_LEVELS, GpuSpec
from planner.errors import ExportError
from planner.export.engines.tiers import disk_gib_per_gpu, host_gib_per_gpu
from planner.export.found import Kind
from planner.export.objects.documents import amount, yaml_text
from planner.export.objects.names import (
    check_node_selector,
    island_slugs,
    label_value,
    one_line,
    plan_labels,
    workload_name,
)
from planner.export.objects.pods import GPU_LABEL, GPU_RESOURCES
from planner.export.objects.scheduling import HOSTNAME, tolerations
from planner.export.options import hugepages_of, rdma_of
from planner.export.seams import Deployment, Target, TargetFiles
from planner.export.templating import object_of, objects_of

API_VERSION = "kueue.x-k8s.io/v1beta2"
_MOST_FLAVORS = 64  # flavors of a resource group
_MOST_TAINTS = 8


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """`flavors.yaml`, `queues.yaml`, and `topology.yaml` where switch levels have labels.

    Raises:
        ExportError: more GPU types than a ClusterQueue has flavors, a vendor without a device plugin, or types that no
            node label tells apart.
    """
    gpus = [item.gpu for item in deployment.plan.scenario.inventory.items if deployment.plan.fleet[item.gpu.name]]
    check_types(gpus, deployment)
    names = flavor_names(gpus, deployment.name)
    scenario = deployment.plan.scenario.name
    files = {
        "flavors.yaml": yaml_text(
            (f"GPU types of plan {scenario}, one flavor each.", *_flavor_notes(gpus, deployment)),
            [flavor(gpu, names[gpu.name], deployment) for gpu in gpus],
        ),
        "queues.yaml": yaml_text(
            (
                f"What the fleet of plan {scenario} has of each type: GPUs, and the cores and memory they take along.",
                f"A workload joins with the label kueue.x-k8s.io/queue-name: {_queue_name(deployment)}.",
            ),
            _queues(gpus, names, deployment),
        ),
    }
    if _levels(deployment):
        comments = (f"Switch levels of plan {scenario}, from the widest down to the host.",)
        files["topology.yaml"] = yaml_text(comments, [_topology(deployment)])
    return TargetFiles(files=files)


def check_types(gpus: Sequence[GpuSpec], deployment: Deployment) -> None:
    """Refuse GPU types that no quota can tell apart.

    Raises:
        ExportError: more of them than a ClusterQueue has flavors, a vendor without a device plugin, or no such labels.
    """
    if len(gpus) > _MOST_FLAVORS:
        raise ExportError(
            f"Target kueue: a resource group has at most {_MOST_FLAVORS} flavors, the fleet has {len(gpus)} GPU types.",
            hint="Export parts of the fleet by themselves.",
        )
    for gpu in gpus:
        check_node_selector(gpu.name, gpu.node_selector)
        if gpu.vendor.upper() not in GPU_RESOURCES:
            raise ExportError(
                f"GPU {gpu.name}, vendor: must be one of {', '.join(GPU_RESOURCES)}, got {gpu.vendor!r}.",
                hint="Mend the vendor of the GPU type.",
            )
        if _levels(deployment) and not gpu.node_selector:
            raise ExportError(
                f"GPU {gpu.name}, node_selector: must hold a label, as a flavor with a topology needs one.",
                hint="Give the type its node labels, for example nvidia.com/gpu.product.",
            )
    for first, second in combinations(gpus, 2):
        first_labels, second_labels = dict(first.node_selector), dict(second.node_selector)
        # another vendor's GPUs have quota 0 in the flavor, which tells them apart
        if first.vendor.upper() == second.vendor.upper() and all(
            second_labels.get(key, value) == value for key, value in first_labels.items()
        ):
            raise ExportError(
                f"GPUs {first.name} and {second.name}, node_selector: must differ in the value of one key, "
                f"got {first_labels} and {second_labels}.",
                hint="Give each type its node labels, for example nvidia.com/gpu.product.",
            )


def flavor_names(gpus: Sequence[GpuSpec], prefix: str) -> dict[str, str]:
    """GPU type -> the name of its flavor."""
    slugs = island_slugs(gpu.name for gpu in gpus)
    return {gpu: workload_name(prefix, slug) for gpu, slug in slugs.items()}


def _queue_name(deployment: Deployment) -> str:
    return deployment.options.queue or deployment.name


def _levels(deployment: Deployment) -> tuple[str, ...]:
    """Node labels from the widest level to the narrowest; empty where none is given."""
    labels = dict(deployment.options.topology_labels)
    return tuple(labels[level] for level in reversed(SWITCH_LEVELS) if level in labels)


def _taints(gpu: GpuSpec, deployment: Deployment) -> list[dict[str, str]]:
    """Those that every node of the type has in the cluster file; one that only some have would keep pods off all."""
    cluster = deployment.plan.scenario.cluster
    nodes = [set(node.taints) for node in cluster.nodes if node.gpu == gpu.name] if cluster else []
    shared = sorted(set.intersection(*nodes), key=lambda t: (t.key, t.value, t.effect)) if nodes else []
    return [
        {"key": taint.key} | ({"value": taint.value} if taint.value else {}) | {"effect": taint.effect}
        for taint in shared
    ]


def flavor(gpu: GpuSpec, name: str, deployment: Deployment) -> dict[str, Any]:
    """The ResourceFlavor of a type."""
    tolerated = tolerations(GPU_RESOURCES[gpu.vendor.upper()], deployment.plan.scenario.placement)
    taints = _taints(gpu, deployment)
    if max(len(tolerated), len(taints)) > _MOST_TAINTS:
        raise ExportError(
            f"GPU {gpu.name}: a flavor has at most {_MOST_TAINTS} taints and {_MOST_TAINTS} tolerations, "
            f"got {len(taints)} and {len(tolerated)}.",
            hint="Join taints or tolerations that say the same.",
        )
    return object_of(
        "kueue-flavor",
        name=name,
        labels=plan_labels(deployment.name) | {GPU_LABEL: label_value(gpu.name)},
        gpu_type=one_line(gpu.name),
        node_labels=dict(gpu.node_selector),
        taints=taints,
        tolerations=tolerated,
        topology=deployment.name if _levels(deployment) else "",
    )


def _flavor_notes(gpus: Sequence[GpuSpec], deployment: Deployment) -> tuple[str, ...]:
    fleet = deployment.plan.fleet
    return tuple(f"{gpu.name}: {fleet[gpu.name]} GPUs, {gpu.gpus_per_host} a host." for gpu in gpus)


def _queues(gpus: Sequence[GpuSpec], names: dict[str, str], deployment: Deployment) -> list[dict[str, Any]]:
    counts = [(gpu, deployment.plan.fleet[gpu.name]) for gpu in gpus]
    return queue_objects(counts, names, deployment, name=deployment.name, queue=_queue_name(deployment))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Queues that lend each other what they do not use. `borrows`: this one may take it; its workloads give it back
    where those of others reclaim theirs."""

    name: str
    borrows: bool


def queue_objects(
    counts: Sequence[tuple[GpuSpec, int]],
    names: Mapping[str, str],
    deployment: Deployment,
    *,
    name: str,
    queue: str,
    cohort: Cohort | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The ClusterQueue `name` with so many GPUs of each type, whose flavors have `names`, and its LocalQueue `queue`
    (empty: none); what GPUs take along is the deployment's."""
    resources = sorted({GPU_RESOURCES[gpu.vendor.upper()] for gpu, _ in counts})
    extended = [resource for resource, _ in _extended_quotas(1, deployment)]
    return objects_of(
        "kueue-queues",
        name=name,
        queue=queue,
        labels=labels or plan_labels(deployment.name),
        resources=[*resources, "cpu", "memory", *(["ephemeral-storage"] if _disks(deployment) else []), *extended],
        flavors={names[gpu.name]: _quotas(gpu, count, resources, deployment) for gpu, count in counts},
        cohort=cohort,
    )


def _quotas(gpu: GpuSpec, count: int, resources: Sequence[str], deployment: Deployment) -> list[tuple[str, int | str]]:
    """In the order of the covered resources; another vendor's GPUs are none. Extended resources are asked for by the
    pod, so that pods of one GPU each are the most that the quota has to hold."""
    options, settings = deployment.options, deployment.plan.scenario.placement
    resource = GPU_RESOURCES[gpu.vendor.upper()]
    rows: list[tuple[str, int | str]] = [(name, count if name == resource else 0) for name in resources]
    caches = max((host_gib_per_gpu(i) for i in deployment.islands if i.gpu.name == gpu.name), default=0)
    memory = options.memory_gib(settings) + caches
    rows += [("cpu", count * options.cpus(settings)), ("memory", f"{count * memory}Gi")]
    if disks := _disks(deployment):
        rows.append(("ephemeral-storage", f"{count * disks.get(gpu.name, 0)}Gi"))
    return rows + _extended_quotas(count, deployment)


def _disks(deployment: Deployment) -> dict[str, int]:
    """GPU type -> local disk that one takes along for caches (GiB); empty where no island has any."""
    return {island.gpu.name: gib for island in deployment.islands if (gib := disk_gib_per_gpu(island))}


def _extended_quotas(pods: int, deployment: Deployment) -> list[tuple[str, int | str]]:
    """What so many pods of one GPU ask for beside it."""
    options = deployment.options
    rows: list[tuple[str, int | str]] = [(name, pods * each) for name, each in options.pod_resources]
    rdma, hugepages = rdma_of(options), hugepages_of(options)
    if rdma is not None:
        rows.append((rdma[0], pods * (rdma[1] or 1)))
    if hugepages is not None:
        size, total = hugepages
        rows.append((f"hugepages-{size}", f"{int(pods * (amount(total) or 0) / 2**20)}Mi"))
    return rows


def _topology(deployment: Deployment) -> dict[str, Any]:
    levels = dict.fromkeys((*(label for label in _levels(deployment) if label != HOSTNAME), HOSTNAME))
    labels = plan_labels(deployment.name)
    return object_of("kueue-topology", name=deployment.name, labels=labels, levels=list(levels))


_UNHEEDED = (
    "images",
    "api_key_secret",
    "network_policies",
    "client_namespaces",
    "image_digests",
    "shared_memory_gib",
    "pin_nodes",
    "priority_class",
    "model_volume",
    "namespace",
    "weights",
    "hf_secret",
    "load_gb_per_s",
    "nccl_ib_hca",
    "socket_interface",
    "kv_store",
    "compute_domains",
    "bytes_per_token",
    "router_counts",
    "served_names",
    "monitoring",
    "autoscaling",
    "prometheus",
)
"""Options that no quota depends on."""

KUEUE = Target(
    name="kueue",
    manifests=_manifests,
    kinds=tuple(
        Kind(api_version=API_VERSION, kind=kind, schema=f"{kind.lower()}.json", inventory=True)
        for kind in ("ResourceFlavor", "ClusterQueue", "LocalQueue", "Topology")
    ),
    unheeded=_UNHEEDED,
)
