"""A plan as a notebook shows it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.api.cards import Cell, card, rows_of

if TYPE_CHECKING:
    from planner.api.deployments import PlannedDeployment

_COLUMNS = ("island", "phase", "gpu", "size", "servers", "gpus_per_server", "tp", "dp", "batch_size", "share")


def plan_card(plan: "PlannedDeployment", rate: str) -> str:
    """Its rate (as it is told), its facts, a row an island or pool."""
    bucketed = plan.record.buckets is not None
    frame = plan.pools if bucketed else plan.islands
    return card(
        f"Plan {plan.name}: {rate} requests/s",
        facts=dict(_facts(plan)),
        rows=rows_of(frame[[column for column in _COLUMNS if column in frame]]),
        rest="plan.pools" if bucketed else "plan.islands",
    )


def _facts(plan: "PlannedDeployment") -> Iterator[tuple[str, Cell]]:
    cost, gap, placement = plan.cost, plan.gap, plan.record.placement
    if plan.promise_rps is not None:
        yield "promise", f"{plan.promise_rps:.1f} requests/s"
    if gap is not None:
        yield "below the best of its form", f"at most {gap:.1%}"
    if cost.usd_per_hour and not plan.record.priced:
        without = [gpu for gpu in plan.scenario.inventory.without_price if plan.record.fleet[gpu]]
        yield "price", f"{cost.usd_per_hour:,.2f} USD/hour without {', '.join(without)}"
    elif cost.usd_per_hour:
        yield "price", f"{cost.usd_per_hour:,.2f} USD/hour, {cost.usd_per_million_tokens:.3f} USD per 10⁶ tokens"
    yield "GPUs", ", ".join(f"{count} {gpu}" for gpu, count in plan.record.fleet.items())
    if placement is not None and plan.scenario.cluster is not None:
        short = f", {len(placement.shortfalls)} without room" if placement.shortfalls else ""
        yield "placed", f"on {plan.scenario.cluster.name}: {len(placement.sites)} islands{short}"
    if plan.record.buckets is not None:
        yield "latency", "plan.latency; pictures: plan.figure('routing'), 'mix', 'throughput' …"
