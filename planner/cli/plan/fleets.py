"""Fleets on the command line: several services of one file planned, checked and reported."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli import screen
from planner.cli.terminal.summaries import answer_last
from planner.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from planner.domain.fleets import Deployment, FleetPlan, FleetScenario, FleetService
    from planner.runs import Job


def plan_if_fleet(job: "Job", *, as_json: bool, quiet: bool) -> bool:
    """Plan the fleet of a job's file, write its folder and show it; False where the file is of one service. Raises
    PlannerError; then nothing has been written."""
    from planner.runs.fleets import fleet_of, run_fleet

    fleet = fleet_of(job)
    if fleet is None:
        return False

    def tell(step: str) -> None:
        if not quiet:
            screen.show_note(f"{job.name}: {step}")

    with screen.search_progress(job.name, quiet=quiet) as progress:
        planned, warnings = run_fleet(job, fleet, tell, progress)
    show_fleet(planned, job.folder, warnings, as_json=as_json)
    return True


def show_fleet(fleet: "FleetPlan", folder: Path, warnings: Sequence[str], *, as_json: bool) -> None:
    """A fleet that was planned and written."""
    from planner.files.plan.fleet_document import fleet_document
    from planner.report.fleets.page import fleet_summary

    for warning in warnings:
        screen.show_warning(warning)
    if as_json:
        screen.show_json(
            {"folder": str(folder), "status": EXIT_DONE, "warnings": list(warnings), **fleet_document(fleet)}
        )
    else:
        screen.show_markdown(answer_last(fleet_summary(fleet)))
        screen.show_text(f"Written to {folder}; each deployment is a run folder below it")


def refuse_fleets(paths: Sequence[Path]) -> None:
    """Raises InputError where one of several files is of a fleet."""
    for path in paths:
        if _is_fleet(path):
            raise InputError(
                f"{path}: services: must be the only scenario where there are services, got {len(paths)} scenarios.",
                hint=f"Plan it by itself: planner plan {path}.",
            )


def _is_fleet(path: Path) -> bool:
    """A file that cannot be read is none: it fails by itself, beside the others."""
    from planner.files.scenario.fleets import is_fleet_file

    try:
        return is_fleet_file(path)
    except InputError:
        return False


def refuse_to_resume(folder: Path, scenario: Path | None) -> None:
    """Raises InputError where a fleet is to be resumed: its divisions are solved for, nothing of it is searched."""
    from planner.files.plan.fleet_document import holds_fleet

    if holds_fleet(folder) or (scenario is not None and _is_fleet(scenario)):
        raise InputError(
            f"--resume: {folder}: resumes the search of one service, got a fleet, which leaves no search behind.",
            hint=f"Plan it anew: planner plan {scenario or 'FLEET.yaml'} --out {folder} --force.",
        )


def show_checked_fleet(
    scenario: Path, fleet: "FleetScenario", deployments: "Sequence[Deployment]", *, as_json: bool
) -> None:
    """A fleet as it was read, and what would be planned."""
    facts = {
        "scenario": fleet.name,
        "objective": fleet.objective.kind.value,
        "inventory": {item.gpu.name: item.count for item in fleet.inventory.items},
        "price_usd_per_hour": fleet.inventory.price_usd_per_hour,
        "share_nodes": fleet.share_nodes,
        "services": [_service_facts(service) for service in fleet.services],
        "deployments": [
            {"name": row.name, "model": row.scenario.model.name, "serves": dict(row.parts)} for row in deployments
        ],
    }
    if as_json:
        screen.show_json(facts)
        return
    columns = ("service", "models", "workload", "requests/s", "TTFT (ms)", "TPOT (ms)", "may share with")
    rows = [
        (row["service"], ", ".join(row["models"]), row["workload"], row["demand_rps"], row["ttft_ms"], row["tpot_ms"],
         ", ".join(row["shares"]))
        for row in map(_service_facts, fleet.services)
    ]  # fmt: skip
    screen.show_table(f"{scenario}: sound", columns, rows, important=("service", "models", "requests/s"))
    gpus = ", ".join(f"{item.count:,} {item.gpu.name}" for item in fleet.inventory.items)
    names = ", ".join(deployment.name for deployment in deployments)
    screen.show_prose(f"{gpus} would be divided for {fleet.objective.kind.row.words}, among at most: {names}.")


def _service_facts(service: "FleetService") -> dict[str, Any]:
    first = service.scenarios[0]
    return {
        "service": service.name,
        "models": [scenario.model.name for scenario in service.scenarios],
        "workload": first.workload.name,
        "demand_rps": None if service.batch else service.demand_rps,
        "ttft_ms": first.slo.ttft_ms,
        "tpot_ms": first.slo.tpot_ms,
        "shares": list(service.shares),
        **({"tokens_a_day": service.batch.tokens_a_day or None} if service.batch else {}),
    }
