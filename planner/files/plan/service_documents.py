"""What a plan promises about waiting, in plan.json and back."""

from typing import Any

from planner.domain import IslandClass, Phase, Plan, RangeService, Service

Document = dict[str, Any]


def service_document(plan: Plan) -> Document:
    """The keys `service` and `exact_rps`; null where the plan has none."""
    document: Document = {"exact_rps": plan.exact_rps, "service": None}
    if plan.service is not None:
        found = plan.service
        document["service"] = {
            "goodput_rps": found.goodput_rps,
            "factor": found.factor,
            "percentile": found.percentile,
            "binding": _island(found.binding),
            "binding_phase": found.binding_phase.value if found.binding_phase else None,
            "ranges": [
                {
                    "phase": one.phase.value,
                    "start": one.start,
                    "end": one.end,
                    "bound_ms": one.bound_ms,
                    "mean_ms": one.mean_ms,
                    "percentile_ms": one.percentile_ms,
                    "island": _island(one.island),
                }
                for one in found.ranges
            ],
        }
    return document


def _island(island: IslandClass | None) -> list[object] | None:
    return None if island is None else [island.gpu, island.size]


def _read_island(row: list[Any] | None) -> IslandClass | None:
    return None if row is None else IslandClass(gpu=row[0], size=row[1])


def read_service(document: Document) -> Service | None:
    """The promise of a document; None where it makes none."""
    if document.get("service") is None:
        return None
    found = document["service"]
    return Service(
        goodput_rps=found["goodput_rps"],
        factor=found["factor"],
        percentile=found["percentile"],
        binding=_read_island(found["binding"]),
        binding_phase=Phase(found["binding_phase"]) if found["binding_phase"] else None,
        ranges=tuple(
            RangeService(
                phase=Phase(row["phase"]),
                start=row["start"],
                end=row["end"],
                bound_ms=row["bound_ms"],
                mean_ms=row["mean_ms"],
                percentile_ms=row["percentile_ms"],
                island=IslandClass(gpu=row["island"][0], size=row["island"][1]),
            )
            for row in found["ranges"]
        ),
    )
