"""Workers of a graph: the phase that their module serves, the memory of /dev/shm, and what their probes ask.

Probes ask the runtime's own server (ai-dynamo/dynamo, lib/runtime/src/system_status_server.rs), not the engine's.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedPlan, Phase
from planner.export.found import Fault, Manifest
from planner.export.objects.quantities import amount
from planner.export.options import LEAST_SHARED_GIB
from planner.export.targets.dynamo.checks import components, phase_of, word_after
from planner.export.targets.dynamo.components import KIND

_MODE = "--disaggregation-mode"
_AGGREGATED = "agg"  # Dynamo's default, of workers that do both phases
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
_PROBE_PATHS = ("/health", "/live")


def worker_faults(manifests: Sequence[Manifest], _plan: DeployedPlan | None) -> Iterator[Fault]:
    """What is wrong with the workers of all graphs."""
    for manifest in manifests:
        for path, component in components(manifest) if manifest.kind == KIND else ():
            if phase_of(component):
                yield from _mode_faults(manifest, path, component)
                yield from _memory_faults(manifest, path, component)
                yield from _probe_faults(manifest, path, component)


def _mode_faults(manifest: Manifest, path: str, component: Mapping[str, Any]) -> Iterator[Fault]:
    """A worker without a mode is an aggregated one."""
    came, phase = word_after(component, _MODE), phase_of(component)
    mixed = phase == Phase.MIXED.value
    if came not in (("", _AGGREGATED) if mixed else (phase,)):
        where, mode = f"{path}.podTemplate.spec.containers.0.args", _AGGREGATED if mixed else phase
        yield manifest.fault(where, f"{_MODE} must be {mode}, which the component serves", came or "none")


def _memory_faults(manifest: Manifest, path: str, component: Mapping[str, Any]) -> Iterator[Fault]:
    limits = component["podTemplate"]["spec"]["containers"][0].get("resources", {}).get("limits", {})
    size = component.get("sharedMemorySize")
    if size is not None and (amount(size) or 0) < LEAST_SHARED_GIB * 2**30:
        rule = f"must be at least {LEAST_SHARED_GIB}Gi, as /dev/shm of an engine"
        yield manifest.fault(f"{path}.sharedMemorySize", rule, size)
    shared, memory = amount(component.get("sharedMemorySize", 0)), amount(limits.get("memory"))
    if shared is not None and memory is not None and memory < shared:
        where = f"{path}.podTemplate.spec.containers.0.resources.limits.memory"
        rule = f"must be at least the {component['sharedMemorySize']} that /dev/shm may take of it"
        yield manifest.fault(where, rule, limits["memory"])


def _probe_faults(manifest: Manifest, path: str, component: Mapping[str, Any]) -> Iterator[Fault]:
    container = component["podTemplate"]["spec"]["containers"][0]
    for probe in (name for name in _PROBES if name in container):
        path_asked = container[probe]["httpGet"]["path"].partition("?")[0]
        if path_asked not in _PROBE_PATHS:
            where = f"{path}.podTemplate.spec.containers.0.{probe}.httpGet.path"
            yield manifest.fault(where, f"must be a path that workers answer, {', '.join(_PROBE_PATHS)}", path_asked)
