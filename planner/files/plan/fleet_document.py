"""Fleets as folders: `fleet.json`, and the plan of every deployment as a run folder under `services/`.

The document has every figure of the fleet, the question that it answers (its services, each with its scenarios in
full), and its plans' digests; it is sealed by digests of its own. What it says of plans follows from them, and is held
against them on the way back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from planner.domain import InputHash, Scenario
from planner.domain.fleets import (
    BatchFill,
    BatchTerms,
    Deployment,
    DivisionSearch,
    FleetObjective,
    FleetPart,
    FleetPlan,
    FleetScenario,
    FleetService,
    NodeWorth,
    ServiceShare,
)
from planner.domain.schedules import RateSeries, RateWindow
from planner.errors import InputError
from planner.files.disk.opening import is_folder, is_there
from planner.files.plan.digests import read_sealed, require_schema, sealed_text
from planner.files.plan.plan_document import plan_digest
from planner.files.plan.plan_reader import differences, no_trace
from planner.files.plan.runs import FLEET_FILE, SERVICES_FOLDER, load_run
from planner.files.records import Document, load_record, read_record, record_document
from planner.files.scenario.scenario_documents import scenario_document
from planner.files.scenario.scenarios import scenario_from_section
from planner.files.sections import Section, top_level

SCHEMA_VERSION = 2
INPUTS = "inputs"
REMEDY = "Plan the fleet again, or restore the file."


def holds_fleet(folder: Path) -> bool:
    """Whether the folder is that of a fleet, whatever it is worth."""
    return is_there(folder / FLEET_FILE)


def folder_of(part: FleetPart) -> str:
    """A deployment's run folder, below that of its fleet."""
    return f"{SERVICES_FOLDER}/{part.name}"


def fleet_text(plan: FleetPlan) -> bytes:
    """fleet.json."""
    return sealed_text(fleet_document(plan))


def fleet_document(plan: FleetPlan) -> Document:
    """What fleet.json says, but for its digests."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": plan.fleet.name,
        "aim": plan.aim.value,
        "inventory": dict(plan.fleet.inventory.counts),
        "value": float(plan.value),
        "bound": None if plan.bound is None else float(plan.bound),
        "gap": None if plan.gap is None else float(plan.gap),
        "rent_usd_per_hour": float(plan.rent_usd_per_hour),
        "services": [record_document(share) for share in plan.shares],
        "deployments": [_part(plan, part) for part in plan.plans],
        "nodes": [record_document(worth) for worth in plan.worths],
        "batches": [_fill(fill) for fill in plan.batches],
        "idle": dict(plan.idle),
        "note": plan.note,
        **({} if plan.searched is None else {"searched": record_document(plan.searched)}),
        "question": _question(plan.fleet),
    }


def _part(plan: FleetPlan, part: FleetPart) -> Document:
    return {
        "name": part.name,
        "folder": folder_of(part),
        "digest": plan_digest(part.plan),
        "model": part.plan.scenario.model.name,
        "gpus": dict(part.gpus),
        "serves": dict(part.deployment.parts),
        "promise_rps": float(part.promise_rps),
        "usd_per_hour": float(plan.rent_of(part)),
        "batch": plan.waits(part),
    }


def _fill(fill: BatchFill) -> Document:
    return {
        "service": fill.service,
        "deployment": "" if fill.part is None else fill.part.name,
        "tokens_a_day": float(fill.tokens_a_day),
        "asked_tokens_a_day": float(fill.asked_tokens_a_day),
    }


def _question(fleet: FleetScenario) -> Document:
    return {
        "objective": record_document(fleet.objective),
        "share_nodes": fleet.share_nodes,
        "services": [_service(service) for service in fleet.services],
        INPUTS: _hashes(fleet.inputs),
    }


def _service(service: FleetService) -> Document:
    return {
        "name": service.name,
        "demand_rps": float(service.demand_rps),
        "weight": float(service.weight),
        "priority": service.priority,
        "shares": list(service.shares),
        **({"batch": record_document(service.batch)} if service.batch is not None else {}),
        **({"rates": _rates(service.rates)} if service.rates is not None else {}),
        "scenarios": [{**scenario_document(row), INPUTS: _hashes(row.inputs)} for row in service.scenarios],
    }


def _hashes(inputs: Sequence[InputHash]) -> Document:
    return {item.name: item.sha256 for item in inputs}


def _rates(series: RateSeries) -> Document:
    return {
        "name": series.name,
        "window_s": series.window_s,
        "begins_s": series.begins_s,
        "windows": [record_document(window) for window in series.windows],
    }


def load_fleet_run(source: Path) -> FleetPlan:
    """The plan of a fleet, from a folder that `planner plan` wrote or from its fleet.json. InputError where it is none,
    was edited, contradicts itself, or a plan is missing or another."""
    file = source / FLEET_FILE if is_folder(source) else source
    document = read_sealed(file, hint=REMEDY)
    if document.integer("schema_version", low=1) != SCHEMA_VERSION:
        raise document.fault("schema_version", f"{SCHEMA_VERSION}, which this version reads", hint=REMEDY)
    fleet = _read_question(document, document.section("question"), file)
    rows = document.sections("deployments")
    parts = {row.name("name"): _read_part(fleet, row, file) for row in rows}
    waiting = {row.name("name") for row in rows if row.flag("batch")}
    plan = FleetPlan(
        fleet=fleet,
        parts=tuple(part for name, part in parts.items() if name not in waiting),
        shares=tuple(read_record(ServiceShare, row) for row in document.sections("services")),
        value=document.number("value"),
        bound=None if document.is_empty("bound") else document.number("bound"),
        worths=tuple(read_record(NodeWorth, row) for row in document.sections("nodes")),
        batches=tuple(_read_fill(row, parts) for row in document.sections("batches")),
        note=document.printable("note", empty=True),
        searched=_read_search(document),
    )
    _require_consistent(plan, document, file)
    return plan


def _read_search(document: Section) -> DivisionSearch | None:
    if "searched" not in document:
        return None
    row = document.section("searched").plain()
    require_schema(DivisionSearch, row, f"{document.file}: searched", hint=REMEDY)
    return load_record(DivisionSearch, row)


def _require_consistent(plan: FleetPlan, document: Section, file: Path) -> None:
    """InputError where the document says something else than follows from its plans and its question."""
    due = json.loads(json.dumps(fleet_document(plan)))
    document.allow_only(*due)
    values = document.plain()
    for key, follows in due.items():
        if key not in values:
            raise document.refusal(key, "must be there, is missing", hint=REMEDY)
        for fault in differences(key, values[key], follows):
            raise InputError(f"{file}: {fault}.", hint=REMEDY)
    for key, names, services in (
        ("services", [share.service for share in plan.shares], plan.fleet.interactive),
        ("batches", [fill.service for fill in plan.batches], plan.fleet.batches),
    ):
        if names != [service.name for service in services]:
            expected = ", ".join(service.name for service in services) or "none"
            raise document.refusal(key, f"must be of {expected}, got {', '.join(names) or 'none'}", hint=REMEDY)


def _read_question(document: Section, question: Section, file: Path) -> FleetScenario:
    question.allow_only("objective", "share_nodes", "services", INPUTS)
    if not question.entries("services"):
        raise question.fault("services", "at least one service", hint=REMEDY)
    services = tuple(_read_service(row, file) for row in question.sections("services"))
    return FleetScenario(
        name=document.name("name"),
        inventory=services[0].scenarios[0].inventory,
        services=services,
        objective=read_record(FleetObjective, question.section("objective")),
        share_nodes=question.flag("share_nodes"),
        inputs=_read_hashes(question),
    )


def _read_service(row: Section, file: Path) -> FleetService:
    row.allow_only("name", "demand_rps", "weight", "priority", "shares", "batch", "rates", "scenarios")
    if not row.entries("scenarios"):
        raise row.fault("scenarios", "at least one scenario", hint=REMEDY)
    return FleetService(
        name=row.name("name"),
        scenarios=tuple(_read_scenario(section, file) for section in row.sections("scenarios")),
        demand_rps=row.number("demand_rps", low=0),
        weight=row.number("weight", above=0),
        priority=row.integer("priority", low=1),
        shares=row.texts("shares") if row.entries("shares") else (),
        batch=read_record(BatchTerms, row.section("batch")) if "batch" in row else None,
        rates=_read_rates(row.section("rates")) if "rates" in row else None,
    )


def _read_scenario(section: Section, file: Path) -> Scenario:
    posed = {key: value for key, value in section.plain().items() if key != INPUTS}
    scenario = scenario_from_section(top_level(posed, f"{section.file}: {section.path}"), file.parent, no_trace)
    return replace(scenario, inputs=_read_hashes(section))


def _read_hashes(section: Section) -> tuple[InputHash, ...]:
    hashes = section.section(INPUTS, optional=True)
    return tuple(InputHash(name=name, sha256=hashes.text(name)) for name in hashes)


def _read_rates(section: Section) -> RateSeries:
    section.allow_only("name", "window_s", "begins_s", "windows")
    return RateSeries(
        name=section.printable("name"),
        window_s=section.number("window_s", above=0),
        begins_s=section.number("begins_s", low=0),
        windows=tuple(read_record(RateWindow, row) for row in section.sections("windows")),
    )


def _read_part(fleet: FleetScenario, row: Section, file: Path) -> FleetPart:
    """A deployment, if its plan is the one that the fleet was made of."""
    folder = file.parent / SERVICES_FOLDER / row.name("name")
    plan = load_run(folder)
    if plan_digest(plan) != row.text("digest"):
        raise InputError(f"{folder}: must be the plan that the fleet was made of; its digest differs.", hint=REMEDY)
    scenario = replace(plan.scenario, inventory=fleet.inventory, cluster=None)
    names, serves, gpus = {service.name for service in fleet.services}, row.section("serves"), row.section("gpus")
    serves.allow_only(*names)
    gpus.allow_only(*(gpu for gpu, _ in fleet.inventory.counts))
    return FleetPart(
        deployment=Deployment(scenario=scenario, parts=tuple((name, serves.number(name)) for name in serves)),
        gpus=tuple((gpu, gpus.integer(gpu, low=0)) for gpu in gpus),
        plan=plan,
    )


def _read_fill(row: Section, parts: Mapping[str, FleetPart]) -> BatchFill:
    row.allow_only("service", "deployment", "tokens_a_day", "asked_tokens_a_day")
    name = row.printable("deployment", empty=True)
    if name and name not in parts:
        raise row.fault("deployment", f"one of {', '.join(parts)}", hint=REMEDY)
    return BatchFill(
        service=row.text("service"),
        part=parts[name] if name else None,
        tokens_a_day=row.number("tokens_a_day", low=0),
        asked_tokens_a_day=row.number("asked_tokens_a_day", low=0),
    )
