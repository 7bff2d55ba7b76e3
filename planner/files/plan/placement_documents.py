"""A plan's placement as a document, and the way back."""

from collections.abc import Iterator
from math import isclose

from planner.domain import (
    PlacedPart,
    Placement,
)
from planner.domain.cluster import HIGHEST_CORE
from planner.files.cluster.id_ranges import read_ranges
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
            yield f"placement_report.evictions.{key}: must be {value}, that of the victims, got {sums[key]}"
    lost = sum(row["lost_gpu_hours"] or 0.0 for row in victims)
    if not isclose(sums["lost_gpu_hours"], lost, rel_tol=1e-9, abs_tol=1e-9):
        came = sums["lost_gpu_hours"]
        yield f"placement_report.evictions.lost_gpu_hours: must be {lost:g}, the victims' sum, got {came:g}"
