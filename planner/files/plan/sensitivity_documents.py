"""What would change a plan, as a section of plan.json, and back."""

from dataclasses import asdict
from typing import Any

from planner.domain import GpuWorth, Phase, PhaseWorth, RangeHeadroom, Sensitivity

Document = dict[str, Any]


def sensitivity_document(found: Sensitivity) -> Document:
    """The record as plain values, its fields as keys."""
    return asdict(found) | {
        "gpus": [asdict(one) for one in found.gpus],
        "phases": [asdict(one) for one in found.phases],
        "ranges": [asdict(one) for one in found.ranges],
    }


def read_sensitivity(document: Document) -> Sensitivity:
    """The record of a section that keeps to the schema."""
    return Sensitivity(
        **{
            **document,
            "binding": Phase(document["binding"]) if document["binding"] else None,
            "gpus": tuple(GpuWorth(**row) for row in document["gpus"]),
            "phases": tuple(PhaseWorth(**_with_phase(row)) for row in document["phases"]),
            "ranges": tuple(RangeHeadroom(**_with_phase(row)) for row in document["ranges"]),
        }
    )


def _with_phase(row: Document) -> Document:
    return {**row, "phase": Phase(row["phase"])}
