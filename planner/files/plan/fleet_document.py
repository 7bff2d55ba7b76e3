"""Fleets as folders: `fleet.json`, and the plan of every deployment as a run folder under `services/`.

The document has every figure of the fleet and names its plans with their digests; it is sealed by digests of its own.
"""

from pathlib import Path

from planner.domain import Plan
from planner.domain.fleets import FleetPart, FleetPlan, StoredFill, StoredFleet, StoredPart
from planner.errors import InputError
from planner.files.disk.opening import is_folder, is_there
from planner.files.plan.digests import read_sealed_record, sealed_text
from planner.files.plan.plan_document import plan_digest
from planner.files.plan.runs import FLEET_FILE, SERVICES_FOLDER, load_run
from planner.files.records import Document, record_document

SCHEMA_VERSION = 1
REMEDY = "Plan the fleet again, or restore the file."


def holds_fleet(folder: Path) -> bool:
    """Whether the folder is that of a fleet, whatever it is worth."""
    return is_there(folder / FLEET_FILE)


def stored_fleet(plan: FleetPlan) -> StoredFleet:
    """A fleet's plan as its document has it."""
    parts, names = plan.plans, _names(plan)
    prices = {item.gpu.name: item.price_usd_per_gpu_hour for item in plan.fleet.inventory.items}
    return StoredFleet(
        schema_version=SCHEMA_VERSION,
        name=plan.fleet.name,
        aim=plan.fleet.objective.kind,
        floor=plan.fleet.objective.floor,
        share_nodes=plan.fleet.share_nodes,
        inventory=tuple((item.gpu.name, item.count) for item in plan.fleet.inventory.items),
        value=float(plan.value),
        bound=None if plan.bound is None else float(plan.bound),
        gap=None if plan.gap is None else float(plan.gap),
        rent_usd_per_hour=float(plan.rent_usd_per_hour),
        services=plan.shares,
        deployments=tuple(
            _part(part, name, prices, batch=place >= len(plan.parts))
            for place, (part, name) in enumerate(zip(parts, names, strict=True))
        ),
        nodes=plan.worths,
        batches=tuple(
            StoredFill(
                service=fill.service,
                deployment="" if fill.part is None else names[parts.index(fill.part)],
                tokens_a_day=float(fill.tokens_a_day),
                asked_tokens_a_day=float(fill.asked_tokens_a_day),
            )
            for fill in plan.batches
        ),
        idle=plan.idle,
        note=plan.note,
        searched=plan.searched,
    )


def plans_of(plan: FleetPlan) -> dict[str, Plan]:
    """The plan of every deployment, by its name in the document."""
    return {name: part.plan for name, part in zip(_names(plan), plan.plans, strict=True)}


def _names(plan: FleetPlan) -> list[str]:
    """What its deployments are called, no two alike: a checkpoint may be called as another service is."""
    names: list[str] = []
    for part in plan.plans:
        name, number = part.name, 2
        while name in names:
            name, number = f"{part.name}-{number}", number + 1
        names.append(name)
    return names


def _part(part: FleetPart, name: str, prices: dict[str, float], *, batch: bool) -> StoredPart:
    return StoredPart(
        name=name,
        folder=f"{SERVICES_FOLDER}/{name}",
        digest=plan_digest(part.plan),
        model=part.plan.scenario.model.name,
        gpus=part.gpus,
        serves=part.deployment.parts,
        promise_rps=float(part.promise_rps),
        usd_per_hour=float(sum(prices[gpu] * count for gpu, count in part.gpus)),
        batch=batch,
    )


def fleet_document(fleet: StoredFleet) -> Document:
    """What fleet.json says, but for its digests."""
    return record_document(fleet)


def fleet_text(fleet: StoredFleet) -> bytes:
    """fleet.json."""
    return sealed_text(fleet_document(fleet))


def load_fleet_run(source: Path) -> StoredFleet:
    """The fleet of a folder that `planner plan` wrote, or of its fleet.json. InputError where it is none, or was
    edited."""
    file = source / FLEET_FILE if is_folder(source) else source
    fleet = read_sealed_record(file, StoredFleet, hint=REMEDY)
    if fleet.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"{file}: schema_version: must be {SCHEMA_VERSION}, which this version reads, got {fleet.schema_version}.",
            hint=REMEDY,
        )
    for part in fleet.deployments:
        if part.folder != f"{SERVICES_FOLDER}/{part.name}" or Path(part.name).name != part.name:
            raise InputError(
                f"{file}: deployments: {part.name}: folder must be {SERVICES_FOLDER}/ and its name, got {part.folder}.",
                hint=REMEDY,
            )
    return fleet


def load_fleet_plans(source: Path, fleet: StoredFleet) -> dict[str, Plan]:
    """The plan of every deployment by name. InputError where one is missing, or is not the one that the fleet was made
    of."""
    folder = source if is_folder(source) else source.parent
    plans = {part.name: load_run(folder / part.folder) for part in fleet.deployments}
    for part in fleet.deployments:
        if plan_digest(plans[part.name]) != part.digest:
            raise InputError(
                f"{folder / part.folder}: must be the plan that the fleet was made of; its digest differs.",
                hint=REMEDY,
            )
    return plans
