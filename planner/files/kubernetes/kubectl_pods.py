"""A pod as Kubernetes tells it: what it asks for, which devices it holds, and how it may be moved.

A claim says in its status which devices it was given; a pod says in its own which claims are its. A driver lists the
devices of a node in slices. Source: Kubernetes, Dynamic Resource Allocation; NVIDIA/k8s-dra-driver-gpu (names gpu-0,
gpu-0-mig-...; attributes type, uuid, productName).

What a pod asks for is, per resource, the larger of the sum of its containers and of what any init container needs
while it runs; init containers that keep running (sidecars) count in both; the runtime's overhead comes on top.
Kubernetes does not say which GPUs a pod holds.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from planner.domain import Pod, PodClass
from planner.domain.cluster import HIGHEST_PRIORITY, LOWEST_PRIORITY
from planner.domain.node_report import ReportedGpu
from planner.files.kubernetes.gpu_shares import GpuHolding, NodeGpus, holding, names_gpus
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, below, items_below, quantity, string_map
from planner.files.sections import Section
from planner.units import GB

CLAIM, SLICE = "ResourceClaim", "ResourceSlice"
DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")
_WHOLE_GPU = re.compile(r"gpu-([0-9]{1,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedGpus:
    """GPUs of a claim: indices of whole ones, and the number of parts (MIG devices)."""

    gpus: tuple[int, ...] = ()
    parts: int = 0


def allocated_claims(objects: Iterable[KubernetesObject]) -> dict[str, ClaimedGpus]:
    """What claims were given, by `namespace/name`; claims that were given nothing yet are missing."""
    return {
        f"{item.namespace or 'default'}/{item.name}": _allocated_gpus(item)
        for item in objects
        if not below(item.body, "status").is_empty("allocation")
    }


def claims_of_pod(pod: KubernetesObject, allocated: Container[str]) -> tuple[str, ...] | None:
    """Names of a pod's claims, all of which were allocated; None where one is not among them."""
    statuses = {
        row.text("name"): row.text("resourceClaimName")
        for row in items_below(below(pod.body, "status"), "resourceClaimStatuses")
        if not row.is_empty("resourceClaimName")
    }
    names = []
    for row in items_below(below(pod.body, "spec"), "resourceClaims"):
        listed = row.text("resourceClaimName") if not row.is_empty("resourceClaimName") else ""
        name = f"{pod.namespace or 'default'}/{listed or statuses.get(row.text('name'), '')}"
        if name not in allocated:
            return None
        names.append(name)
    return tuple(names)


def _allocated_gpus(item: KubernetesObject) -> ClaimedGpus:
    rows = [
        row.text("device")
        for row in items_below(below(item.body, "status", "allocation", "devices"), "results")
        if row.text("driver") in DRIVERS
    ]
    indices = [int(match[1]) for name in rows if (match := _WHOLE_GPU.fullmatch(name))]
    return ClaimedGpus(gpus=tuple(sorted(indices)), parts=len(rows) - len(indices))


def listed_gpus(objects: Iterable[KubernetesObject]) -> dict[str, tuple[ReportedGpu, ...]]:
    """Whole GPUs that drivers list, by node."""
    gpus: dict[str, dict[int, ReportedGpu]] = {}
    for item in objects:
        spec = below(item.body, "spec")
        if spec.is_empty("nodeName") or spec.is_empty("driver") or spec.text("driver") not in DRIVERS:
            continue
        of_node = gpus.setdefault(spec.text("nodeName"), {})
        of_node.update((gpu.index, gpu) for gpu in _whole_gpus(spec))
    return {node: tuple(listed[index] for index in sorted(listed)) for node, listed in gpus.items()}


def tainted_gpus(objects: Iterable[KubernetesObject]) -> Counter[str]:
    """How many whole GPUs that drivers list nobody may use (a device's taints), by node."""
    counts: Counter[str] = Counter()
    for item in objects:
        spec = below(item.body, "spec")
        if not spec.is_empty("nodeName") and not spec.is_empty("driver") and spec.text("driver") in DRIVERS:
            counts[spec.text("nodeName")] += sum(map(_is_tainted, items_below(spec, "devices")))
    return counts


def _is_tainted(device: Section) -> bool:
    taints = items_below(_facts(device), "taints")
    return bool(_WHOLE_GPU.fullmatch(device.text("name"))) and any(
        not taint.is_empty("effect") and taint.text("effect") in ("NoSchedule", "NoExecute") for taint in taints
    )


def _facts(device: Section) -> Section:
    """Where attributes and taints stand: until v1beta1 in a mapping of their own."""
    return below(device, "basic") if "basic" in device else device


def _whole_gpus(spec: Section) -> Iterator[ReportedGpu]:
    for device in items_below(spec, "devices"):
        match = _WHOLE_GPU.fullmatch(device.text("name"))
        if match:
            attributes = below(_facts(device), "attributes")
            yield ReportedGpu(
                index=int(match[1]), uuid=_text(attributes, "uuid"), product=_text(attributes, "productName")
            )


def _text(attributes: Section, key: str) -> str:
    value = below(attributes, key)
    return "" if value.is_empty("string") else value.text("string")


CLASS_LABEL = "planner/class"
CHECKPOINT_ANNOTATION = "planner/checkpoint-age-s"
PREEMPTIBLE_ANNOTATION = "godel.bytedance.com/can-be-preempted"
EVICTION_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
HOST_LABEL = "kubernetes.io/hostname"
SYSTEM_PRIORITY = 2_000_000_000  # from here on Kubernetes keeps priorities for its own pods
UNCLASSED = "names no priority class: may be evicted, at priority 0, as --preempt-unclassed says"
_JOB_LABELS = (
    ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
    ("jobset.sigs.k8s.io/jobset-name",),
    ("training.kubeflow.org/job-name",),
    ("ray.io/cluster",),
    ("batch.kubernetes.io/job-name",),
    ("job-name",),
)
"""Labels that controllers put on pods that talk to each other, the innermost group first."""

STAYS = "is a job that names no priority class: never evicted (--preempt-unclassed lets such pods go, at priority 0)"
_ENDED = ("Succeeded", "Failed")
_BOUND_OWNERS = ("DaemonSet", "Node")
_BATCH_OWNERS = ("Job", "PyTorchJob", "MPIJob", "TFJob", "RayJob", "TrainJob")

Amounts = dict[str, float]


def holds_nothing(item: KubernetesObject) -> bool:
    """Whether the pod is over, or not on a node yet."""
    phase = below(item.body, "status")
    ended = not phase.is_empty("phase") and phase.text("phase") in _ENDED
    return ended or below(item.body, "spec").is_empty("nodeName")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPod:
    """A pod, what it holds of its node's GPUs, and notes on what of it the planner cannot keep."""

    pod: Pod
    item: KubernetesObject
    gpus: GpuHolding
    notes: tuple[str, ...] = ()


def read_pod(item: KubernetesObject, nodes: Mapping[str, NodeGpus], *, preempt_unclassed: bool = False) -> ReadPod:
    """The pod. `nodes`: what each node offers of its GPUs. `preempt_unclassed`: pods without a priority class may be
    evicted, too. InputError where a field is not what it must be.
    """
    spec = item.body.section("spec")
    labels = below(item.body, "metadata", "labels")
    annotations = below(item.body, "metadata", "annotations")
    amounts = requests(spec)
    gpus = holding(amounts, dict(_texts(annotations)), nodes.get(spec.text("nodeName")), item.body.file)
    group, notes = _anti_affinity(spec, dict(string_map(labels)), item)
    preemptible = _preemptible(spec, annotations, unclassed=preempt_unclassed)
    batch = _priority(spec) < 0 or _is_owned(item, _BATCH_OWNERS)
    if (gpus.whole or gpus.share) and not _has_class(spec):
        waits = batch and not preemptible and PREEMPTIBLE_ANNOTATION not in annotations
        notes = (*notes, *((UNCLASSED,) if preempt_unclassed else (STAYS,) if waits else ()))
    return ReadPod(
        item=item,
        gpus=gpus,
        notes=(*notes, *gpus.notes),
        pod=Pod(
            name=item.name,
            namespace=item.namespace or "default",
            node=spec.text("nodeName"),
            cpus=amounts.get("cpu", 0.0),
            memory_gb=amounts.get("memory", 0.0) / GB,
            gpu_request=gpus.whole,
            gpu_share=round(gpus.share, 6),
            priority=_priority(spec),
            preemptible=preemptible,
            kind=labels.choice(CLASS_LABEL, PodClass, default=PodClass.OFFLINE if batch else PodClass.ONLINE),
            checkpoint_age_s=_checkpoint_age(annotations),
            node_selector=string_map(below(spec, "nodeSelector")),
            anti_affinity=group,
            locked=_locked(item, annotations),
            job=_job(item, dict(string_map(labels))),
        ),
    )


def _texts(annotations: Section) -> list[tuple[str, str]]:
    """Annotations; empty ones say nothing."""
    return [(key, annotations.text(key)) for key in annotations if annotations.holds_text(key)]


def requests(spec: Section) -> Amounts:
    """What a pod's specification asks for: cores, bytes, pieces by resource name."""
    sidecars: Amounts = {}
    most_at_start: Amounts = {}
    for container in items_below(spec, "initContainers"):
        amounts = _container(container)
        if not container.is_empty("restartPolicy") and container.text("restartPolicy") == "Always":
            sidecars = _sum(sidecars, amounts)
            most_at_start = _larger(most_at_start, sidecars)
        else:
            most_at_start = _larger(most_at_start, _sum(sidecars, amounts))
    running = sidecars
    for container in spec.sections("containers"):
        running = _sum(running, _container(container))
    total = _larger(running, most_at_start)
    total |= _amounts(below(spec, "resources", "requests"))  # of the pod as a whole: they stand for all containers
    return _sum(total, _amounts(below(spec, "overhead")))


def _container(container: Section) -> Amounts:
    """Requests, and limits where nothing is requested, as Kubernetes fills them in."""
    return _amounts(below(container, "resources", "limits")) | _amounts(below(container, "resources", "requests"))


def _amounts(section: Section) -> Amounts:
    return {name: quantity(section, name) for name in section if name in ("cpu", "memory") or names_gpus(name)}


def _sum(amounts: Amounts, other: Amounts) -> Amounts:
    return {name: amounts.get(name, 0.0) + other.get(name, 0.0) for name in amounts.keys() | other.keys()}


def _larger(amounts: Amounts, other: Amounts) -> Amounts:
    return {name: max(amounts.get(name, 0.0), other.get(name, 0.0)) for name in amounts.keys() | other.keys()}


def _priority(spec: Section) -> int:
    return 0 if spec.is_empty("priority") else spec.integer("priority", low=LOWEST_PRIORITY, high=HIGHEST_PRIORITY)


def _preemptible(spec: Section, annotations: Section, *, unclassed: bool) -> bool:
    """What the annotation says; without one, a pod to which a priority class was given, but none of the system's; of
    the others, which Kubernetes runs at priority 0, all where `unclassed`.
    """
    if PREEMPTIBLE_ANNOTATION in annotations:
        return annotations.one_of(PREEMPTIBLE_ANNOTATION, ("true", "false")) == "true"
    return (unclassed or _has_class(spec)) and _priority(spec) < SYSTEM_PRIORITY


def _has_class(spec: Section) -> bool:
    """Whether a priority class was named; a priority below 0 comes from one, too."""
    return not spec.is_empty("priorityClassName") or _priority(spec) < 0


def _checkpoint_age(annotations: Section) -> float | None:
    if CHECKPOINT_ANNOTATION not in annotations:
        return None
    try:
        age = float(annotations.text(CHECKPOINT_ANNOTATION))
    except ValueError:
        age = -1.0
    if not 0 <= age < float("inf"):
        raise annotations.fault(CHECKPOINT_ANNOTATION, "seconds, a number of at least 0")
    return age


def _locked(item: KubernetesObject, annotations: Section) -> bool:
    """Whether nobody may move it; a pod of a DaemonSet or of the node itself has no other place to go."""
    bound = _is_owned(item, _BOUND_OWNERS)
    return bound or (EVICTION_ANNOTATION in annotations and annotations.text(EVICTION_ANNOTATION) == "false")


def _is_owned(item: KubernetesObject, kinds: tuple[str, ...]) -> bool:
    return any(owner.text("kind") in kinds for owner in items_below(below(item.body, "metadata"), "ownerReferences"))


def _job(item: KubernetesObject, labels: Mapping[str, str]) -> str:
    """The job or the copy of a model that the pod is part of, as its labels say; "" where they do not."""
    for keys in _JOB_LABELS:
        if all(labels.get(key) for key in keys):
            return f"{item.namespace or 'default'}/{'-'.join(labels[key] for key in keys)}"
    return ""


def _anti_affinity(spec: Section, labels: dict[str, str], item: KubernetesObject) -> tuple[str, tuple[str, ...]]:
    """The group that keeps its pods on different nodes: a required term on the host that selects the pod itself."""
    terms = items_below(below(spec, "affinity", "podAntiAffinity"), "requiredDuringSchedulingIgnoredDuringExecution")
    groups = []
    for term in terms:
        selector = below(term, "labelSelector")
        if term.text("topologyKey") == HOST_LABEL and len(selector) and selects(selector, labels):
            groups.append(f"{item.namespace or 'default'}: {_selector_text(selector)}")
    lost = len(terms) - len(groups[:1])
    note = f"{lost} anti-affinity terms were left out: they keep other pods away, or from more than the host"
    return (groups[0] if groups else ""), ((note,) if lost else ())


def _expressions(selector: Section) -> list[tuple[str, str, tuple[str, ...]]]:
    equal = [(key, "In", (value,)) for key, value in string_map(below(selector, "matchLabels"))]
    operators = ("In", "NotIn", "Exists", "DoesNotExist")
    return equal + [
        (
            entry.text("key"),
            entry.one_of("operator", operators),
            () if entry.is_empty("values") else tuple(sorted(entry.texts("values"))),
        )
        for entry in items_below(selector, "matchExpressions")
    ]


def selects(selector: Section, labels: dict[str, str]) -> bool:
    """Whether a label selector selects what bears these labels."""
    return all(_holds(labels.get(key), operator, values) for key, operator, values in _expressions(selector))


def _holds(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    """Whether a label (None: not there) is as a selector's expression wants it."""
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    return (value in values) == (operator == "In")


def _selector_text(selector: Section) -> str:
    return ", ".join(f"{key} {operator} {'|'.join(values)}".strip() for key, operator, values in
                     sorted(_expressions(selector)))  # fmt: skip
