"""A node as Kubernetes tells it: labels, taints, what pods may have, GPUs whole and in parts."""

from dataclasses import dataclass

from planner.domain import Taint
from planner.domain.node_report import GpuName, NodeReport, ReportedGpu
from planner.files.kubernetes.gpu_parts import NodeGpus, gpus_of_node, hami_devices
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, below, items_below, quantity, string_map
from planner.files.kubernetes.node_labels import gpu_names, machine_of, nvlink_domain_of
from planner.files.sections import Section
from planner.units import GB

UNHEALTHY_TAINT = "planner/unhealthy-gpus"
CORDON_TAINT = "node.kubernetes.io/unschedulable"
NOT_READY = {"False": "node.kubernetes.io/not-ready", "Unknown": "node.kubernetes.io/unreachable"}
"""Taints that the node controller sets after a while, by the status of condition Ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNode:
    """A node's report, and what it offers of its GPUs."""

    report: NodeReport
    gpus: NodeGpus


def read_node(item: KubernetesObject, listed: tuple[ReportedGpu, ...] = ()) -> ReadNode:
    """The node; GPUs are counted by capacity. `listed`: GPUs that a driver lists, where no device plugin counts them.
    InputError where a field is not what it must be.
    """
    status = item.body.section("status")
    allocatable = status.section("allocatable")
    capacity = below(status, "capacity")
    labels = dict(string_map(below(item.body, "metadata", "labels")))
    gpus = gpus_of_node(capacity, allocatable, labels, _annotations(item), item.body.file)
    by_driver = bool(listed) and not gpus.whole and not gpus.offers
    cpus = quantity(allocatable, "cpu")
    notes = [*gpus.notes, *_lost(gpus), *_more_than_there(capacity, cpus)]
    count = len(listed) if by_driver else gpus.whole
    report = NodeReport(
        node=item.name,
        origin=item.body.file,
        gpu_count=None if gpus.offers else count,
        whole_gpus=gpus.whole if gpus.offers else None,
        gpus=listed if by_driver else (),
        offers=gpus.offers,
        labels=tuple(sorted(labels.items())),
        taints=_taints(item, unhealthy=gpus.lost > 0),
        cpus=cpus,
        memory_gb=quantity(allocatable, "memory") / GB,
        gpu_names=(*gpu_names(labels), *_registered(item)),
        machine=machine_of(labels),
        nvlink_domain=nvlink_domain_of(labels),
        notes=tuple(notes),
    )
    return ReadNode(report=report, gpus=gpus)


def _annotations(item: KubernetesObject) -> dict[str, str]:
    section = below(item.body, "metadata", "annotations")
    return {key: section.text(key) for key in section if section.holds_text(key)}


def _registered(item: KubernetesObject) -> tuple[GpuName, ...]:
    """The product that HAMi registered, which puts the vendor before the driver's name."""
    devices = hami_devices(_annotations(item))
    product = devices[0][4].replace(" ", "-").removeprefix("NVIDIA-NVIDIA-") if devices else ""
    return gpu_names({"nvidia.com/gpu.product": f"NVIDIA-{product.removeprefix('NVIDIA-')}"}) if product else ()


def _lost(gpus: NodeGpus) -> tuple[str, ...]:
    if not gpus.lost:
        return ()
    return (f"{gpus.lost} GPUs are not allocatable and nobody says which: tainted with {UNHEALTHY_TAINT}",)


def _more_than_there(capacity: Section, cpus: float) -> tuple[str, ...]:
    if capacity.is_empty("cpu") or quantity(capacity, "cpu") >= cpus:
        return ()
    there = quantity(capacity, "cpu")
    return (
        f"lets pods have {cpus:g} CPUs of {there:g} that it has: counted as what pods may have, as the kubelet does",
    )


def _taints(item: KubernetesObject, *, unhealthy: bool) -> tuple[Taint, ...]:
    spec = below(item.body, "spec")
    taints = [
        Taint(
            key=entry.text("key"),
            value="" if entry.is_empty("value") else entry.text("value"),
            effect=entry.one_of("effect", ("NoSchedule", "PreferNoSchedule", "NoExecute")),
        )
        for entry in items_below(spec, "taints")
    ]
    cordoned = not spec.is_empty("unschedulable") and spec.flag("unschedulable")
    wanted = [CORDON_TAINT] if cordoned else []
    wanted += [_fault_of(item)] if _fault_of(item) else []
    wanted += [UNHEALTHY_TAINT] if unhealthy else []
    keys = {taint.key for taint in taints}
    return (*taints, *(Taint(key=key) for key in wanted if key not in keys))


def _fault_of(item: KubernetesObject) -> str:
    """The taint of a node that is not ready; "" where it is, or says nothing."""
    for condition in items_below(below(item.body, "status"), "conditions"):
        if not condition.is_empty("type") and condition.text("type") == "Ready":
            return NOT_READY.get(condition.text("status"), "")
    return ""
