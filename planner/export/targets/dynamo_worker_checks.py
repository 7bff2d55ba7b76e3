"""Workers of a graph: the phase that their module serves, and the memory of /dev/shm."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedPlan
from planner.export.found import Fault, Manifest
from planner.export.quantities import amount
from planner.export.targets.dynamo_checks import components, phase_of, word_after
from planner.export.targets.dynamo_components import KIND

_MODE = "--disaggregation-mode"


def worker_faults(manifests: Sequence[Manifest], _plan: DeployedPlan | None) -> Iterator[Fault]:
    """What is wrong with the workers of all graphs."""
    for manifest in manifests:
        for path, component in components(manifest) if manifest.kind == KIND else ():
            if phase_of(component):
                yield from _mode_faults(manifest, path, component)
                yield from _memory_faults(manifest, path, component)


def _mode_faults(manifest: Manifest, path: str, component: Mapping[str, Any]) -> Iterator[Fault]:
    came, phase = word_after(component, _MODE), phase_of(component)
    if came != phase:
        where = f"{path}.podTemplate.spec.containers.0.args"
        yield manifest.fault(where, f"{_MODE} must be {phase}, which the component serves", came or "none")


def _memory_faults(manifest: Manifest, path: str, component: Mapping[str, Any]) -> Iterator[Fault]:
    limits = component["podTemplate"]["spec"]["containers"][0].get("resources", {}).get("limits", {})
    shared, memory = amount(component.get("sharedMemorySize", 0)), amount(limits.get("memory"))
    if shared is not None and memory is not None and memory < shared:
        where = f"{path}.podTemplate.spec.containers.0.resources.limits.memory"
        told = f"must be at least the {component['sharedMemorySize']} that /dev/shm may take of it"
        yield manifest.fault(where, told, limits["memory"])
