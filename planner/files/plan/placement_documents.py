"""A plan's placement as a document, and the way back."""

from collections.abc import Iterator
from dataclasses import asdict
from math import isclose
from typing import Any

from planner.domain import (
    Alignment,
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


def placement_misprints(plan: Document) -> Iterator[str]:
    """What is lost on the way to records: cores that are no ranges, sums that are not those of the victims."""
    for index, part in enumerate(plan.get("placement", ())):
        try:
            read_ranges(part["cores"], HIGHEST_CORE)
        except ValueError as error:
            yield f"placement.{index}.cores: must be ranges such as '0-7,16': {error}"
    if "placement" in plan and "evictions" in plan["placement_report"]:
        yield from _wrong_sums(plan["placement_report"]["evictions"], plan["placement_report"]["victims"])


def _wrong_sums(sums: Document, victims: list[Document]) -> Iterator[str]:
    due = {
        "victims": len(victims),
        "gpus": sum(row["gpus"] for row in victims),
        "unknown_lost_work": sum(row["lost_gpu_hours"] is None for row in victims),
    }
    for key, value in due.items():
        if sums[key] != value:
            yield f"placement_report.evictions.{key}: must be {value}, that of the victims, came {sums[key]}"
    lost = sum(row["lost_gpu_hours"] or 0.0 for row in victims)
    if not isclose(sums["lost_gpu_hours"], lost, rel_tol=1e-9, abs_tol=1e-9):
        came = sums["lost_gpu_hours"]
        yield f"placement_report.evictions.lost_gpu_hours: must be {lost:g}, the victims' sum, came {came:g}"
