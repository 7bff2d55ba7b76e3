"""Quotas of Kueue objects against the fleet: references, resources, and GPUs per type."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from planner.domain import DeployedPlan
from planner.export.found import Fault, Manifest
from planner.export.objects.documents import whole_number
from planner.export.objects.names import label_value
from planner.export.objects.pods import GPU_LABEL, GPU_RESOURCES
from planner.export.objects.quantities import amount
from planner.export.objects.scheduling import HOSTNAME

_LEAST = {"cpu": 1, "memory": 2**30}
_LEAST_TOLD = {"cpu": "1 CPU", "memory": "1Gi"}
"""The least that a pod's options may be for each GPU."""


def quota_faults(manifests: Sequence[Manifest], plan: DeployedPlan | None) -> Iterator[Fault]:
    """What is wrong with the ClusterQueues among `manifests` and what they refer to; nothing where there is none."""
    queues = _of_kind(manifests, "ClusterQueue")
    flavors = _of_kind(manifests, "ResourceFlavor")
    for flavor in flavors.values():
        yield from _flavor_faults(flavor, _of_kind(manifests, "Topology"))
    yield from _label_faults(list(flavors.values()))
    for topology in _of_kind(manifests, "Topology").values():
        yield from _level_faults(topology)
    for queue in queues.values():
        yield from _group_faults(queue, flavors)
        yield from _room_faults(queue)
    for local in _of_kind(manifests, "LocalQueue").values():
        backing = local.body["spec"]["clusterQueue"]
        if backing not in queues:
            yield local.fault("spec.clusterQueue", f"must be one of {', '.join(queues) or 'these files'}", backing)
    if plan is not None and (queues or flavors):
        yield from _fleet_faults(queues, flavors, plan)


def _of_kind(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    return {
        manifest.name: manifest
        for manifest in manifests
        if manifest.kind == kind and manifest.api_version.startswith("kueue.x-k8s.io/")
    }


def _flavor_faults(flavor: Manifest, topologies: Mapping[str, Manifest]) -> Iterator[Fault]:
    spec = flavor.body["spec"]
    topology = spec.get("topologyName")
    if topology is not None and topology not in topologies:
        yield flavor.fault("spec.topologyName", f"must be one of {', '.join(topologies) or 'none here'}", topology)
    if topology is not None and not spec.get("nodeLabels"):
        yield flavor.fault("spec.nodeLabels", "must hold a label where there is a topology", "none")


def _label_faults(flavors: Sequence[Manifest]) -> Iterator[Fault]:
    names: dict[tuple[tuple[str, str], ...], str] = {}
    for flavor in flavors:
        labels = tuple(sorted(flavor.body["spec"].get("nodeLabels", {}).items()))
        if labels in names:
            yield flavor.fault("spec.nodeLabels", f"must differ from those of {names[labels]}", dict(labels))
        names[labels] = flavor.name


def _level_faults(topology: Manifest) -> Iterator[Fault]:
    labels = [level["nodeLabel"] for level in topology.body["spec"]["levels"]]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            yield topology.fault(f"spec.levels.{index}.nodeLabel", "must be named once", label)
        if label == HOSTNAME and index + 1 < len(labels):
            yield topology.fault(f"spec.levels.{index}.nodeLabel", "must be the last level", label)


def _group_faults(queue: Manifest, flavors: Mapping[str, Manifest]) -> Iterator[Fault]:
    for number, group in enumerate(queue.body["spec"]["resourceGroups"]):
        covered = list(group["coveredResources"])
        for index, flavor in enumerate(group["flavors"]):
            where = f"spec.resourceGroups.{number}.flavors.{index}"
            if flavor["name"] not in flavors:
                yield queue.fault(f"{where}.name", "must be a ResourceFlavor of these files", flavor["name"])
            names = [resource["name"] for resource in flavor["resources"]]
            if names != covered:
                yield queue.fault(f"{where}.resources", f"must be {covered}, in this order", names)


def _room_faults(queue: Manifest) -> Iterator[Fault]:
    """Each GPU's pod takes a CPU and a GiB at the least, or the quota of GPUs admits nobody."""
    for number, group in enumerate(queue.body["spec"]["resourceGroups"]):
        for index, flavor in enumerate(group["flavors"]):
            quotas = {row["name"]: (at, row["nominalQuota"]) for at, row in enumerate(flavor["resources"])}
            gpus = sum(whole_number(quotas[name][1]) for name in GPU_RESOURCES.values() if name in quotas)
            for name, each in _LEAST.items():
                if name in quotas and (amount(quotas[name][1]) or 0) < gpus * each:
                    where = f"spec.resourceGroups.{number}.flavors.{index}.resources.{quotas[name][0]}.nominalQuota"
                    rule = f"must be at least {_LEAST_TOLD[name]} for each of {gpus} GPUs"
                    yield queue.fault(where, rule, quotas[name][1])


def _fleet_faults(
    queues: Mapping[str, Manifest], flavors: Mapping[str, Manifest], plan: DeployedPlan
) -> Iterator[Fault]:
    """GPUs of each type over all queues: those of the plan's fleet."""
    planned = {label_value(gpu): count for gpu, count in plan.inventory if count}
    quotas: Counter[str] = Counter()
    for queue in queues.values():
        for where, gpu, count in _gpu_quotas(queue, flavors):
            quotas[gpu] += count
            if quotas[gpu] > planned.get(gpu, 0):
                yield queue.fault(where, f"must be at most the {planned.get(gpu, 0)} GPUs of type {gpu}", count)
    missing = {gpu: count for gpu, count in planned.items() if quotas[gpu] < count}
    if missing:
        got = str({gpu: quotas[gpu] for gpu in missing})
        yield Fault(where="Manifests", expected=f"GPU quotas must be the fleet's {missing}", got=got)


def _gpu_quotas(queue: Manifest, flavors: Mapping[str, Manifest]) -> Iterator[tuple[str, str, int]]:
    """Field, GPU type and GPUs of each quota of GPUs that is not 0; a quota that is no whole number counts as 0."""
    for number, group in enumerate(queue.body["spec"]["resourceGroups"]):
        for index, flavor in enumerate(group["flavors"]):
            labels = flavors[flavor["name"]].labels if flavor["name"] in flavors else {}
            for position, resource in enumerate(flavor["resources"]):
                if resource["name"] in GPU_RESOURCES.values() and (count := whole_number(resource["nominalQuota"])):
                    where = f"spec.resourceGroups.{number}.flavors.{index}.resources.{position}.nominalQuota"
                    yield where, labels.get(GPU_LABEL, ""), count
