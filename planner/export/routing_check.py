"""Checks of the routing table as written: every range in both phases, shares that sum to 1, Services that
exist."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planner.domain import Phase, Plan
from planner.errors import InconsistentPlanError
from planner.export.routing import ROUTING_KEY
from planner.export.structure import Manifest

_SHARE_TOLERANCE = 1e-6
_SET_LABEL = "leaderworkerset.sigs.k8s.io/name"
_FIELD = f"data[{ROUTING_KEY}]"


def check_routing(manifests: Sequence[Manifest], plan: Plan) -> None:
    """Hold the ConfigMap's table against the plan's ranges and the Services.

    Raises:
        InconsistentPlanError: naming file, object and field.
    """
    phases = _service_phases(manifests)
    tables = [m for m in manifests if m.kind == "ConfigMap"]
    if len(tables) != 1:
        raise InconsistentPlanError(f"Manifests: must hold exactly one routing table, got {len(tables)} ConfigMaps.")
    rows = _rows(tables[0])
    if not rows:
        raise tables[0].fault(_FIELD, "must route a range", "no rows")
    _check_services(tables[0], rows, phases)
    _check_shares(tables[0], rows, {(r.range_start, r.range_end) for r in plan.routing})


def _service_phases(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Service -> phase of the workload that it selects."""
    workloads = {m.name: m.labels.get("planner/phase", "") for m in manifests if m.kind == "LeaderWorkerSet"}
    phases = {}
    for manifest in manifests:
        if manifest.kind == "Service":
            selected = manifest.body["spec"]["selector"][_SET_LABEL]
            if selected not in workloads:
                raise manifest.fault(
                    f"spec.selector.{_SET_LABEL}", "must name a LeaderWorkerSet of these files", selected
                )
            phases[manifest.name] = workloads[selected]
    return phases


def _rows(manifest: Manifest) -> list[dict[str, Any]]:
    try:
        rows = json.loads(manifest.body["data"][ROUTING_KEY])["routes"]
        return [
            {
                "phase": Phase(row["phase"]),
                "range": (int(row["range_start"]), int(row["range_end"])),
                "service": str(row["service"]),
                "share": float(row["share"]),
            }
            for row in rows
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise manifest.fault(_FIELD, "must hold JSON rows of phase, range, service and share", error) from error


def _check_services(manifest: Manifest, rows: Sequence[Mapping[str, Any]], phases: Mapping[str, str]) -> None:
    for row in rows:
        if phases.get(row["service"]) != row["phase"]:
            raise manifest.fault(
                f"{_FIELD} {row['phase']} {row['range'][0]}-{row['range'][1] - 1}",
                f"must name a Service of an island that serves {row['phase']}",
                row["service"],
            )


def _check_shares(manifest: Manifest, rows: Sequence[Mapping[str, Any]], ranges: Iterable[tuple[int, int]]) -> None:
    sums: dict[tuple[Phase, tuple[int, int]], float] = defaultdict(float)
    for row in rows:
        if not 0.0 <= row["share"] <= 1.0 + _SHARE_TOLERANCE:
            raise manifest.fault(f"{_FIELD} {row['phase']} {row['range']}", "share must lie in 0..1", row["share"])
        sums[row["phase"], row["range"]] += row["share"]
    every = sorted({span for _, span in sums} | set(ranges))
    for phase in Phase:
        for span in every:
            if abs(sums[phase, span] - 1.0) > _SHARE_TOLERANCE:
                raise manifest.fault(
                    f"{_FIELD} {phase} {span[0]}-{span[1] - 1}", "shares must sum to 1", sums[phase, span]
                )
