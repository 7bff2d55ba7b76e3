"""FlexTopo custom resources in files, of either dialect, and back to YAML."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from planner.domain import FlexTopo, TopologyEdge, Vertex
from planner.files.disk.folders import write_folder
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, items_below, read_objects
from planner.files.sections import Section

KIND = "FlexTopo"
API_GROUP = "flextopo.baichuan-inc.com"
API_VERSION = f"{API_GROUP}/v1alpha1"
_VERTEX_WORDS = {
    "Socket": "Socket",
    "NUMANode": "NUMANode",
    "NUMA Node": "NUMANode",
    "CoreGroup": "CoreGroup",
    "CPU CoreGroup": "CoreGroup",
    "CPUCore": "CPUCore",
    "CPU Core": "CPUCore",
    "GPU": "GPU",
    "GPU Device": "GPU",
}
"""The published agent's words and those of the paper's table 2."""


def read_flextopos(path: Path) -> tuple[tuple[str, FlexTopo], ...]:
    """The objects of a file, each with the place that names it in errors."""
    return tuple((item.body.file, flextopo_of(item)) for item in read_objects(path, (KIND,)))


def flextopo_of(item: KubernetesObject) -> FlexTopo:
    """An object's graph. Raises InputError where a field is not what it must be."""
    if not item.body.text("apiVersion").startswith(f"{API_GROUP}/"):
        raise item.body.fault("apiVersion", f"of the group {API_GROUP}")
    spec = item.body.section("spec")
    return FlexTopo(
        node=item.name,
        vertices=tuple(_vertex(entry) for entry in spec.sections("nodes")),
        edges=tuple(
            TopologyEdge(source=entry.text("source"), target=entry.text("target"), kind=entry.text("type").lower())
            for entry in items_below(spec, "edges")
        ),
    )


def _vertex(entry: Section) -> Vertex:
    attributes = entry.section("attributes", optional=True)
    word = entry.text("type")
    return Vertex(
        id=entry.text("id"),
        kind=_VERTEX_WORDS.get(word, word),
        attributes=tuple((key, _plain(attributes, key)) for key in sorted(attributes)),
    )


def _plain(attributes: Section, key: str) -> str | int | float | bool | None:
    if attributes.is_empty(key):
        return None
    if attributes.holds_section(key) or attributes.holds_list(key):
        raise attributes.fault(key, "a text, a number, true or false")
    if attributes.holds_number(key):
        value = attributes.number(key)
        return int(value) if value == int(value) else value
    return attributes.text(key)


def flextopo_document(topo: FlexTopo) -> dict[str, object]:
    """The custom resource as a mapping."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": topo.node},
        "spec": {
            "nodes": [{"id": v.id, "type": v.kind, "attributes": dict(v.attributes)} for v in topo.vertices],
            "edges": [{"source": e.source, "target": e.target, "type": e.kind} for e in topo.edges],
        },
    }


def write_flextopos(topos: Sequence[FlexTopo], folder: Path, *, force: bool = False) -> None:
    """One file NODE.yaml an object, all or none; an earlier result only with `force`."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # three times as fast, the same bytes
    files = {
        f"{topo.node}.yaml": yaml.dump(flextopo_document(topo), sort_keys=False, Dumper=dumper).encode()
        for topo in topos
    }
    write_folder(folder, files, force=force)
