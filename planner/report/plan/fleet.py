"""Which GPUs are used for what, and what they cost: rent, USD per million tokens, watts."""

from collections.abc import Callable, Iterator, Sequence

from planner.domain import Phase, Plan
from planner.report.kit.markdown import escaped
from planner.report.kit.plots import Kind, Plot, Series, chart_of
from planner.report.kit.quantities import banded_rate, money, significant, whole
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Section, section
from planner.report.plan.cards import gpus_by_phase, most_watts, used_gpus

_MILLION, _HOUR_S = 1e6, 3600
_TOTAL = "**Total**"
Row = tuple[str, tuple[str, ...]]
"""What a row is called, and the GPU types that it counts together."""


def inventory_section(plan: Plan) -> Section:
    """A bar a GPU type that is paid for; all of them, with rent and watts, as a table."""
    counts: dict[str, dict[str, int]] = {phase.value: row for phase, row in gpus_by_phase(plan).items()}
    counts["idle"] = _idle(plan)
    drawn = tuple(gpu for gpu, count in plan.fleet.items() if count)  # of an offer, what is rented
    plot = Plot(
        name="inventory-used",
        title="GPUs by type and phase",
        says=_says(plan, sum(counts["idle"].values()), sum(plan.fleet.values())),
        kind=Kind.STACKED,
        x="GPU type",
        y="GPUs",
        series=tuple(
            Series(name=name, x=drawn, y=tuple(row[gpu] for gpu in drawn), tone=name)
            for name, row in counts.items()
            if any(row.values())
        ),
        lying=True,
    )
    caption = "GPUs that are paid for; watts are the GPUs' highest draw by data sheet, without hosts and cooling."
    if offered := [gpu for gpu in plan.fleet if gpu not in drawn and plan.scenario.objective.rents]:
        caption += f" On offer, not rented: {', '.join(offered)}."
    return section("inventory", "Inventory", chart_of(plot, _fleet(plan, offered).block(caption), told=True))


def _says(plan: Plan, idle: int, total: int) -> str:
    used = f"{idle:,} of {total:,} GPUs are idle." if idle else f"All {total:,} GPUs are at work."
    if not plan.scenario.objective.rents:
        return used
    offered = sum(item.count for item in plan.scenario.inventory.items)
    return f"{total:,} of the {offered:,} GPUs on offer are rented. {used}"


def _idle(plan: Plan) -> dict[str, int]:
    used = used_gpus(plan)
    return {gpu: count - used[gpu] for gpu, count in plan.fleet.items()}


def _fleet(plan: Plan, offered: Sequence[str]) -> Table[Row]:
    """A row a GPU type that is not only on offer, and their sums."""
    by_phase, idle, watts, inventory = gpus_by_phase(plan), _idle(plan), most_watts(plan), plan.scenario.inventory

    def added(name: str, amount: Callable[[str], float], text: Callable[[float], str] = whole) -> Column[Row]:
        return Column(name, lambda row: sum(map(amount, row[1])), text)

    def in_phase(phase: Phase) -> Column[Row]:
        return added("In both" if phase is Phase.MIXED else f"In {phase}", lambda gpu: by_phase[phase][gpu])

    def each(row: Row) -> float | None:
        item = None if row[0] == _TOTAL else inventory.item(row[0])
        return item.rent_usd_per_gpu_hour if item and item.price_known else None

    def rent(row: Row) -> float | None:
        if row[0] == _TOTAL:
            return plan.price_usd_per_hour
        price = each(row)
        return None if price is None else plan.fleet[row[0]] * price

    columns: tuple[Column[Row], ...] = (
        Column("GPU type", lambda row: row[0], lambda name: name if name == _TOTAL else escaped(name), right=False),
        *([added("On offer", lambda gpu: inventory.item(gpu).count)] if plan.scenario.objective.rents else []),
        added("GPUs", lambda gpu: plan.fleet[gpu]),
        *map(in_phase, plan.phases),
        added("Idle", lambda gpu: idle[gpu]),
        added(f"{plan.form.row.part.capitalize()}s", lambda gpu: sum(island.gpu == gpu for island in plan.islands)),
        Column("USD/hour each", each, "{:g}".format),
        Column("USD/hour", rent, money),
        added("Most kW", lambda gpu: watts[gpu] / 1000, significant),
    )
    rows = [(gpu, (gpu,)) for gpu in plan.fleet if gpu not in offered]
    return table_of(columns, [*rows, (_TOTAL, tuple(gpu for gpu, _ in rows))])


def cost_section(plan: Plan) -> Section:
    """Money and power for each rate that the plan is told at; prices that nobody gave are named."""
    missing = [gpu for gpu in plan.scenario.inventory.without_price if plan.fleet[gpu]]
    caption = "The whole fleet is paid for, whatever the load. Tokens are of prompts and answers, M is a million."
    if missing:
        caption += f" No price is given for {', '.join(missing)}, so there are no sums of money."
    usd_per_s = plan.price_usd_per_hour / _HOUR_S if plan.price_usd_per_hour > 0 and not missing else None
    table = table_of(_costs(plan, usd_per_s), (rate for rate in _rates(plan) if rate[1] > 0))
    return section("cost", "Price and power", table.block(caption))


def _rates(plan: Plan) -> Iterator[tuple[str, float]]:
    yield "promise", plan.outlook.promise_rps
    yield "capacity", plan.throughput_rps
    if banded := banded_rate(plan):
        yield "capacity, P10", banded.low
        yield "capacity, P90", banded.high


def _costs(plan: Plan, usd_per_s: float | None) -> tuple[Column[tuple[str, float]], ...]:
    workload, watts = plan.scenario.workload, sum(most_watts(plan).values())
    output = workload.mean_output_tokens
    tokens = workload.mean_input_tokens + output

    def money_of(name: str, value: Callable[[float, float], float | None]) -> Column[tuple[str, float]]:
        """Of the rent in USD/s and the rate; None where there is no rent."""
        return Column(name, lambda row: None if usd_per_s is None else value(usd_per_s, row[1]))

    return (
        Column("At the", lambda row: row[0]),
        Column("Requests/s", lambda row: row[1]),
        Column("Tokens/s", lambda row: row[1] * tokens),
        money_of("USD/hour", lambda _usd, _rate: plan.price_usd_per_hour),
        money_of("USD per M tokens", lambda usd, rate: usd / (rate * tokens) * _MILLION),
        money_of("USD per M output tokens", lambda usd, rate: usd / (rate * output) * _MILLION if output > 0 else None),
        money_of("Requests per USD", lambda usd, rate: rate / usd),
        Column("Most J per token", lambda row: watts / (row[1] * tokens)),
    )
