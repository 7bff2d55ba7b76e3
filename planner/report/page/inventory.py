"""Which GPUs are used for what, and which stand idle."""

from planner.domain import Plan
from planner.report.kit.html.blocks import Cell, Chart, DataTable, Section
from planner.report.page.amounts import gpus_by_phase, most_watts, used_gpus

_IDLE = "idle"


def inventory_section(plan: Plan) -> Section:
    """A bar a GPU type that is paid for; all of them, with rent and watts, as a table."""
    by_phase, used = gpus_by_phase(plan), used_gpus(plan)
    idle = {gpu: count - used[gpu] for gpu, count in plan.fleet.items()}
    counts: dict[str, dict[str, int]] = {phase.value: row for phase, row in by_phase.items()}
    counts[_IDLE] = idle
    drawn = [gpu for gpu, count in plan.fleet.items() if count]  # of an offer, what is rented
    chart = Chart(
        name="inventory-used",
        title="GPUs by type and phase",
        says=_says(plan, sum(idle.values()), sum(plan.fleet.values())),
        traces=tuple(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": drawn,
                "x": [row[gpu] for gpu in drawn],
                "meta": {"tone": name},
            }
            for name, row in counts.items()
            if any(row.values())
        ),
        layout={
            "barmode": "stack",
            "height": 140 + 44 * len(drawn),
            "xaxis": {"title": {"text": "GPUs"}},
            "yaxis": {"autorange": "reversed", "type": "category"},
        },
        table=_table(plan, counts),
    )
    return Section(name="inventory", title="Inventory", blocks=(chart,))


def _says(plan: Plan, idle: int, total: int) -> str:
    used = f"{idle:,} of {total:,} GPUs are idle." if idle else f"All {total:,} GPUs are at work."
    if not plan.scenario.objective.rents:
        return used
    offered = sum(item.count for item in plan.scenario.inventory.items)
    return f"{total:,} of the {offered:,} GPUs on offer are rented. {used}"


def _table(plan: Plan, counts: dict[str, dict[str, int]]) -> DataTable:
    watts, inventory, rents = most_watts(plan), plan.scenario.inventory, plan.scenario.objective.rents
    rows: list[tuple[Cell, ...]] = []
    for gpu, count in plan.fleet.items():
        item = inventory.item(gpu)
        price = item.price_usd_per_gpu_hour if item.price_known else None
        rent = None if price is None else count * price
        offered = (item.count,) if rents else ()
        rows.append((gpu, *offered, count, *(row[gpu] for row in counts.values()), price, rent, watts[gpu] / 1000))
    heads = (f"In {name}" if name != _IDLE else "Idle" for name in counts)
    return DataTable(
        columns=(
            "GPU type",
            *(["On offer"] if rents else []),
            "GPUs",
            *heads,
            "USD/hour each",
            "USD/hour",
            "Most kW",
        ),
        rows=tuple(rows),
        caption="GPUs that are paid for; watts are the GPUs' highest draw by data sheet, without hosts and cooling.",
    )
