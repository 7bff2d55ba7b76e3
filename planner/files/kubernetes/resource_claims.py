"""Devices that pods hold by dynamic resource allocation (resource.k8s.io): ResourceClaims and ResourceSlices.

A claim says in its status which devices it was given; a pod says in its own which claims are its. A driver lists the
devices of a node in slices. Source: Kubernetes, Dynamic Resource Allocation; NVIDIA/k8s-dra-driver-gpu (names gpu-0,
gpu-0-mig-...; attributes type, uuid, productName).
"""

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from planner.domain.node_report import ReportedGpu
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, below, items_below
from planner.files.sections import Section

CLAIM, SLICE = "ResourceClaim", "ResourceSlice"
DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")
_WHOLE = re.compile(r"gpu-([0-9]{1,3})")


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
    indices = [int(match[1]) for name in rows if (match := _WHOLE.fullmatch(name))]
    return ClaimedGpus(gpus=tuple(sorted(indices)), parts=len(rows) - len(indices))


def listed_gpus(objects: Iterable[KubernetesObject]) -> dict[str, tuple[ReportedGpu, ...]]:
    """Whole GPUs that drivers list, by node."""
    gpus: dict[str, dict[int, ReportedGpu]] = {}
    for item in objects:
        spec = below(item.body, "spec")
        if spec.is_empty("nodeName") or spec.is_empty("driver") or spec.text("driver") not in DRIVERS:
            continue
        there = gpus.setdefault(spec.text("nodeName"), {})
        there.update((gpu.index, gpu) for gpu in _whole_gpus(spec))
    return {node: tuple(listed[index] for index in sorted(listed)) for node, listed in gpus.items()}


def _whole_gpus(spec: Section) -> Iterator[ReportedGpu]:
    for device in items_below(spec, "devices"):
        match = _WHOLE.fullmatch(device.text("name"))
        if match:
            attributes = below(device, "basic", "attributes") if "basic" in device else below(device, "attributes")
            yield ReportedGpu(
                index=int(match[1]), uuid=_text(attributes, "uuid"), product=_text(attributes, "productName")
            )


def _text(attributes: Section, key: str) -> str:
    value = below(attributes, key)
    return "" if value.is_empty("string") else value.text("string")
