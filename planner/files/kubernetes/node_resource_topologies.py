"""NodeResourceTopology objects (`topology.node.k8s.io`, v1alpha1 and v1alpha2): what lies in each NUMA node.

They count GPUs, cores and memory per zone, but name neither GPU indices nor core ids.
"""

import re
from pathlib import Path

from planner.domain import NumaNode
from planner.domain.node_report import NodeReport
from planner.errors import InputError
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, count, items_below, quantity, read_objects
from planner.files.sections import Section
from planner.units import GB

KIND = "NodeResourceTopology"
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_GROUP = "topology.node.k8s.io/"
_ZONE = re.compile(r"node-(0|[1-9][0-9]{0,3})")
_TRAILING_NUMBER = re.compile(r"(0|[1-9][0-9]{0,3})$")


def read_node_resource_topologies(path: Path) -> tuple[NodeReport, ...]:
    """What the objects of a file say, one report a node."""
    return tuple(report_of(item) for item in read_objects(path, (KIND,)))


def report_of(item: KubernetesObject) -> NodeReport:
    """What an object says of its node. Raises InputError where a field is not what it must be."""
    body = item.body
    if not body.text("apiVersion").startswith(_GROUP):
        raise body.fault("apiVersion", f"of the group {_GROUP.rstrip('/')}")
    all_zones = body.sections("zones")
    zones = [zone for zone in all_zones if zone.text("type") == "Node"]
    if not zones:
        raise body.fault("zones", "a list with at least one zone of type Node")
    _refuse_dangling(all_zones)
    numbers = [_number(zone) for zone in zones]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"{body.file}: zones: names must differ.", hint="Remove the zone that is given twice.")
    amounts = [_resources(zone) for zone in zones]
    gpus, memory = _total(amounts, "gpu"), _total(amounts, "memory")
    return NodeReport(
        node=item.name,
        origin=body.file,
        gpu_count=None if gpus is None else int(gpus),
        gpus_per_numa=tuple(
            (n, int(h.get("gpu", 0))) for n, h in sorted(zip(numbers, amounts, strict=True), key=_first)
        ),
        numa_nodes=tuple(
            NumaNode(id=n, socket=_socket(zone, n), memory_gb=h.get("memory", 0.0) / GB)
            for n, zone, h in sorted(zip(numbers, zones, amounts, strict=True), key=_first)
        ),
        sockets_known=all("parent" in zone for zone in zones),
        cpus=_total(amounts, "cpu"),
        memory_gb=None if memory is None else memory / GB,
    )


def _total(amounts: list[dict[str, float]], name: str) -> float | None:
    return sum(h.get(name, 0.0) for h in amounts) if any(name in h for h in amounts) else None


def _first(row: tuple[object, ...]) -> int:
    assert isinstance(row[0], int)
    return row[0]


def _number(zone: Section) -> int:
    match = _ZONE.fullmatch(zone.text("name"))
    if match is None:
        raise zone.fault("name", "node-<NUMA id> for a zone of type Node")
    return int(match[1])


def _refuse_dangling(zones: tuple[Section, ...]) -> None:
    names = {zone.text("name") for zone in zones}
    for zone in zones:
        for cost in items_below(zone, "costs"):
            if cost.text("name") not in names:
                raise cost.fault("name", f"one of the zones ({', '.join(sorted(names))})")
        if "parent" in zone and zone.text("parent") == zone.text("name"):
            raise zone.fault("parent", "another zone than itself")


def _socket(zone: Section, numa: int) -> int:
    """The number of the parent zone; without one, the NUMA node is taken for a socket of its own."""
    if "parent" not in zone:
        return numa
    match = _TRAILING_NUMBER.search(zone.text("parent"))
    if match is None:
        raise zone.fault("parent", "the name of a socket that ends in its number")
    return int(match[1])


def _resources(zone: Section) -> dict[str, float]:
    """Allocatable cores and bytes, and all GPUs, of a zone; what it does not list is not there."""
    amounts: dict[str, float] = {}
    for resource in items_below(zone, "resources"):
        name = resource.text("name")
        if name in GPU_RESOURCES:
            amounts["gpu"] = amounts.get("gpu", 0.0) + count(resource, "capacity")
        elif name in ("cpu", "memory"):
            amounts[name] = amounts.get(name, 0.0) + quantity(resource, "allocatable")
        if name in (*GPU_RESOURCES, "cpu", "memory"):
            _refuse_excess(resource)
    return amounts


def _refuse_excess(resource: Section) -> None:
    if quantity(resource, "available") > quantity(resource, "capacity"):
        raise resource.fault("available", "at most the capacity")
