"""Values of releases whose parts contradict each other: the vendor that the chart is told, and the GPUs of the pods."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedPlan
from planner.export.found import Fault, Manifest
from planner.export.objects.documents import whole_number
from planner.export.objects.pods import GPU_RESOURCES
from planner.export.targets.llm_d.release_values import VALUES_KIND

_ROLES = ("prefill", "decode")


def accelerator_faults(manifests: Sequence[Manifest], _plan: DeployedPlan | None) -> Iterator[Fault]:
    """Roles that ask for GPUs of another vendor than they name."""
    for manifest in manifests:
        for role in _ROLES if manifest.kind == VALUES_KIND else ():
            block = manifest.body[role]
            if block["create"] and "containers" in block:
                yield from _vendor_faults(manifest, role, block)


def _vendor_faults(manifest: Manifest, role: str, block: Mapping[str, Any]) -> Iterator[Fault]:
    accelerator = block.get("accelerator", {}).get("type")
    vendor, where = (
        (accelerator, f"{role}.accelerator.type")
        if accelerator
        else (manifest.body["accelerator"]["type"], "accelerator.type")
    )
    limits = block["containers"][0]["resources"]["limits"]
    vendors = {key.lower() for key, name in GPU_RESOURCES.items() if whole_number(limits.get(name, 0))}
    if vendors and vendors != {vendor}:
        yield manifest.fault(where, f"must be {' and '.join(sorted(vendors))}, whose GPUs the pods ask for", vendor)
