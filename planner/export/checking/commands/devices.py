"""GPUs of the right vendor, all of them in the engine's reach, and none taken by what runs before it."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.checking.commands.command_words import variables
from planner.export.checking.expectation import Expectation, Owned
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.documents import whole_number
from planner.export.objects.pods import GPU_RESOURCES
from planner.export.options import image_is_pinned

HIDING = frozenset({"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})
"""Variables by which a process sees fewer or other GPUs than its pod was given."""


def device_faults(owned: Owned, expected: Expectation) -> Iterator[Fault]:
    """What is wrong with the GPUs of a workload's pods, apart from their number."""
    gpu = expected.gpus.get(owned.island.gpu)
    wanted = GPU_RESOURCES.get(gpu.vendor.upper(), "") if gpu else ""
    for pod in (pod for copy in owned.workload.copies for pod in copy):
        if pod.arguments is None:
            continue
        yield from _vendor_faults(owned.workload, pod, wanted)
        for name, row in variables(pod):
            if name in HIDING:
                rule = f"{name} must be left out: the device plugin gives the pod its GPUs"
                yield owned.workload.manifest.fault(f"{pod.path}.containers.0.env", rule, row.get("value", "set"))


def _vendor_faults(workload: FoundWorkload, pod: FoundPod, wanted: str) -> Iterator[Fault]:
    resources = [
        (index, name) for index, container in enumerate(pod.spec["containers"]) for name in gpu_limits(container)
    ]
    for index, name in resources:
        where = f"{pod.path}.containers.{index}.resources.limits.{name}"
        if wanted and name != wanted:
            yield workload.manifest.fault(where, f"must be {wanted}, the resource of the island's GPUs", name)
        elif name != resources[0][1]:
            yield workload.manifest.fault(where, f"must be {resources[0][1]}: a pod has GPUs of one vendor", name)


def gpu_limits(container: Mapping[str, Any]) -> dict[str, int]:
    """Resource -> GPUs that a container asks for, of each vendor of whom it asks any."""
    limits = container.get("resources", {}).get("limits", {})
    return {name: count for name in GPU_RESOURCES.values() if (count := whole_number(limits.get(name, 0)))}


def init_faults(manifest: Manifest, pod: FoundPod) -> Iterator[Fault]:
    """Init containers run a fixed image and ask for no more GPUs than the pod's engine: the larger of both counts."""
    engine = sum(count for container in pod.spec["containers"] for count in gpu_limits(container).values())
    for index, container in enumerate(pod.spec.get("initContainers", ())):
        where, image = f"{pod.path}.initContainers.{index}", container.get("image")
        if image is not None and not image_is_pinned(str(image)):
            yield manifest.fault(f"{where}.image", "must name a fixed version", image)
        gpus = sum(gpu_limits(container).values())
        if gpus > engine:
            yield manifest.fault(f"{where}.resources.limits", f"must ask for at most the pod's {engine} GPUs", gpus)
