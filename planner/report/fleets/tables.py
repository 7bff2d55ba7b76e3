"""A fleet in tables: what each service gets and pays, its deployments, what one more node is worth, what is left."""

from collections.abc import Iterable

from planner.domain.fleets import BatchFill, FleetPart, FleetPlan, NodeWorth, ServiceShare
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import money, rate, significant, whole
from planner.report.kit.tables import Column, Table, fields, table_of

SUMMARY_FILE, SERVICES_FOLDER = "summary.md", "services"
"""Of a run folder, and the folder of those of a fleet."""


def gpu_words(gpus: Iterable[tuple[str, int]]) -> str:
    """`8 H20, 8 H200`; `none` where there are none."""
    return ", ".join(f"{count:,} {gpu}" for gpu, count in gpus if count) or "none"


def times(share: float) -> str:
    """A multiple of a demand: `0.84 times`, `14.9 times`."""
    return f"{significant(share)} times"


def services(plan: FleetPlan) -> Table[ServiceShare]:
    """A row a service with a demand."""
    columns: tuple[Column[ServiceShare], ...] = (
        Column("service", lambda row: row.service),
        Column("demand_rps", lambda row: row.demand_rps, rate, "demand (requests/s)"),
        Column("promised_rps", lambda row: row.promised_rps, rate, "promised (requests/s)"),
        Column("share", lambda row: row.share, times, "of its demand"),
        Column("gpus", lambda row: _gpus_of(plan, row.service), title="GPUs"),
    )
    if any(row.rent_usd_per_hour is not None for row in plan.shares):
        columns += (
            Column("rent_usd_per_hour", lambda row: row.rent_usd_per_hour, money, "its part of the rent (USD/hour)"),
            Column(
                "marginal_usd_per_hour", lambda row: row.marginal_usd_per_hour, money, "saved without it (USD/hour)"
            ),
        )
    return table_of(columns, plan.shares)


def _gpus_of(plan: FleetPlan, service: str) -> str:
    words = gpu_words(plan.gpus_of(service))
    partners = [name for part in plan.serving(service) for name, _ in part.deployment.parts if name != service]
    return f"{words}, some with {', '.join(dict.fromkeys(partners))}" if partners else words


def service_rows(plan: FleetPlan) -> Table[ServiceShare]:
    """The same for programs, GPUs a column a type."""
    types = [gpu for gpu, _ in plan.fleet.inventory.counts]

    def count(gpu: str) -> Column[ServiceShare]:
        return Column(f"gpus_{gpu}", lambda row: dict(plan.gpus_of(row.service)).get(gpu, 0))

    told = fields("service", "demand_rps", "promised_rps", "share", "rent_usd_per_hour", "marginal_usd_per_hour")
    return table_of((*told, *fields("request_worth"), *map(count, types)), plan.shares)


def deployments(plan: FleetPlan) -> Table[FleetPart]:
    """A row a deployment."""
    columns: tuple[Column[FleetPart], ...] = (
        Column("deployment", lambda row: row.name),
        Column("model", lambda row: row.plan.scenario.model.name),
        Column("gpus", lambda row: gpu_words(row.gpus), title="GPUs"),
        Column("promise_rps", lambda row: row.promise_rps, rate, "promise (requests/s)"),
        Column("serves", lambda row: _serves(plan, row)),
    )
    return table_of(columns, plan.plans)


def links(plan: FleetPlan, file: str) -> str:
    """Where each deployment is told of by itself: Markdown that leads to that file of its run folder."""
    pages = (f"[{escaped(part.name)}]({SERVICES_FOLDER}/{part.name}/{file})" for part in plan.plans)
    return f"More of each: {', '.join(pages)}."


def _serves(plan: FleetPlan, part: FleetPart) -> str:
    serves = part.deployment.parts
    if len(serves) == 1:
        return f"{serves[0][0]}, with what is left" if plan.waits(part) else serves[0][0]
    return ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in serves)


def nodes(plan: FleetPlan) -> Table[NodeWorth]:
    """A row a GPU type: what one more node of it is worth."""
    row = plan.aim.row
    unit = f"{'saves' if row.minimises else 'adds'} ({row.unit})"
    columns: tuple[Column[NodeWorth], ...] = (
        Column("gpu", lambda worth: worth.gpu, title="GPU type"),
        Column("gpus", lambda worth: worth.gpus, str, "GPUs"),
        Column("change", lambda worth: abs(worth.change), significant, unit),
        *(_gain(service.service) for service in plan.shares),
    )
    return table_of(columns, plan.worths)


def _gain(service: str) -> Column[NodeWorth]:
    return Column(
        f"{service}_rps",
        lambda worth: dict(worth.requests).get(service),
        significant,
        f"or {service} alone (requests/s)",
    )


def batches(plan: FleetPlan) -> Table[BatchFill]:
    """A row a service that takes what others leave."""

    def gpus(fill: BatchFill) -> str:
        return "none" if fill.part is None else gpu_words(fill.part.gpus)

    columns: tuple[Column[BatchFill], ...] = (
        Column("service", lambda fill: fill.service),
        Column("gpus", gpus, title="GPUs that nobody else has"),
        Column("tokens_a_day", lambda fill: fill.tokens_a_day, whole, "tokens a day"),
        Column("asked_tokens_a_day", lambda fill: fill.asked_tokens_a_day or None, whole, "asked for a day"),
    )
    return table_of(columns, plan.batches)
