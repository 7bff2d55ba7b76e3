"""How pods start and end: probes that wait for the start, and a grace period in which everything has room.

An engine that loads answers nobody: a liveness probe kills it unless a startup probe comes first. A pod whose grace
period is over is killed, whatever its hook and its engine still do.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.checking.expectation import Owned
from planner.export.checking.pods.ports import engine_of
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.seam import Engine
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.operating.load_time import read_load_time

_KUBERNETES_GRACE_S, _PERIOD_S, _FAILURES = 30, 10, 3  # Kubernetes' defaults


def ending_faults(owned: Owned) -> Iterator[Fault]:
    """What is wrong with the probes and the end of a workload's pods."""
    workload, engine = owned.workload, engine_of(owned.workload)
    load = read_load_time(workload.annotations)
    for pod in (pod for copy in workload.copies for pod in copy):
        if pod.arguments is None:
            continue
        yield from _start_faults(workload, pod, load)
        yield from _grace_faults(workload.manifest, pod, engine)


def _start_faults(workload: FoundWorkload, pod: FoundPod, load_s: int | None) -> Iterator[Fault]:
    container = pod.spec["containers"][0]
    where = f"{pod.path}.containers.0"
    startup = container.get("startupProbe")
    if "livenessProbe" in container and startup is None:
        rule = "must stand beside a startupProbe: else it kills an engine that loads"
        yield workload.manifest.fault(f"{where}.livenessProbe", rule, "none")
    if startup is None or load_s is None:
        return
    budget = startup.get("initialDelaySeconds", 0) + startup.get("periodSeconds", _PERIOD_S) * startup.get(
        "failureThreshold", _FAILURES
    )
    if budget < load_s:
        rule = f"periodSeconds x failureThreshold must be at least the {load_s} s that a start takes"
        yield workload.manifest.fault(f"{where}.startupProbe", rule, f"{budget} s")


def _grace_faults(manifest: Manifest, pod: FoundPod, engine: Engine | None) -> Iterator[Fault]:
    """A hook of another kind takes nobody knows how long."""
    container = pod.spec["containers"][0]
    grace = pod.spec.get("terminationGracePeriodSeconds", _KUBERNETES_GRACE_S)
    hook = _hook(container).get("sleep", {}).get("seconds", 0)
    values = read_flags(pod.arguments or ())
    drain = read_count(values, engine.drain_flag, 0) if engine and engine.drain_flag in values else 0
    if hook + drain > grace:
        parts = f"preStop's {hook} s" + (f" and --{engine.drain_flag}'s {drain} s" if engine and drain else "")
        where = f"{pod.path}.terminationGracePeriodSeconds"
        yield manifest.fault(where, f"must be at least {hook + drain}, {parts}", grace)


def _hook(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """The preStop hook; in Helm values it is one level deeper."""
    lifecycle = container.get("lifecycle") or container.get("extraConfig", {}).get("lifecycle", {})
    hook: Mapping[str, Any] = lifecycle.get("preStop", {})
    return hook
