"""What changed since another run."""

import re
from dataclasses import dataclass

from planner.domain import Plan
from planner.domain.deployed import PlanDiff
from planner.report.comparison.plan_diff import diff_page
from planner.report.kit.html.blocks import Cell, DataTable, Prose, Section
from planner.report.page.amounts import most_watts, used_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Another run: its `plan`, how the page calls it, and what changes from it to the page's plan."""

    name: str
    plan: Plan
    difference: PlanDiff


def changes_section(plan: Plan, earlier: Earlier) -> Section:
    """Figures of both beside each other, then islands, GPUs and requests that change."""
    body = diff_page(earlier.difference).partition("\n\n")[2]
    return Section(
        name="changes",
        title=f"Changed since {earlier.name}",
        blocks=(_figures(plan, earlier.plan),),
        folded=(Prose(markdown=re.sub(r"^## ", "### ", body, flags=re.MULTILINE)),),
        fold="What starts, stops, restarts and is routed anew",
    )


def _figures(plan: Plan, before: Plan) -> DataTable:
    pairs = [(name, old, new) for (name, old), (_, new) in zip(_values(before), _values(plan), strict=True)]
    return DataTable(
        columns=("Figure", "Before", "Now", "Change (%)"),
        rows=tuple((name, old, new, _change(old, new)) for name, old, new in pairs),
        caption="Of the other run and of this one.",
    )


def _change(old: Cell, new: Cell) -> float | None:
    if isinstance(old, str) or isinstance(new, str) or not old or new is None:
        return None
    return 100 * (new / old - 1)


def _values(plan: Plan) -> list[tuple[str, Cell]]:
    band, certificate = plan.rate_band, plan.certificate
    serves = plan.throughput_rps > 0
    priced = plan.priced and plan.price_usd_per_hour > 0
    return [
        ("Capacity (requests/s)", plan.throughput_rps),
        ("P10 of it", band.low_rps if band else None),
        ("P90 of it", band.high_rps if band else None),
        ("Promise (requests/s)", plan.outlook.promise_rps),
        ("USD/hour", plan.price_usd_per_hour if priced else None),
        ("USD per million tokens", plan.price_usd_per_million_tokens if serves and priced else None),
        ("GPUs", sum(plan.fleet.values())),
        ("GPUs at work", sum(used_gpus(plan).values())),
        ("Most kW", sum(most_watts(plan).values()) / 1000),
        ("Bound of its GPUs (requests/s)", certificate.bound_rps if certificate else None),
    ]
