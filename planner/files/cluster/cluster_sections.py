"""Reading a cluster document strictly. Nodes of one shape share its records."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.domain import (
    CORE_GROUP_SIZE,
    SWITCH_LEVELS,
    Cluster,
    ClusterNode,
    DisruptionBudget,
    Nic,
    NodeGpu,
    NumaNode,
    Pod,
    Taint,
    require_sound,
)
from planner.domain.cluster import HIGHEST_CORE, HIGHEST_GPU, HIGHEST_NUMA, MOST_CPUS, MOST_GB
from planner.errors import InputError
from planner.files.cluster.cluster_documents import default_uuid
from planner.files.cluster.quick_rows import QuickReader
from planner.files.disk.names import canonical
from planner.files.disk.values import read_ranges
from planner.files.models.gpu_specs import gpu_spec_files
from planner.files.records import read_record
from planner.files.sections import Section, UnusualRowError, is_printable, nearest_hint

_LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_NODE_KEYS = ("name", "shape", "asw", "aggregation", "nvlink_domain", "uuids", "labels", "taints")
_QUICK_KEYS = frozenset(_NODE_KEYS) - {"taints"}
_SHAPE_KEYS = ("gpu", "gpu_indices", "gpu_numa", "gpus_per_numa", "numa_nodes", "cpus", "memory_gb", "nics", "offers")
MOST_OFFERED = 10_000

Labels = tuple[tuple[str, str], ...]


def cluster_from_section(section: Section) -> Cluster:
    """The cluster that a document describes. InputError where a key is wrong, or two objects contradict each other."""
    section.allow_only("name", "core_group_size", "notes", "shapes", "nodes", "pods", "disruption_budgets", "levels")
    ids = _Ids()
    shapes = _shapes(section.section("shapes"), ids)
    cluster = Cluster(
        name=section.name("name"),
        nodes=section.items_of("nodes", lambda row: _node(row, shapes), _QuickNodes(shapes).read),
        pods=section.items_of("pods", lambda row: _pod(row, ids), _quick_pods(ids).read) if "pods" in section else (),
        core_group_size=section.integer("core_group_size", default=CORE_GROUP_SIZE, low=1, high=HIGHEST_CORE),
        notes=section.texts("notes") if "notes" in section else (),
        disruption_budgets=_budgets(section),
        levels=_levels(section),
    )
    if not cluster.nodes:
        raise section.fault("nodes", "at least one node")
    require_sound(cluster, f"{section.file}: {section.path}" if section.path else section.file)
    return cluster


def _budgets(section: Section) -> tuple[DisruptionBudget, ...]:
    rows = section.sections("disruption_budgets") if "disruption_budgets" in section else ()
    return tuple(read_record(DisruptionBudget, row) for row in rows)


def _levels(section: Section) -> tuple[tuple[str, str], ...]:
    """Node labels of switch levels."""
    labels = section.section("levels", optional=True)
    labels.allow_only(*SWITCH_LEVELS)
    return tuple((level, labels.printable(level)) for level in SWITCH_LEVELS if level in labels)


class _Ids:
    """Ids given as ranges or as a list; equal ones are one tuple, which is known by its text."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._ranges: dict[tuple[str, int], tuple[int, ...]] = {}

    def read(self, section: Section, key: str, highest: int) -> tuple[int, ...]:
        """The ids under `key` (none where it is missing), each of 0..`highest`."""
        if key not in section:
            return ()
        ids = whole_numbers(section, key, highest) if section.holds_list(key) else self._of_text(section, key, highest)
        return self._known.setdefault(ids, ids)

    def quick(self, value: object, highest: int) -> tuple[int, ...]:
        """The ids of a value that `read` would take. Raises UnusualRowError where it might not."""
        if isinstance(value, str):
            if (value, highest) not in self._ranges:
                try:
                    self._ranges[value, highest] = read_ranges(value, highest)
                except ValueError:
                    raise UnusualRowError("a value") from None
            ids = self._ranges[value, highest]
        elif type(value) is list and set(map(type, value)) <= {int} and min(value, default=0) >= 0:
            ids = tuple(value)
            if max(ids, default=0) > highest:
                raise UnusualRowError("a value")
        else:
            raise UnusualRowError("a value")
        return self._known.setdefault(ids, ids)

    def _of_text(self, section: Section, key: str, highest: int) -> tuple[int, ...]:
        rule = f"a list of ids, or ranges such as '0-7,16' in quotes, of 0 to {highest}"
        if section.holds_number(key):
            raise section.fault(key, rule, hint="For a single id write it in brackets.")
        text = section.text(key)
        if (text, highest) not in self._ranges:
            try:
                self._ranges[text, highest] = read_ranges(text, highest)
            except ValueError as error:
                raise section.fault(key, f"{rule} ({error})") from None
        return self._ranges[text, highest]


def whole_numbers(section: Section, key: str, highest: int) -> tuple[int, ...]:
    """A list of whole numbers of 0 to `highest`, in its order."""
    values = section.entries(key)
    for value in values:
        if type(value) is not int or not 0 <= value <= highest:
            raise section.fault(
                key, f"a list of whole numbers of 0 to {highest}", hint=f"Correct {str(value)[:40]!r} in it."
            )
    return tuple(value for value in values if isinstance(value, int))


def _shapes(section: Section, ids: _Ids) -> dict[str, ClusterNode]:
    """Nodes that bear no names yet, nor their GPUs: what those of a shape have in common."""
    return {name: _shape(section.section(name), ids) for name in section}


def _shape(section: Section, ids: _Ids) -> ClusterNode:
    section.allow_only(*_SHAPE_KEYS, "labels", "taints")
    numa_nodes = tuple(_numa_node(row, place, ids) for place, row in enumerate(section.sections("numa_nodes")))
    gpus = _gpus(section, numa_nodes, ids)
    return ClusterNode(
        name="",
        asw="",
        gpu=canonical(section.name("gpu"), gpu_spec_files()) if gpus or "gpu" in section else "",
        gpus=gpus,
        numa_nodes=numa_nodes,
        cpus=section.number("cpus", low=0, high=MOST_CPUS),
        memory_gb=section.number("memory_gb", low=0, high=MOST_GB),
        nics=tuple(read_record(Nic, row) for row in section.sections("nics")) if "nics" in section else (),
        labels=read_node_labels(section, "labels"),
        taints=read_taints(section, "taints"),
        offers=_offers(section),
    )


def _offers(section: Section) -> tuple[tuple[str, int], ...]:
    """Parts of GPUs by resource name; none where they are missing."""
    resources = section.section("offers", optional=True)
    for name in resources:
        if not _LABEL_KEY.fullmatch(name):
            raise resources.fault(name, "under a valid resource name: prefix/name", hint="Correct the key.")
    return tuple((name, resources.integer(name, low=0, high=MOST_OFFERED)) for name in resources)


def _numa_node(row: Section, place: int, ids: _Ids) -> NumaNode:
    return read_record(
        NumaNode,
        row,
        id=lambda row: row.integer("id", default=place, low=0, high=HIGHEST_NUMA),
        cores=lambda row: ids.read(row, "cores", HIGHEST_CORE),
    )


def _gpus(section: Section, numa_nodes: tuple[NumaNode, ...], ids: _Ids) -> tuple[NodeGpu, ...]:
    """Index and NUMA node of each GPU, without a name."""
    if "gpus_per_numa" in section:
        if "gpu_numa" in section:
            raise section.fault("gpus_per_numa", "left out where gpu_numa is given", hint="Keep one of the two.")
        each = section.integer("gpus_per_numa", low=0, high=HIGHEST_GPU)
        numas = tuple(numa.id for numa in numa_nodes for _ in range(each))
    else:
        numas = whole_numbers(section, "gpu_numa", HIGHEST_NUMA) if "gpu_numa" in section else ()
    indices = ids.read(section, "gpu_indices", HIGHEST_GPU) if "gpu_indices" in section else tuple(range(len(numas)))
    if len(indices) != len(numas):
        raise section.fault("gpu_indices", f"{len(numas)} indices, one a GPU")
    return tuple(NodeGpu(index=index, uuid="", numa=numa) for index, numa in zip(indices, numas, strict=True))


class _QuickNodes:
    """Nodes of plain names; the labels of many alike are looked at once."""

    def __init__(self, shapes: Mapping[str, ClusterNode]) -> None:
        self._shapes = shapes
        self._labels: dict[tuple[object, ...], Labels] = {}

    def read(self, row: Mapping[str, Any]) -> ClusterNode:
        """The node. Raises UnusualRowError where it has to be looked at."""
        name, word, asw = row.get("name"), row.get("shape"), row.get("asw")
        shape = self._shapes.get(word) if type(word) is str else None
        aggregation, domain = row.get("aggregation", ""), row.get("nvlink_domain", "")
        names = (name, *(switch for switch in (asw, aggregation, domain) if switch != ""))
        if shape is None or not row.keys() <= _QUICK_KEYS or not _are_names(names):
            raise UnusualRowError("a value")
        uuids = row.get("uuids")
        if "uuids" in row and (type(uuids) is not list or len(uuids) != len(shape.gpus) or not _are_names(uuids)):
            raise UnusualRowError("a value")
        return replace(
            shape,
            name=str(name),
            gpus=_named_gpus(str(name), shape, uuids),
            asw=str(asw),
            aggregation=aggregation,
            nvlink_domain=domain,
            labels=self._overlaid(str(word), shape, row["labels"]) if "labels" in row else shape.labels,
        )

    def _overlaid(self, word: str, shape: ClusterNode, labels: object) -> Labels:
        if type(labels) is not dict:
            raise UnusualRowError("a value")
        try:
            key = (word, *labels.items())
            if key not in self._labels:
                self._labels[key] = _overlaid(shape.labels, Section({"labels": labels}, file=""))
        except (InputError, TypeError):
            raise UnusualRowError("a value") from None
        return self._labels[key]


def _are_names(values: Iterable[object]) -> bool:
    return all(type(value) is str and is_printable(value) for value in values)


def _node(row: Section, shapes: dict[str, ClusterNode]) -> ClusterNode:
    row.allow_only(*_NODE_KEYS)
    name, word = row.printable("name"), row.text("shape")
    shape = shapes.get(word)
    if shape is None:
        raise row.fault("shape", "one of shapes", hint=nearest_hint(word, shapes, noun="shapes"))
    uuids = row.texts("uuids") if "uuids" in row else None
    if uuids is not None and (len(uuids) != len(shape.gpus) or not all(map(is_printable, uuids))):
        raise row.fault("uuids", f"a list of {len(shape.gpus)} texts, one a GPU of its shape")
    return replace(
        shape,
        name=name,
        gpus=_named_gpus(name, shape, uuids),
        asw=row.printable("asw", empty=True),
        aggregation=row.printable("aggregation", empty=True) if "aggregation" in row else "",
        nvlink_domain=row.printable("nvlink_domain", empty=True) if "nvlink_domain" in row else "",
        labels=_overlaid(shape.labels, row) if "labels" in row else shape.labels,
        taints=shape.taints + read_taints(row, "taints") if "taints" in row else shape.taints,
    )


def _named_gpus(node: str, shape: ClusterNode, uuids: Sequence[str] | None) -> tuple[NodeGpu, ...]:
    """The shape's GPUs as a node has them; None: nobody named them."""
    names = uuids if uuids is not None else [default_uuid(node, gpu.index) for gpu in shape.gpus]
    return tuple(
        NodeGpu(index=gpu.index, uuid=uuid, numa=gpu.numa) for gpu, uuid in zip(shape.gpus, names, strict=True)
    )


def _overlaid(labels: Labels, row: Section) -> Labels:
    """The shape's labels with the node's own over them."""
    return tuple({**dict(labels), **dict(read_node_labels(row, "labels"))}.items())


def read_node_labels(section: Section, key: str) -> Labels:
    """Labels as a node may bear them (values may be empty), in the order of the mapping; none where it is missing."""
    if key not in section:
        return ()
    labels = section.section(key)
    for label in labels:
        if not _LABEL_KEY.fullmatch(label):
            raise labels.fault(label, "under a valid label key: [prefix/]name", hint="Correct the key.")
        if not _LABEL_VALUE.fullmatch(labels.text(label)):
            raise labels.fault(label, "a label value: at most 63 letters, digits, '-', '_' or '.'")
    return tuple((label, labels.text(label)) for label in labels)


def read_taints(section: Section, key: str) -> tuple[Taint, ...]:
    """Taints of a node, or those that are tolerated; none where the key is missing."""
    if key not in section:
        return ()
    return tuple(_taint(row) for row in section.sections(key))


def _taint(row: Section) -> Taint:
    taint = read_record(Taint, row)
    if not _LABEL_KEY.fullmatch(taint.key):
        raise row.fault("key", "a valid label key: [prefix/]name")
    if not _LABEL_VALUE.fullmatch(taint.value):
        raise row.fault("value", "a label value: at most 63 letters, digits, '-', '_' or '.'")
    return taint


def _pod(row: Section, ids: _Ids) -> Pod:
    return read_record(
        Pod,
        row,
        gpus=lambda row: ids.read(row, "gpus", HIGHEST_GPU),
        cores=lambda row: ids.read(row, "cores", HIGHEST_CORE),
        node_selector=lambda row: read_node_labels(row, "node_selector"),
    )


def _quick_pods(ids: _Ids) -> QuickReader[Pod]:
    return QuickReader(
        Pod, gpus=lambda value: ids.quick(value, HIGHEST_GPU), cores=lambda value: ids.quick(value, HIGHEST_CORE)
    )
