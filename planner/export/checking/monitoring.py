"""PodMonitors that reach every engine at a port it has, and rules whose promises are the plan's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import EngineProfile
from planner.export.checking.expectation import Expectation
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.islands import serving_islands
from planner.export.objects.operating.engine_metrics import engine_metrics
from planner.export.objects.operating.monitoring import METRICS_PATH, POD_MONITOR, RULE, TARGET_LABELS, rule_groups
from planner.export.objects.pods import ENGINE_LABEL, PART_OF_LABEL
from planner.files import catalog


def monitoring_faults(
    manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload], expected: Expectation
) -> Iterator[Fault]:
    """Every leader is scraped by a PodMonitor, where there is one; recording rules are those that the plan gives."""
    monitors = [manifest for manifest in manifests if manifest.kind == POD_MONITOR]
    for monitor in monitors:
        yield from _monitor_faults(monitor, workloads)
    if monitors:
        for workload in workloads:
            if not any(_selects(monitor, workload.pods[0]) for monitor in monitors):
                yield workload.manifest.fault(
                    "metadata.labels", "must be chosen by the selector of a PodMonitor", dict(workload.pods[0].labels)
                )
    for manifest in manifests:
        if manifest.kind == RULE:
            yield from _rule_faults(manifest, workloads, expected)


def _selects(monitor: Manifest, pod: FoundPod) -> bool:
    selector = monitor.body["spec"]["selector"]
    wanted = selector["matchLabels"].items() <= pod.labels.items()
    return bool(wanted) and all(row["key"] in pod.labels for row in selector.get("matchExpressions", ()))


def _monitor_faults(monitor: Manifest, workloads: Sequence[FoundWorkload]) -> Iterator[Fault]:
    spec = monitor.body["spec"]
    missing = [label for label in TARGET_LABELS if label not in spec.get("podTargetLabels", ())]
    if missing:
        yield monitor.fault("spec.podTargetLabels", f"must name {', '.join(missing)}, which the rules read", "none")
    for index, endpoint in enumerate(spec["podMetricsEndpoints"]):
        where = f"spec.podMetricsEndpoints.{index}"
        if endpoint.get("path", METRICS_PATH) != METRICS_PATH:
            yield monitor.fault(f"{where}.path", f"must be {METRICS_PATH}, where engines answer", endpoint["path"])
        for workload in workloads:
            pod = workload.pods[0]
            if _selects(monitor, pod) and endpoint["port"] not in _port_names(pod):
                names = ", ".join(sorted(_port_names(pod))) or "none"
                yield monitor.fault(f"{where}.port", f"must be a port of the pods of {workload.manifest.name}", names)


def _port_names(pod: FoundPod) -> set[str]:
    return {str(port.get("name", "")) for c in pod.spec["containers"] for port in c.get("ports", ())}


def _rule_faults(rule: Manifest, workloads: Sequence[FoundWorkload], expected: Expectation) -> Iterator[Fault]:
    if expected.planned is None:
        return
    name = rule.labels.get(PART_OF_LABEL, "")
    islands = serving_islands(expected.planned, "plan")
    engine = next((workload.labels.get(ENGINE_LABEL, "") for workload in workloads), "")
    metrics = engine_metrics(_profile(expected.planned.scenario.engine, engine))
    wanted = {
        _key(row): row for group in rule_groups(expected.planned, name, islands, metrics) for row in group["rules"]
    }
    for number, group in enumerate(rule.body["spec"]["groups"]):
        for index, row in enumerate(group["rules"]):
            planned = wanted.pop(_key(row), None)
            where = f"spec.groups.{number}.rules.{index}"
            if planned is None:
                yield rule.fault(where, "must be a rule of the plan, each once", _key(row)[0])
            elif planned["expr"] != row["expr"]:
                yield rule.fault(f"{where}.expr", f"must be {planned['expr']!r} as in the plan", repr(row["expr"]))
    for record, labels in wanted:
        yield rule.fault("spec.groups", f"must hold the rule {record}", f"none with {dict(labels)}")


def _profile(priced: EngineProfile, engine: str) -> EngineProfile:
    return priced if priced.name == engine else catalog.engine(engine)


def _key(row: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return str(row["record"]), tuple(sorted(row.get("labels", {}).items()))
