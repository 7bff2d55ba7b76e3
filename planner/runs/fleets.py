"""Fleets from file to run folder: one folder, a run folder a deployment in it, there whole or not at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from planner import files, pipeline, report
from planner.domain import ReportProgress, no_progress
from planner.domain.fleets import FleetPlan, FleetScenario
from planner.files.plan.digests import KEY, WHOLE_PLAN, sealed
from planner.files.plan.fleet_document import fleet_document, fleet_text, folder_of, load_fleet_run
from planner.files.plan.runs import FLEET_FILE, SERVICES_FOLDER
from planner.files.scenario.fleets import load_fleet
from planner.report.fleets import tables
from planner.report.fleets.page import PAGE, fleet_page, fleet_summary
from planner.report.replanning.fleet_changes import DOCUMENT, STEPS_PAGE
from planner.report.replanning.fleet_changes import PAGE as CHANGE_PAGE
from planner.runs import publication
from planner.runs.batches.jobs import ENGINE, Job, altered
from planner.runs.pages import page_bytes, plan_html
from planner.workload import summarize

SUMMARY_FILE, SERVICES_FILE, NODES_FILE = tables.SUMMARY_FILE, "services.csv", "nodes.csv"
KINDS = (
    *(FLEET_FILE, SUMMARY_FILE, SERVICES_FILE, NODES_FILE, files.PAGE_FILE, f"{SERVICES_FOLDER}/a-service"),
    *(DOCUMENT, CHANGE_PAGE, STEPS_PAGE),
)
"""Names of what a fleet's folder may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFleet:
    """Files of a fleet's folder, and what the reader must be told."""

    files: Mapping[str, bytes]
    warnings: tuple[str, ...] = ()


def fleet_of(job: Job) -> FleetScenario | None:
    """The fleet of a job's file, with what the command line changes; None where the file is of one service. Raises
    InputError."""
    if job.scenario is None:
        return None
    fleet = load_fleet(job.scenario, summarize, job.settings)
    return None if fleet is None else altered_fleet(fleet, job)


def altered_fleet(fleet: FleetScenario, job: Job) -> FleetScenario:
    """The fleet, every service with the seed and the engine of the job."""
    services = tuple(
        replace(service, scenarios=tuple(altered(scenario, job) for scenario in service.scenarios))
        for service in fleet.services
    )
    return replace(fleet, services=services)


def run_fleet(
    job: Job,
    fleet: FleetScenario,
    tell: Callable[[str], None] = lambda _step: None,
    progress: ReportProgress = no_progress,
) -> tuple[FleetPlan, tuple[str, ...]]:
    """Plan a fleet and write its folder: the plan, and what the reader must be told. What cannot be
    written fails before the work. Raises PlannerError; then, and on an interrupt, nothing has been written."""
    for service in fleet.services:
        for scenario in service.scenarios:
            publication.require_deployable(scenario, job.engine or scenario.engine.name or ENGINE)
    files.claim_folder(job.folder, KINDS, force=job.force)
    planned = pipeline.plan_fleet(fleet, tell, progress)
    published = publish_fleet(planned, engine=job.engine or "", figures=job.figures)
    write_fleet(job.folder, published, force=job.force)
    return planned, published.warnings


def publish_fleet(plan: FleetPlan, *, engine: str = "", figures: bool = True) -> PublishedFleet:
    """Every file of a fleet's folder; nothing is written here."""
    contents, warnings = dict(own_files(plan)), list[str]()
    for part in plan.plans:
        chosen = engine or part.plan.scenario.engine.name or ENGINE
        published = publication.publish(part.plan, engine=chosen, figures=figures)
        contents |= {f"{folder_of(part)}/{name}": content for name, content in published.files.items()}
        warnings += [f"{part.name}: {warning}" for warning in published.warnings]
    return PublishedFleet(files=contents, warnings=tuple(warnings))


def own_files(plan: FleetPlan) -> dict[str, bytes]:
    """The files of a fleet's folder that are of no deployment."""
    return {
        FLEET_FILE: fleet_text(plan),
        SUMMARY_FILE: fleet_summary(plan).encode(),
        SERVICES_FILE: tables.service_rows(plan).csv(),
        NODES_FILE: tables.nodes(plan).csv(),
    }


def write_fleet(folder: Path, published: PublishedFleet, *, force: bool = False) -> None:
    """Write a fleet's folder, all of it or nothing."""
    files.write_folder(folder, published.files, force=force, kinds=KINDS)


def read_fleet(source: Path) -> FleetPlan:
    """The plan of a fleet, from its folder or its fleet.json, every deployment audited. Raises InputError where
    something was edited, is missing or contradicts itself."""
    plan = load_fleet_run(source)
    for part in plan.plans:
        pipeline.recheck(part.plan, f"{source}: {part.name}")
    return plan


def source_of_fleet(plan: FleetPlan) -> str:
    """By which a page is known to be of this very fleet."""
    return f"fleet {sealed(fleet_document(plan))[KEY][WHOLE_PLAN]}"


def fleet_html(plan: FleetPlan) -> bytes:
    """The page of a fleet; its deployments lead to their own pages. Equal fleets give equal bytes."""
    return page_bytes(fleet_page(plan, linked=PAGE), source_of_fleet(plan))


def report_files(plan: FleetPlan) -> dict[str, bytes]:
    """The report in a folder of its own: summary, page, and the page and figures of every deployment."""
    contents = {SUMMARY_FILE: fleet_summary(plan).encode(), PAGE: fleet_html(plan)}
    for part in plan.plans:
        pages = {PAGE: plan_html(part.plan), **report.render(part.plan)}
        contents |= {f"{folder_of(part)}/{name}": content for name, content in pages.items()}
    return contents
