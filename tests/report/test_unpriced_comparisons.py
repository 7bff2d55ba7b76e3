"""Plans of fleets whose prices are not all known: no comparison calls them cheap."""

from dataclasses import replace

from planner.domain import Plan
from planner.plans.comparing import compare_plans
from planner.report.comparison.changes import diff_head
from planner.report.comparison.plan_diff import changes_section
from planner.report.comparison.side_by_side import verdict
from planner.report.comparison.side_by_side_page import comparison_page
from planner.report.kit.markdown import page_text, table_text
from planner.report.kit.tree import DataTable
from planner.runs.pages import difference


def unpriced(plan: Plan, types: int) -> Plan:
    """The plan with so many GPU types of its fleet that nobody named a price of."""
    items = plan.scenario.inventory.items
    changed = tuple(
        replace(item, price_known=n >= types, price_usd_per_gpu_hour=item.price_usd_per_gpu_hour if n >= types else 0.0)
        for n, item in enumerate(items)
    )
    inventory = replace(plan.scenario.inventory, items=changed)
    return replace(plan, scenario=replace(plan.scenario, inventory=inventory))


def test_a_fleet_without_a_price_is_not_the_cheapest(plan: Plan) -> None:
    for types in (1, len(plan.scenario.inventory.items)):
        comparison = compare_plans({"priced": plan, "unpriced": unpriced(plan, types)}, [{}, {}])
        assert "**priced costs least per token**" in verdict(comparison)
        assert "the price of unpriced is not known" in verdict(comparison)
        (row,) = [
            line for line in page_text(comparison_page(comparison)).splitlines() if line.startswith("| USD/M tokens")
        ]
        assert row.endswith("| – |")
        first, second = (compared.figures for compared in comparison.plans)
        assert "-100" not in table_text(diff_head((first, second)))
        assert "priced" in comparison_page(comparison).figures[1].label


def test_changes_of_a_partly_priced_fleet_are_of_no_money(plan: Plan) -> None:
    partly = unpriced(plan, 1)
    assert plan.priced
    assert not partly.priced
    assert partly.price_usd_per_hour > 0
    table, *_ = changes_section(difference(plan, partly)).blocks
    assert isinstance(table, DataTable)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["USD/hour"] == ("512.00", "–", "–")
    assert rows["USD/M tokens"][1:] == ("–", "–")


def test_where_no_price_is_known_nothing_costs_least(plan: Plan) -> None:
    comparison = compare_plans({"a": unpriced(plan, 1), "b": unpriced(plan, 1)}, [{}, {}])
    assert "no fleet has all its prices" in verdict(comparison)
    assert [figure.label for figure in comparison_page(comparison).figures] == ["requests/s at most, a"]
