"""Autoscalers scale objects that are there, each one, within bounds that hold the plan's copies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.checking.expectation import Expectation, Owned
from planner.export.found import Fault, FoundWorkload, Manifest
from planner.export.objects.operating.autoscaling import HPA_KIND, KEDA_KIND, METRIC
from planner.export.objects.operating.copy_bounds import copy_bounds

_FIELDS = {HPA_KIND[1]: ("minReplicas", "maxReplicas"), KEDA_KIND[1]: ("minReplicaCount", "maxReplicaCount")}


def autoscaling_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """What is wrong with autoscalers beside the workloads that they scale."""
    scalers = [manifest for manifest in manifests if (manifest.api_version, manifest.kind) in (HPA_KIND, KEDA_KIND)]
    scaled: dict[tuple[str, ...], str] = {}
    for scaler in scalers:
        target = scaler.body["spec"]["scaleTargetRef"]
        item = next((row for row in owned if _is_target(row.workload, target)), None)
        if item is None:
            yield scaler.fault("spec.scaleTargetRef", "must be an object of these files that runs an island", target)
            continue
        key = (target["apiVersion"], target["kind"], target["name"])
        if key in scaled:
            yield scaler.fault("spec.scaleTargetRef", f"must be scaled once, {scaled[key]} does", target["name"])
        scaled[key] = scaler.name
        yield from _bound_faults(scaler, item, expected)
        yield from _metric_faults(scaler, str(target["name"]))


def _is_target(workload: FoundWorkload, target: Mapping[str, Any]) -> bool:
    manifest = workload.manifest
    return (manifest.api_version, manifest.kind, manifest.name) == (
        target["apiVersion"],
        target["kind"],
        target["name"],
    )


def _bound_faults(scaler: Manifest, item: Owned, expected: Expectation) -> Iterator[Fault]:
    spec, (low, high) = scaler.body["spec"], _FIELDS[scaler.kind]
    least, most, replicas = spec[low], spec[high], item.workload.replicas
    if least > replicas:
        yield scaler.fault(f"spec.{low}", f"must be at most the plan's {replicas} copies", least)
    if most < replicas:
        yield scaler.fault(f"spec.{high}", f"must be at least the plan's {replicas} copies", most)
    island = expected.serving.get(item.island.id)
    if island is None or expected.planned is None:
        return
    bounds = copy_bounds(expected.planned, island)
    if least < bounds.least:
        yield scaler.fault(f"spec.{low}", f"must be at least {bounds.least}, which demand and losses need", least)
    if most > bounds.most:
        yield scaler.fault(f"spec.{high}", f"must be at most {bounds.most}, which the inventory has GPUs for", most)
    fallback = spec.get("fallback", {}).get("replicas", replicas)
    if not least <= fallback <= most:
        yield scaler.fault("spec.fallback.replicas", f"must be within {least} to {most}", fallback)


def _metric_faults(scaler: Manifest, name: str) -> Iterator[Fault]:
    """The wanted number of copies must be that of the object that is scaled."""
    spec = scaler.body["spec"]
    for index, row in enumerate(spec.get("metrics", ())):
        metric = row["external"]["metric"]
        variant = metric.get("selector", {}).get("matchLabels", {}).get("variant_name")
        if metric["name"] == METRIC and variant != name:
            where = f"spec.metrics.{index}.external.metric.selector.matchLabels.variant_name"
            yield scaler.fault(where, f"must be {name}, which is scaled", variant)
    for index, trigger in enumerate(spec.get("triggers", ())):
        query = trigger["metadata"]["query"]
        if METRIC in query and f'variant_name="{name}"' not in query:
            where = f"spec.triggers.{index}.metadata.query"
            yield scaler.fault(where, f"must ask for variant {name}, which is scaled", query)
