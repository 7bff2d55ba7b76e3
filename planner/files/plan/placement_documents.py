"""A plan's placement as a document, the way back, and what a schema cannot say about it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from math import isclose
from typing import Any

from planner.domain import (
    Alignment,
    Cluster,
    ClusterNode,
    ClusterState,
    FragmentShare,
    IslandSite,
    PlacedPart,
    Placement,
    ScorePart,
    Shortfall,
    Victim,
)
from planner.files.cluster.cluster_sections import HIGHEST_CORE
from planner.files.id_ranges import ranges_text, read_ranges

Document = dict[str, Any]


def placement_document(placement: Placement | None) -> Document:
    """The rows of a plan's `placement` and what there is to tell of them, each under its key; nothing for a plan that
    is on no nodes."""
    if placement is None:
        return {}
    return {
        "placement": [_part_row(part) for part in placement.parts],
        "placement_report": {
            "cluster": placement.cluster,
            "placed_rps": placement.placed_rps,
            "unplaced_rps": placement.unplaced_rps,
            **({} if placement.judged_rps is None else {"judged_rps": placement.judged_rps}),
            **({"evictions": _evictions_document(placement)} if placement.victims else {}),
            "score": placement.score,
            "terms": [asdict(term) for term in placement.terms],
            "sites": [_site_row(site) for site in placement.sites],
            "shortfalls": [{**asdict(one), "remedies": list(one.remedies)} for one in placement.shortfalls],
            "victims": [asdict(victim) for victim in placement.victims],
            "before": _state_document(placement.before),
            "after": _state_document(placement.after),
        },
    }


def _evictions_document(placement: Placement) -> Document:
    """Sums over the victims; those of unknown checkpoints are counted, not added."""
    return {
        "victims": len(placement.victims),
        "gpus": sum(victim.gpus for victim in placement.victims),
        "lost_gpu_hours": placement.lost_gpu_hours,
        "unknown_lost_work": sum(victim.lost_gpu_hours is None for victim in placement.victims),
    }


def _part_row(part: PlacedPart) -> Document:
    return {
        "island": part.island,
        "replica": part.replica,
        "node": part.node,
        "gpu_indices": list(part.gpu_indices),
        "numa_nodes": list(part.numa_nodes),
        "asw": part.asw,
        "tp": part.tp,
        "cores": ranges_text(part.cores),
        "nics": list(part.nics),
    }


def _site_row(site: IslandSite) -> Document:
    return {
        "island": site.island,
        "gpus": site.gpus,
        "nodes": site.nodes,
        "switches": [[asw, gpus] for asw, gpus in site.switches],
        "entropy": site.entropy,
        "aligned": site.aligned,
        "worst": site.worst.value,
        "crossing_replicas": site.crossing_replicas,
        **({} if site.waits_for is None else {"waits_for": list(site.waits_for)}),
    }


def _state_document(state: ClusterState) -> Document:
    return {
        "gpus": state.gpus,
        "allocated": state.allocated,
        "idle": state.idle,
        "headroom_gpus": state.headroom_gpus,
        "watts": state.watts,
        "empty_nodes": state.empty_nodes,
        "fragments": [asdict(share) for share in state.fragments],
    }


def read_placement(plan: Document) -> Placement | None:
    """The placement of a plan's document that keeps to the schema and has no contradictions."""
    if "placement" not in plan:
        return None
    section = plan["placement_report"]
    return Placement(
        cluster=section["cluster"],
        parts=tuple(_read_part(row) for row in plan["placement"]),
        sites=tuple(_read_site(row) for row in section["sites"]),
        shortfalls=tuple(Shortfall(**{**row, "remedies": tuple(row["remedies"])}) for row in section["shortfalls"]),
        before=_read_state(section["before"]),
        after=_read_state(section["after"]),
        score=section["score"],
        terms=tuple(ScorePart(**row) for row in section["terms"]),
        victims=tuple(Victim(**row) for row in section["victims"]),
        unplaced_rps=section["unplaced_rps"],
        placed_rps=section["placed_rps"],
        judged_rps=section.get("judged_rps"),
    )


def _read_part(row: Document) -> PlacedPart:
    tuples = {key: tuple(row[key]) for key in ("gpu_indices", "numa_nodes", "nics")}
    return PlacedPart(**{**row, **tuples, "cores": read_ranges(row["cores"], HIGHEST_CORE)})


def _read_site(row: Document) -> IslandSite:
    switches = tuple((asw, gpus) for asw, gpus in row["switches"])
    waits_for = None if row.get("waits_for") is None else tuple(row["waits_for"])
    return IslandSite(**{**row, "switches": switches, "worst": Alignment(row["worst"]), "waits_for": waits_for})


def _read_state(section: Document) -> ClusterState:
    return ClusterState(**{**section, "fragments": tuple(FragmentShare(**row) for row in section["fragments"])})


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
