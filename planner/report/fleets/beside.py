"""Fleets beside each other: what each is worth and every service gets; from one to another, what changes hands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.domain.fleets import FleetPlan
from planner.report.fleets.tables import gpu_words
from planner.report.fleets.words import verdict
from planner.report.kit.quantities import money, percent, rate, significant
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Page, paragraphs, section

Named = tuple[str, FleetPlan]


def fleets(plans: Mapping[str, FleetPlan]) -> Table[Named]:
    """A row a fleet; of services that one lacks nothing is told."""
    services = dict.fromkeys(share.service for plan in plans.values() for share in plan.shares)
    columns: tuple[Column[Named], ...] = (
        Column("fleet", lambda row: row[0]),
        Column("objective", lambda row: row[1].aim.value),
        Column("value", lambda row: row[1].value, significant),
        Column("gap", lambda row: row[1].gap, percent),
        Column("rent_usd_per_hour", lambda row: row[1].rent_usd_per_hour, money, "USD/hour"),
        Column("idle", lambda row: gpu_words(row[1].idle), title="GPUs that nobody has"),
        *(column for service in services for column in _of_service(service)),
    )
    return table_of(columns, list(plans.items()))


def _of_service(service: str) -> Iterator[Column[Named]]:
    yield Column(f"{service}_rps", lambda row: _promised(row[1], service), rate, f"{service} promised (requests/s)")
    yield Column(f"{service}_gpus", lambda row: gpu_words(row[1].gpus_of(service)), title=f"{service} GPUs")


def _promised(plan: FleetPlan, service: str) -> float | None:
    return next((share.promised_rps for share in plan.shares if share.service == service), None)


def fleets_page(plans: Mapping[str, FleetPlan]) -> Page:
    """Fleets beside each other as a report."""
    return Page(
        title="Fleets beside each other",
        verdict=f"**{len(plans)} fleets.** {_best(plans)}",
        sections=(section("fleets", "Fleets", fleets(plans).block()),),
    )


def _best(plans: Mapping[str, FleetPlan]) -> str:
    aims = {plan.aim for plan in plans.values()}
    if len(aims) > 1:
        return "Their objectives differ, so their values do not compare."
    aim = aims.pop()
    chosen = min if aim.row.minimises else max
    name, plan = chosen(plans.items(), key=lambda row: row[1].value)
    return f"The best value has {name}: {significant(plan.value, 4)} {aim.row.unit}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """GPUs of a type that a deployment has before and after; `deployment`: empty for those that nobody has."""

    deployment: str
    gpu: str
    before: int
    after: int


def moved(old: FleetPlan, new: FleetPlan) -> tuple[Moved, ...]:
    """Deployments and types whose numbers differ."""
    names = dict.fromkeys([part.name for plan in (old, new) for part in plan.plans])
    types = dict.fromkeys(gpu for plan in (old, new) for gpu, _ in plan.fleet.inventory.counts)
    holdings = [{part.name: dict(part.gpus) for part in plan.plans} | {"": dict(plan.idle)} for plan in (old, new)]
    rows = (
        Moved(deployment=name, gpu=gpu, before=before, after=after)
        for name in (*names, "")
        for gpu in types
        for before, after in [[held.get(name, {}).get(gpu, 0) for held in holdings]]
    )
    return tuple(row for row in rows if row.before != row.after)


def changes(old: FleetPlan, new: FleetPlan) -> Table[str]:
    """A row a service of either fleet: what it was and is promised, and with which GPUs."""
    services = dict.fromkeys(share.service for plan in (old, new) for share in plan.shares)
    columns: tuple[Column[str], ...] = (
        Column("service", lambda name: name),
        Column("promised_before_rps", lambda name: _promised(old, name), rate, "promised before (requests/s)"),
        Column("promised_rps", lambda name: _promised(new, name), rate, "now"),
        Column("gpus_before", lambda name: gpu_words(old.gpus_of(name)), title="GPUs before"),
        Column("gpus", lambda name: gpu_words(new.gpus_of(name)), title="GPUs now"),
    )
    return table_of(columns, list(services))


def holders(rows: Sequence[Moved]) -> Table[Moved]:
    """A row a deployment and type whose number of GPUs changes."""
    columns: tuple[Column[Moved], ...] = (
        Column("deployment", lambda row: row.deployment or "nobody"),
        Column("gpu", lambda row: row.gpu, title="GPU type"),
        Column("before", lambda row: row.before),
        Column("after", lambda row: row.after),
    )
    return table_of(columns, rows)


def changes_page(old: FleetPlan, new: FleetPlan) -> Page:
    """What changes from one fleet to another as a report."""
    rows = moved(old, new)
    still = "No node changes hands." if not rows else ""
    return Page(
        title=f"From {old.fleet.name} to {new.fleet.name}",
        verdict=f"{verdict(new)} Before: {significant(old.value, 4)} {old.aim.row.unit}, at "
        f"{money(old.rent_usd_per_hour)} USD/hour.",
        sections=(
            section("services", "Services", changes(old, new).block()),
            section("nodes", "GPUs that change hands", *paragraphs(still), holders(rows).block()),
        ),
    )


def changes_document(old: FleetPlan, new: FleetPlan) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "value": [old.value, new.value],
        "rent_usd_per_hour": [old.rent_usd_per_hour, new.rent_usd_per_hour],
        "services": changes(old, new).records(),
        "gpus": holders(moved(old, new)).records(),
    }
