"""A node as Kubernetes tells it: labels, taints, what pods may have, GPUs whole and in parts.

Sources: GPU feature discovery (NVIDIA/k8s-device-plugin), AMD's node labeller (ROCm/k8s-device-plugin), the providers'
lists that gpu_names.yaml names, and topograph's reference of labels (network.topology.nvidia.com/accelerator).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from planner.domain import Taint
from planner.domain.node_report import GpuName, NodeReport, ReportedGpu
from planner.files.disk.documents import read_yaml
from planner.files.kubernetes.gpu_shares import NodeGpus, gpus_of_node, hami_devices
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, below, items_below, quantity, string_map
from planner.files.sections import Section
from planner.units import GB

MACHINES = ("nvidia.com/gpu.machine", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
CLIQUE = "nvidia.com/gpu.clique"
DOMAINS = (
    CLIQUE,
    "network.topology.nvidia.com/accelerator",
    "accelerator.topograph.run/domain",
    "ds.coreweave.com/nvlink.domain",
)
"""Labels of NVLink domains of several hosts. Topograph leaves its own out where there is a clique."""

_DRIVERS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
_CUT_UP = re.compile(r"(-SHARED|-MIG-.+)$")
_NO_FABRIC = re.compile(r"[0-]*\.[0-9]+|0*")
_A4X_HOSTS, _SUBBLOCK = "a4x-", "cloud.google.com/gce-topology-subblock"


@dataclass(frozen=True, slots=True, kw_only=True)
class _NameRow:
    gpu: str
    value: str
    label: str
    also: tuple[tuple[str, str], ...]


@cache
def _names() -> tuple[tuple[str, ...], tuple[_NameRow, ...]]:
    """Labels in the order of trust, and the rows of gpu_names.yaml."""
    document = read_yaml(Path(__file__).with_name("gpu_names.yaml"))
    rows = []
    for row in document.sections("names"):
        also = row.section("also", optional=True)
        rows.append(
            _NameRow(
                gpu=row.text("gpu"),
                value=row.text("value"),
                label=row.text("label", default=""),
                also=tuple((key, also.text(key)) for key in also),
            )
        )
    return document.texts("labels"), tuple(rows)


def gpu_names(labels: Mapping[str, str]) -> tuple[GpuName, ...]:
    """What labels call the GPUs of a node, the surest first; types where a row of gpu_names.yaml has them."""
    keys, rows = _names()
    return tuple(
        GpuName(label=key, value=value, gpu=_gpu_of(key, value, labels, rows), of_driver=key in _DRIVERS)
        for key in keys
        for value in _values(key, labels)
    )


def _values(key: str, labels: Mapping[str, str]) -> Iterator[str]:
    """The label's value; AMD's labeller also writes the value into the key, with a count."""
    if value := _CUT_UP.sub("", labels.get(key, "")):
        yield value
    elif "amd.com/" in key:
        yield from sorted({name.removeprefix(f"{key}.") for name in labels if name.startswith(f"{key}.")})[:1]


def _gpu_of(key: str, value: str, labels: Mapping[str, str], rows: tuple[_NameRow, ...]) -> str:
    for row in rows:
        if (
            fnmatchcase(value.lower(), row.value)
            and row.label in ("", key)
            and all(labels.get(label) == label_value for label, label_value in row.also)
        ):
            return row.gpu
    return ""


def machine_of(labels: Mapping[str, str]) -> str:
    """What the host is, where a label says."""
    return next((labels[key] for key in MACHINES if labels.get(key)), "")


def nvlink_domain_of(labels: Mapping[str, str]) -> str:
    """The NVLink domain of several hosts that a host is part of; "" where no label names one. A clique whose cluster is
    all zeros is none: the driver writes that of hosts by themselves.
    """
    for key in DOMAINS:
        value = labels.get(key, "")
        if value and not (key == CLIQUE and _NO_FABRIC.fullmatch(value)):
            return value
    machine = labels.get("node.kubernetes.io/instance-type", "")
    return labels.get(_SUBBLOCK, "") if machine.startswith(_A4X_HOSTS) else ""


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
    capacity_cpus = quantity(capacity, "cpu")
    return (
        f"lets pods have {cpus:g} CPUs of {capacity_cpus:g} that it has: counted as what pods may have, as the kubelet "
        "does",
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
    added = [CORDON_TAINT] if is_cordoned(item) else []
    added += [_fault_of(item)] if _fault_of(item) else []
    added += [UNHEALTHY_TAINT] if unhealthy else []
    keys = {taint.key for taint in taints}
    return (*taints, *(Taint(key=key) for key in added if key not in keys))


def is_cordoned(item: KubernetesObject) -> bool:
    """Whether nobody may be scheduled on a node."""
    spec = below(item.body, "spec")
    return not spec.is_empty("unschedulable") and spec.flag("unschedulable")


def readiness(item: KubernetesObject) -> Section | None:
    """A node's condition Ready; None where it has none."""
    for condition in items_below(below(item.body, "status"), "conditions"):
        if not condition.is_empty("type") and condition.text("type") == "Ready":
            return condition
    return None


def _fault_of(item: KubernetesObject) -> str:
    """The taint of a node that is not ready; "" where it is, or says nothing."""
    condition = readiness(item)
    return "" if condition is None else NOT_READY.get(condition.text("status"), "")
