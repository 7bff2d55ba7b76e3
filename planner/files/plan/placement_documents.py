"""A plan's placement as a document, the way back, and what a schema cannot say about it."""

from collections.abc import Iterator, Mapping
from math import isclose

from planner.domain import (
    Cluster,
    ClusterNode,
    PlacedPart,
    Placement,
)
from planner.domain.cluster import HIGHEST_CORE
from planner.files.id_ranges import read_ranges
from planner.files.records import Document, load_record, record_document


def placement_document(placement: Placement | None) -> Document:
    """The rows of a plan's `placement` and what there is to tell of them, each under its key; nothing for a plan that
    is on no nodes."""
    if placement is None:
        return {}
    report: Document = {}
    for key, value in record_document(placement).items():
        if key == "score" and placement.evictions is not None:
            report["evictions"] = record_document(placement.evictions)
        report[key] = value
    return {"placement": [record_document(part) for part in placement.parts], "placement_report": report}


def read_placement(plan: Document) -> Placement | None:
    """The placement of a plan's document that keeps to the schema and has no contradictions."""
    if "placement" not in plan:
        return None
    parts = tuple(load_record(PlacedPart, row) for row in plan["placement"])
    return load_record(Placement, plan["placement_report"], parts=parts)


def placement_contradictions(plan: Document, cluster: Cluster | None) -> Iterator[str]:
    """Islands and hardware that do not exist, GPUs given twice, islands in part; one sentence each.

    `cluster`: the scenario's (None: the hardware is not known).
    """
    if "placement" not in plan:
        return
    section = plan["placement_report"]
    yield from _wrong_islands(plan, section)
    yield from _wrong_parts(plan["placement"])
    if cluster is not None:
        yield from _wrong_hardware(plan, section, cluster)
    yield from _wrong_waits(plan["placement"], section)


def _wrong_islands(plan: Document, section: Document) -> Iterator[str]:
    sizes = {island["id"]: island["size"] for key in ("islands", "idle_islands") for island in plan[key]}
    tables = {"placement": plan["placement"]}
    tables |= {f"placement_report.{key}": section[key] for key in ("sites", "shortfalls", "victims")}
    for key, rows in tables.items():
        for index, row in enumerate(rows):
            if row["island"] not in sizes:
                yield f"{key}.{index}.island: must be an island of the plan, came {row['island']!r}"
                return
    placed: dict[str, int] = {}
    for part in plan["placement"]:
        placed[part["island"]] = placed.get(part["island"], 0) + len(part["gpu_indices"])
    for island, gpus in placed.items():
        if gpus != sizes[island]:
            yield f"placement: must hold all {sizes[island]} GPUs of {island}, came {gpus}"
    yield from _wrong_evictions(section)
    short = [row["island"] for row in section["shortfalls"] if row["island"] in placed]
    if short:
        yield f"placement_report.shortfalls: must not name an island that is placed, came {short[0]!r}"


def _wrong_evictions(section: Document) -> Iterator[str]:
    """Sums that are not those of the victims; an order that is none."""
    victims = section["victims"]
    orders = [row.get("order", 0) for row in victims]
    if any(orders) and sorted(orders) != list(range(1, len(orders) + 1)):
        yield f"placement_report.victims: order must count from 1 to {len(orders)}, each once, came {orders[:20]}"
    told = section.get("evictions")
    if told is None:
        return
    due = {
        "victims": len(victims),
        "gpus": sum(row["gpus"] for row in victims),
        "unknown_lost_work": sum(row["lost_gpu_hours"] is None for row in victims),
    }
    for key, value in due.items():
        if told[key] != value:
            yield f"placement_report.evictions.{key}: must be {value}, that of the victims, came {told[key]}"
    lost = sum(row["lost_gpu_hours"] or 0.0 for row in victims)
    if not isclose(told["lost_gpu_hours"], lost, rel_tol=1e-9, abs_tol=1e-9):
        came = told["lost_gpu_hours"]
        yield f"placement_report.evictions.lost_gpu_hours: must be {lost:g}, the victims' sum, came {came:g}"


def _wrong_waits(parts: list[Document], section: Document) -> Iterator[str]:
    """Islands that wait for others than victims on their nodes, or not for their own."""
    nodes = {(part["island"], part["node"]) for part in parts}
    orders = {row.get("order", 0): row for row in section["victims"]}
    for index, site in enumerate(section["sites"]):
        told, island = site.get("waits_for"), site["island"]
        if told is None:
            continue
        where = f"placement_report.sites.{index}.waits_for"
        if told != sorted(set(told)):
            yield f"{where}: must ascend, each order once, came {told[:20]}"
        for order in told:
            if order not in orders or (island, orders[order]["node"]) not in nodes:
                yield f"{where}: must be orders of victims on nodes of {island}, came {order}"
                break
        missing = [order for order, row in orders.items() if row["island"] == island and order not in told]
        if missing:
            yield f"{where}: must have the victims that go for {island}, {missing[0]} is not among them"


def _wrong_parts(parts: list[Document]) -> Iterator[str]:
    owners: dict[tuple[str, int], str] = {}
    for index, part in enumerate(parts):
        where = f"placement.{index}"
        if len(part["gpu_indices"]) % part["tp"]:
            yield f"{where}.gpu_indices: must be groups of {part['tp']}, came {len(part['gpu_indices'])} GPUs"
        for gpu in part["gpu_indices"]:
            if (part["node"], gpu) in owners:
                other = owners[part["node"], gpu]
                yield f"{where}.gpu_indices: GPU {gpu} of {part['node']} must be given once, {other} has it, too"
            owners[part["node"], gpu] = part["island"]
        try:
            read_ranges(part["cores"], HIGHEST_CORE)
        except ValueError as error:
            yield f"{where}.cores: must be ranges such as '0-7,16': {error}"


def _wrong_hardware(plan: Document, section: Document, cluster: Cluster) -> Iterator[str]:
    if section["cluster"] != cluster.name:
        yield f"placement_report.cluster: must be the scenario's, {cluster.name!r}, came {section['cluster']!r}"
    nodes = {node.name: node for node in cluster.nodes}
    types = {island["id"]: island["gpu"] for key in ("islands", "idle_islands") for island in plan[key]}
    for index, part in enumerate(plan["placement"]):
        node = nodes.get(part["node"])
        for what in _wrong_place(part, node, types):
            yield f"placement.{index}.{what}"
    pods = {pod.key for pod in cluster.pods} if section["victims"] else set()
    for index, victim in enumerate(section["victims"]):
        if victim["pod"] not in pods:
            yield f"placement_report.victims.{index}.pod: must be a pod of the cluster, came {victim['pod']!r}"


def _wrong_place(part: Document, node: ClusterNode | None, types: Mapping[str, str]) -> Iterator[str]:
    if node is None:
        yield f"node: must be a node of the cluster, came {part['node']!r}"
        return
    numas = {gpu.index: gpu.numa for gpu in node.gpus}
    missing = [gpu for gpu in part["gpu_indices"] if gpu not in numas]
    if missing:
        yield f"gpu_indices: must exist on {node.name}, came {missing[0]}"
    elif set(part["numa_nodes"]) != {numas[gpu] for gpu in part["gpu_indices"]}:
        yield f"numa_nodes: must be those of the GPUs on {node.name}, came {part['numa_nodes']}"
    if node.gpu != types.get(part["island"]):
        yield f"node: must have the island's GPU type, {types.get(part['island'])}, {node.name} has {node.gpu}"
    if node.asw != part["asw"]:
        yield f"asw: must be that of {node.name}, {node.asw!r}, came {part['asw']!r}"
