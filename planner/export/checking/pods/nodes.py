"""Topology objects of nodes: amounts that can be, and the nodes, GPUs and NUMA nodes that the plan's cluster has."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import ClusterNode
from planner.export.checking.expectation import Expectation
from planner.export.found import Fault, Manifest
from planner.export.objects.documents import whole_number
from planner.export.objects.node_objects import FLEXTOPO_KIND, TOPOLOGY_KIND, ZONE
from planner.export.objects.pods import GPU_RESOURCES

_AMOUNTS = ("capacity", "allocatable", "available")


def node_faults(manifests: Sequence[Manifest], expected: Expectation) -> Iterator[Fault]:
    """What is wrong with the topology objects among `manifests`; nothing where there is none."""
    for manifest in manifests:
        if manifest.kind not in (TOPOLOGY_KIND, FLEXTOPO_KIND):
            continue
        if manifest.kind == TOPOLOGY_KIND:
            yield from _amount_faults(manifest)
        node = expected.nodes.get(manifest.name)
        if expected.plan is not None and node is None:
            yield manifest.fault("metadata.name", "must be a node of the plan's cluster", manifest.name)
        if node is not None:
            yield from _gpu_faults(manifest, node)


def _amount_faults(manifest: Manifest) -> Iterator[Fault]:
    for number, zone in enumerate(manifest.body["zones"]):
        for index, row in enumerate(zone["resources"]):
            amounts = [_thousandths(row[key]) for key in _AMOUNTS]
            for at in (1, 2):
                if amounts[at] > amounts[at - 1]:
                    where = f"zones.{number}.resources.{index}.{_AMOUNTS[at]}"
                    rule = f"must be at most the {_AMOUNTS[at - 1]} of {row[_AMOUNTS[at - 1]]}"
                    yield manifest.fault(where, rule, row[_AMOUNTS[at]])


def _thousandths(value: int | str) -> int:
    """Whole numbers, or thousandths as `1500m`: the forms that the schema lets in."""
    text = str(value)
    return whole_number(text.removesuffix("m")) * (1 if text.endswith("m") else 1000)


def _gpu_faults(manifest: Manifest, node: ClusterNode) -> Iterator[Fault]:
    """GPUs by NUMA node, or in all where the object does not say."""
    if manifest.kind == FLEXTOPO_KIND:
        gpus = sum(1 for vertex in manifest.body["spec"]["nodes"] if vertex["type"] == "GPU")
        if gpus != len(node.gpus):
            yield manifest.fault("spec.nodes", f"must hold the {len(node.gpus)} GPUs of the node", gpus)
        return
    there = Counter(f"{ZONE}{gpu.numa}" for gpu in node.gpus)
    zones = {zone["name"]: (number, zone) for number, zone in enumerate(manifest.body["zones"])}
    for name, (number, zone) in zones.items():
        if (gpus := _gpus(zone)) != there[name]:
            yield manifest.fault(f"zones.{number}.resources", f"must hold the {there[name]} GPUs of {name}", gpus)
    for name in sorted(there.keys() - zones.keys()):
        yield manifest.fault("zones", f"must hold {name} of the node", ", ".join(zones) or "none")


def _gpus(zone: Mapping[str, Any]) -> int:
    rows = [row["capacity"] for row in zone["resources"] if row["name"] in GPU_RESOURCES.values()]
    return sum(_thousandths(row) for row in rows) // 1000
