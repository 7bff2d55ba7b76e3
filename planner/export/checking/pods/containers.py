"""Single pods: pinned images, sizes that Kubernetes can read, GPUs in whole numbers, classes that bind memory to NUMA
nodes (limits without smaller requests)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.found import Fault, FoundPod, Manifest
from planner.export.objects.documents import whole_number
from planner.export.objects.pods import GPU_RESOURCES
from planner.export.objects.quantities import amount
from planner.export.options import image_is_pinned

# quantities of Kubernetes: a decimal number and a binary, decimal or exponent suffix
_QUANTITY = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]+)?")


def is_quantity(value: object) -> bool:
    """Whether `value` is a quantity as in resources.limits: not negative, and with a suffix that Kubernetes knows."""
    text = str(value)
    return not isinstance(value, bool) and _QUANTITY.fullmatch(text) is not None and not text.startswith("-")


def pod_gpus(pod: FoundPod) -> int:
    """GPUs that one such pod asks for, of any vendor; a number that is not whole counts as 0."""
    limits = [container.get("resources", {}).get("limits", {}) for container in pod.spec["containers"]]
    return sum(whole_number(limit.get(resource, 0)) for limit in limits for resource in GPU_RESOURCES.values())


def pod_faults(manifest: Manifest, pod: FoundPod) -> Iterator[Fault]:
    """What is wrong with a pod whatever its island."""
    for index, container in enumerate(pod.spec["containers"]):
        where = f"{pod.path}.containers.{index}"
        image = str(container.get("image", ""))
        if not image_is_pinned(image):
            yield manifest.fault(f"{where}.image", "must name a fixed version", image)
        yield from _resource_faults(manifest, f"{where}.resources", container.get("resources", {}))
    for index, volume in enumerate(pod.spec.get("volumes", ())):
        size = volume.get("emptyDir", {}).get("sizeLimit", "0")
        if not is_quantity(size):
            yield manifest.fault(f"{pod.path}.volumes.{index}.emptyDir.sizeLimit", "must be a quantity", repr(size))


def _resource_faults(manifest: Manifest, where: str, resources: Mapping[str, Any]) -> Iterator[Fault]:
    limits = resources.get("limits", {})
    for part in ("limits", "requests"):
        for name, value in resources.get(part, {}).items():
            if not is_quantity(value):
                yield manifest.fault(f"{where}.{part}.{name}", "must be a quantity such as 8 or 64Gi", repr(value))
            elif name in GPU_RESOURCES.values() and not str(value).isdecimal():
                yield manifest.fault(f"{where}.{part}.{name}", "must be a whole number of GPUs", repr(value))
    for name, value in resources.get("requests", {}).items():
        if name not in limits or amount(limits[name]) != amount(value):
            yield manifest.fault(
                f"{where}.requests.{name}", f"must equal its limit {limits.get(name)} (Guaranteed class)", value
            )
