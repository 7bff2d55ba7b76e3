"""A fleet in tables: what each service gets and pays, its deployments, what one more node is worth, what is left."""

from collections.abc import Iterable

from planner.domain.fleets import NodeWorth, ServiceShare, StoredFill, StoredFleet, StoredPart
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import money, rate, significant, whole
from planner.report.kit.tables import Column, Table, fields, table_of

SUMMARY_FILE = "summary.md"


def gpu_words(gpus: Iterable[tuple[str, int]]) -> str:
    """`8 H20, 8 H200`; `none` where there are none."""
    return ", ".join(f"{count:,} {gpu}" for gpu, count in gpus if count) or "none"


def times(share: float) -> str:
    """A multiple of a demand: `0.84 times`, `14.9 times`."""
    return f"{significant(share)} times"


def services(fleet: StoredFleet) -> Table[ServiceShare]:
    """A row a service with a demand."""
    columns: tuple[Column[ServiceShare], ...] = (
        Column("service", lambda row: row.service),
        Column("demand_rps", lambda row: row.demand_rps, rate, "demand (requests/s)"),
        Column("promised_rps", lambda row: row.promised_rps, rate, "promised (requests/s)"),
        Column("share", lambda row: row.share, times, "of its demand"),
        Column("gpus", lambda row: _gpus_of(fleet, row.service), title="GPUs"),
    )
    if any(row.rent_usd_per_hour is not None for row in fleet.services):
        columns += (
            Column("rent_usd_per_hour", lambda row: row.rent_usd_per_hour, money, "its part of the rent (USD/hour)"),
            Column(
                "marginal_usd_per_hour", lambda row: row.marginal_usd_per_hour, money, "saved without it (USD/hour)"
            ),
        )
    return table_of(columns, fleet.services)


def _gpus_of(fleet: StoredFleet, service: str) -> str:
    words = gpu_words(fleet.gpus_of(service))
    partners = [name for part in fleet.serving(service) for name, _ in part.serves if name != service]
    return f"{words}, some with {', '.join(dict.fromkeys(partners))}" if partners else words


def service_rows(fleet: StoredFleet) -> Table[ServiceShare]:
    """The same for programs, GPUs a column a type."""
    types = [gpu for gpu, _ in fleet.inventory]

    def count(gpu: str) -> Column[ServiceShare]:
        return Column(f"gpus_{gpu}", lambda row: dict(fleet.gpus_of(row.service)).get(gpu, 0))

    told = fields("service", "demand_rps", "promised_rps", "share", "rent_usd_per_hour", "marginal_usd_per_hour")
    return table_of((*told, *fields("request_worth"), *map(count, types)), fleet.services)


def deployments(fleet: StoredFleet) -> Table[StoredPart]:
    """A row a deployment."""
    columns: tuple[Column[StoredPart], ...] = (
        Column("deployment", lambda row: row.name),
        Column("model", lambda row: row.model),
        Column("gpus", lambda row: gpu_words(row.gpus), title="GPUs"),
        Column("promise_rps", lambda row: row.promise_rps, rate, "promise (requests/s)"),
        Column("serves", _serves),
    )
    return table_of(columns, fleet.deployments)


def links(fleet: StoredFleet, file: str) -> str:
    """Where each deployment is told of by itself: Markdown that leads to that file of its run folder."""
    return f"More of each: {', '.join(f'[{escaped(part.name)}]({part.folder}/{file})' for part in fleet.deployments)}."


def _serves(part: StoredPart) -> str:
    if len(part.serves) == 1:
        return f"{part.serves[0][0]}, with what is left" if part.batch else part.serves[0][0]
    return ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in part.serves)


def nodes(fleet: StoredFleet) -> Table[NodeWorth]:
    """A row a GPU type: what one more node of it is worth."""
    row = fleet.aim.row
    unit = f"{'saves' if row.minimises else 'adds'} ({row.unit})"
    columns: tuple[Column[NodeWorth], ...] = (
        Column("gpu", lambda worth: worth.gpu, title="GPU type"),
        Column("gpus", lambda worth: worth.gpus, str, "GPUs"),
        Column("change", lambda worth: abs(worth.change), significant, unit),
        *(_gain(service.service) for service in fleet.services),
    )
    return table_of(columns, fleet.nodes)


def _gain(service: str) -> Column[NodeWorth]:
    return Column(
        f"{service}_rps",
        lambda worth: dict(worth.requests).get(service),
        significant,
        f"or {service} alone (requests/s)",
    )


def batches(fleet: StoredFleet) -> Table[StoredFill]:
    """A row a service that takes what others leave."""
    parts = {part.name: part for part in fleet.deployments}

    def gpus(fill: StoredFill) -> str:
        return gpu_words(parts[fill.deployment].gpus) if fill.deployment else "none"

    columns: tuple[Column[StoredFill], ...] = (
        Column("service", lambda fill: fill.service),
        Column("gpus", gpus, title="GPUs that nobody else has"),
        Column("tokens_a_day", lambda fill: fill.tokens_a_day, whole, "tokens a day"),
        Column("asked_tokens_a_day", lambda fill: fill.asked_tokens_a_day or None, whole, "asked for a day"),
    )
    return table_of(columns, fleet.batches)
