"""What it costs: rent, USD per million tokens, watts."""

from planner.domain import Plan
from planner.report.kit.bands import banded_rate
from planner.report.kit.html.blocks import Cell, DataTable, Section
from planner.report.page.amounts import most_watts

_MILLION = 1e6


def cost_section(plan: Plan) -> Section:
    """Money and power for each rate that the plan is told at; prices that nobody gave are named."""
    return Section(name="cost", title="Price and power", blocks=(_table(plan),))


def _table(plan: Plan) -> DataTable:
    rates = [("promise", plan.outlook.promise_rps), ("capacity", plan.throughput_rps)]
    if banded := banded_rate(plan):
        rates += [("capacity, P10", banded.low), ("capacity, P90", banded.high)]
    missing = [gpu for gpu in plan.scenario.inventory.without_price if plan.fleet[gpu]]
    caption = "The whole fleet is paid for, whatever the load. Tokens are of prompts and answers, M is a million."
    if missing:
        caption += f" No price is given for {', '.join(missing)}, so there are no sums of money."
    return DataTable(
        columns=(
            *("At the", "Requests/s", "Tokens/s", "USD/hour", "USD per M tokens"),
            *("USD per M output tokens", "Requests per USD", "Most J per token"),
        ),
        rows=tuple(_row(plan, name, rate_rps, priced=not missing) for name, rate_rps in rates if rate_rps > 0),
        caption=caption,
    )


def _row(plan: Plan, name: str, rate_rps: float, *, priced: bool) -> tuple[Cell, ...]:
    workload = plan.scenario.workload
    tokens = rate_rps * (workload.mean_input_tokens + workload.mean_output_tokens)
    output = rate_rps * workload.mean_output_tokens
    usd, watts = plan.price_usd_per_hour, sum(most_watts(plan).values())
    money: tuple[Cell, ...] = (None, None, None, None)
    if priced and usd > 0:
        usd_per_s = usd / 3600
        per_output = usd_per_s / output * _MILLION if output > 0 else None
        money = (usd, usd_per_s / tokens * _MILLION, per_output, rate_rps / usd_per_s)
    return (name, rate_rps, tokens, *money, watts / tokens)
