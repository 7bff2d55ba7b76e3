"""Manifests read back to the plan that they deploy, whichever target wrote them; and a plan as such manifests show
it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.domain import DeployedIsland, DeployedPlan, DeployedRoute, Phase, Plan
from planner.errors import InputError
from planner.export.checking.faults import faults_text, find_faults
from planner.export.checking.structure import read_manifests
from planner.export.checking.tables import FoundTable, routing_tables, told_inventory
from planner.export.found import Fault, FoundWorkload, Manifest
from planner.export.objects.pods import ENGINE_LABEL, PHASE_LABEL, pod_fields
from planner.export.summary import PREFIX, deployed_plan, read_island


def summarize_plan(plan: Plan, *, engine: str = "", target: str = "") -> DeployedPlan:
    """What the manifests of `plan` say of it, in the order of `read_plan`."""
    return _ordered(deployed_plan(plan, engine=engine, target=target))


def read_plan(files: Mapping[str, str], origin: str = "manifests") -> DeployedPlan:
    """The plan that `files` (name -> text) deploy: islands by id, routes by phase, range and island.

    Raises:
        InputError: faults of the files, each with file, object and field; or no island in them. `origin` names the
            folder.
    """
    _refuse(find_faults(files), origin)
    sound = read_manifests(files).sound
    workloads = [w for m, kind in sound if kind and kind.workloads for w in kind.workloads(m)]
    if not workloads:
        raise InputError(
            f"{origin}: must hold a workload of an island, holds none in {len(files)} files.",
            hint="Objects that only tell of the fleet are no plan; give manifests of a serving target.",
        )
    _refuse(tuple(_of_other_plans(workloads)), origin)
    return _ordered(_plan([manifest for manifest, _ in sound], workloads))


def _refuse(faults: Sequence[Fault], origin: str) -> None:
    if faults:
        raise InputError(
            f"{origin}: must be sound manifests of the planner.\n{faults_text(faults)}",
            hint="Mend these fields (`planner export --check` tells all of them), or export the plan again.",
        )


def _of_other_plans(workloads: Sequence[FoundWorkload]) -> Iterator[Fault]:
    """Workloads that name another plan, model or target than most of them do."""
    for key in ("plan", "model", "target"):
        name = f"{PREFIX}{key}"
        annotated = [(workload, workload.annotations[name]) for workload in workloads if name in workload.annotations]
        votes = Counter(value for _, value in annotated)
        for workload, value in annotated:
            usual, _ = votes.most_common(1)[0]  # of equals the first
            if value != usual:
                file = next(other.manifest.file for other, annotation in annotated if annotation == usual)
                field = f"{workload.annotations_path}.{name}"
                yield workload.manifest.fault(field, f"must be {usual!r} as in {file}", repr(value))


def _plan(manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload]) -> DeployedPlan:
    """`workloads` and tables have passed the checks: what is read here is there."""
    islands = tuple(replace(read_island(w.annotations, w.labels[PHASE_LABEL]), pods=pod_fields(w)) for w in workloads)
    tables, _ = routing_tables(manifests)
    first = workloads[0]
    head = {
        "name": first.annotations.get(f"{PREFIX}plan", ""),
        "model": first.annotations.get(f"{PREFIX}model", ""),
        "engine": first.labels.get(ENGINE_LABEL, ""),
        "target": first.annotations.get(f"{PREFIX}target", ""),
    }
    return DeployedPlan(
        **head,
        islands=islands,
        routes=tuple(route for table in tables for route in _routes(table, islands)),
        inventory=tuple(told_inventory(manifests).items()),
    )


def _routes(table: FoundTable, islands: Sequence[DeployedIsland]) -> Iterator[DeployedRoute]:
    owners = {row["service"]: str(row["island"]) for row in table.table.get("services", ())}
    served = {island.id for island in islands}
    for row in table.table["routes"]:
        island = owners.get(row["service"], "")
        if island not in served:
            where = f"{row['phase']} {row['range_start']}-{row['range_end'] - 1}, service"
            fault = table.fault(where, "must be among the table's services, with an island that serves", row["service"])
            raise InputError(str(fault), hint="Mend the routing table.")
        yield DeployedRoute(
            phase=Phase(row["phase"]),
            range_start=int(row["range_start"]),
            range_end=int(row["range_end"]),
            island=island,
            share=float(row["share"]),
            probability=_probability(table, row),
        )


def _probability(table: FoundTable, row: Mapping[str, Any]) -> float | None:
    """The range's share of requests; a table written by hand may lack it."""
    value = row.get("probability")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        where = f"{row['phase']} {row['range_start']}-{row['range_end'] - 1}, probability"
        raise InputError(str(table.fault(where, "must lie in 0..1", repr(value))), hint="Mend the routing table.")
    return float(value)


def _ordered(plan: DeployedPlan) -> DeployedPlan:
    """Files do not keep the plan's order, so that it means nothing here."""
    return replace(
        plan,
        islands=tuple(sorted(plan.islands, key=lambda i: i.id)),
        routes=tuple(sorted(plan.routes, key=lambda r: (r.phase, r.range_start, r.range_end, r.island))),
        inventory=tuple(sorted(plan.inventory)),
    )
