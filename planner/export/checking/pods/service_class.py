"""CPUs and memory of pods: amounts that can serve, and of a placed plan the Guaranteed class with whole CPUs, without
which no kubelet aligns CPUs and memory with the GPUs' NUMA nodes.

Source: the kubelet's static CPU manager and topology manager: exclusive CPUs for containers of Guaranteed pods that ask
for whole ones.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from planner.export.checking.expectation import Expectation, Owned
from planner.export.found import Fault, FoundPod, Manifest
from planner.export.objects.quantities import amount
from planner.export.objects.scheduling import POLICY_ANNOTATION
from planner.export.targets.script import KIND as SCRIPT

_UNALIGNED = "none"


def class_faults(owned: Owned, expected: Expectation) -> Iterator[Fault]:
    """What is wrong with the CPUs and the memory of a workload's pods, and with the kubelet policy that it names."""
    workload = owned.workload
    policy = workload.annotations.get(POLICY_ANNOTATION)
    if expected.planned is not None and expected.planned.placement is not None and expected.settings is not None:
        wanted = expected.settings.qos(owned.island.phase).kubelet_policy
        if policy != wanted:
            where = f"{workload.annotations_path}.{POLICY_ANNOTATION}"
            yield workload.manifest.fault(where, f"must be {wanted} as in the plan's placement", policy or "none")
        policy = wanted
    aligned = policy not in (None, _UNALIGNED)
    for pod in workload.pods:
        for index, container in enumerate(pod.spec["containers"]):
            limits = container.get("resources", {}).get("limits", {})
            where = f"{pod.path}.containers.{index}.resources.limits"
            if index == 0:
                yield from _memory_faults(workload.manifest, where, limits, _shared_memory(pod))
            if workload.manifest.kind != SCRIPT:  # a process has no limits but its GPUs
                yield from _cpu_faults(workload.manifest, where, limits, aligned=aligned)


def _shared_memory(pod: FoundPod) -> Fraction:
    """Memory that /dev/shm may take of the pod's (bytes)."""
    volumes = [volume.get("emptyDir", {}) for volume in pod.spec.get("volumes", ())]
    sizes = [
        amount(volume.get("sizeLimit", 0)) or Fraction(0) for volume in volumes if volume.get("medium") == "Memory"
    ]
    return sum(sizes, start=Fraction(0))


def _memory_faults(manifest: Manifest, where: str, limits: Mapping[str, Any], shared: Fraction) -> Iterator[Fault]:
    memory = amount(limits["memory"]) if "memory" in limits else None
    if memory is not None and memory < max(shared, Fraction(2**30)):
        rule = f"must be at least {float(max(shared, Fraction(2**30)) / 2**30):g}Gi, what /dev/shm may take of it"
        yield manifest.fault(f"{where}.memory", rule, limits["memory"])


def _cpu_faults(manifest: Manifest, where: str, limits: Mapping[str, Any], *, aligned: bool) -> Iterator[Fault]:
    cpus = amount(limits["cpu"]) if "cpu" in limits else None
    if cpus == 0:
        yield manifest.fault(f"{where}.cpu", "must be above 0", limits["cpu"])
    if not aligned:
        return
    for name in ("cpu", "memory"):
        if name not in limits:
            rule = "must be there: without it the pod is not of the Guaranteed class, which the placement counts on"
            yield manifest.fault(f"{where}.{name}", rule, "none")
    if cpus is not None and cpus.denominator != 1:
        yield manifest.fault(f"{where}.cpu", "must be whole CPUs, which the kubelet gives out alone", limits["cpu"])
