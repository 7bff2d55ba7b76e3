"""A cluster as a document, and as text: shapes that nodes share, one row a node, one row a pod.

    shapes:
      h200-8:
        gpu: H200
        gpu_numa: [0, 0, 0, 0, 1, 1, 1, 1]     or gpus_per_numa: 4
        numa_nodes:
        - {id: 0, socket: 0, cores: 0-47, memory_gb: 1000}
        - {id: 1, socket: 1, cores: 48-95, memory_gb: 1000}
        cpus: 92
        memory_gb: 1900
        nics: [{name: mlx5_0, numa: 0}]
    nodes:
    - {name: node-0, shape: h200-8, asw: asw-0, aggregation: pod-0}
    pods:
    - {name: web-0, node: node-0, gpus: [0, 1], cpus: 16, cores: 0-15, priority: 100, disruption_budget: web}
    disruption_budgets:
    - {name: web, allowed: 1}
    levels: {asw: example.com/rack}

What has its default is left out: a GPU's uuid is GPU-<node>-<index>, GPU indices count from 0. Labels and taints of a
shape hold for all its nodes. `cluster_sections` is the way back.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import yaml

from planner.domain import CORE_GROUP_SIZE, Cluster, ClusterNode, NumaNode, Pod, Taint
from planner.files.records import record_document

Row = dict[str, Any]
_Item = TypeVar("_Item")


def cluster_document(cluster: Cluster) -> Row:
    """The cluster as plain values, which `cluster_from_section` reads back as the same cluster."""
    groups, budgets = _alike(cluster.nodes), cluster.disruption_budgets
    shapes: dict[str, Row] = {}
    rows: dict[str, Row] = {}
    for nodes in groups:
        name = _shape_name(nodes[0], shapes)
        labels, taints = _beginning([node.labels for node in nodes]), _beginning([node.taints for node in nodes])
        shapes[name] = _shape_row(nodes[0], labels, taints)
        rows |= {node.name: _node_row(node, name, len(labels), len(taints)) for node in nodes}
    return {
        "name": cluster.name,
        **({"core_group_size": cluster.core_group_size} if cluster.core_group_size != CORE_GROUP_SIZE else {}),
        **({"notes": list(cluster.notes)} if cluster.notes else {}),
        **({"levels": dict(cluster.levels)} if cluster.levels else {}),
        "shapes": shapes,
        "nodes": [rows[node.name] for node in cluster.nodes],
        "pods": [_row(pod) for pod in cluster.pods],
        **({"disruption_budgets": list(map(record_document, budgets))} if budgets else {}),
    }


def default_uuid(node: str, index: int) -> str:
    """What a GPU is called whose UUID nobody gave."""
    return f"GPU-{node}-{index}"


def _alike(nodes: Iterable[ClusterNode]) -> list[list[ClusterNode]]:
    """Nodes of the same hardware together, each group where its first node stands."""
    groups: dict[object, list[ClusterNode]] = {}
    for node in nodes:
        gpus = tuple((gpu.index, gpu.numa) for gpu in node.gpus)
        key = (node.gpu, gpus, node.numa_nodes, node.cpus, node.memory_gb, node.nics, node.offers)
        groups.setdefault(key, []).append(node)
    return list(groups.values())


def _shape_name(node: ClusterNode, shapes: dict[str, Row]) -> str:
    stem = re.sub(r"[^a-z0-9.-]+", "-", node.gpu.lower()).strip("-.")[:40] if node.gpus else "cpu"
    stem = f"{stem or 'gpu'}-{len(node.gpus)}" if node.gpus else stem
    names = (stem, *(f"{stem}-{further}" for further in range(2, len(shapes) + 2)))
    return next(name for name in names if name not in shapes)


def _beginning(rows: Sequence[tuple[_Item, ...]]) -> tuple[_Item, ...]:
    """What all rows begin with."""
    shared = rows[0]
    for row in rows:
        length = next((at for at, (a, b) in enumerate(zip(shared, row, strict=False)) if a != b), len(row))
        shared = shared[:length]
    return shared


def _shape_row(node: ClusterNode, labels: tuple[tuple[str, str], ...], taints: tuple[Taint, ...]) -> Row:
    indices = [gpu.index for gpu in node.gpus]
    row: Row = {"gpu": node.gpu} if node.gpu else {}
    if indices != list(range(len(indices))):
        row["gpu_indices"] = indices
    if indices:
        row["gpu_numa"] = [gpu.numa for gpu in node.gpus]
    row["numa_nodes"] = [_row(numa) for numa in node.numa_nodes]
    row |= {"cpus": _number(node.cpus), "memory_gb": _number(node.memory_gb)}
    if node.nics:
        row["nics"] = [record_document(nic) for nic in node.nics]
    if node.offers:
        row["offers"] = dict(node.offers)
    return row | labels_and_taints(labels, taints)


def _node_row(node: ClusterNode, shape: str, labels: int, taints: int) -> Row:
    """`labels` and `taints`: how many of the first its shape has already."""
    row: Row = {"name": node.name, "shape": shape, "asw": node.asw}
    if node.aggregation:
        row["aggregation"] = node.aggregation
    if node.nvlink_domain:
        row["nvlink_domain"] = node.nvlink_domain
    if any(gpu.uuid != default_uuid(node.name, gpu.index) for gpu in node.gpus):
        row["uuids"] = [gpu.uuid for gpu in node.gpus]
    return row | labels_and_taints(node.labels[labels:], node.taints[taints:])


def labels_and_taints(labels: tuple[tuple[str, str], ...], taints: tuple[Taint, ...]) -> Row:
    """Both under their keys; what is empty is left out."""
    row: Row = {"labels": dict(labels)} if labels else {}
    return row | ({"taints": taint_rows(taints)} if taints else {})


def taint_rows(taints: Iterable[Taint]) -> list[Row]:
    """Taints or tolerations, a mapping each."""
    return [record_document(taint) for taint in taints]


def _row(record: NumaNode | Pod) -> Row:
    row = record_document(record)
    return {key: _number(value) if isinstance(value, float) else value for key, value in row.items()}


def _number(value: float) -> int | float:
    """Whole numbers without a point, where nothing is lost."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value


# what every YAML reads as the text that it is, but for the words below
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_RANGES = re.compile(r"[0-9]+-[0-9]+(,[0-9]+(-[0-9]+)?)*")


def cluster_yaml(document: Mapping[str, Any]) -> str:
    """The text of a cluster document; equal documents give equal texts."""
    lines: list[str] = []
    for key, value in document.items():
        if key == "shapes":
            lines += ["shapes:", *(line for name, shape in value.items() for line in _shape(name, shape))]
        elif isinstance(value, list):
            lines += [f"{key}:", *(f"- {_flow(row)}" for row in value)] if value else [f"{key}: []"]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _shape(name: str, shape: Mapping[str, Any]) -> list[str]:
    lines = [f"  {_flow(name)}:"]
    for key, value in shape.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"    {key}:", *(f"    - {_flow(row)}" for row in value)]
        else:
            lines.append(f"    {key}: {_flow(value)}")
    return lines


def _flow(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return json.dumps(value, allow_nan=False)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if _RANGES.fullmatch(text) and "," not in text and text.count("-") == 1 and len(text) < 10:
        return text  # 0-47: no number and no date
    if text.isascii() and text.isprintable():
        return json.dumps(text)
    quoted: str = yaml.dump(text, default_style='"', width=float("inf"), allow_unicode=False)
    return quoted.rstrip("\n")
