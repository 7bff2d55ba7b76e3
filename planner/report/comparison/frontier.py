"""Rate against price as a table, a page and a figure. matplotlib is loaded with the figure, not with this file."""

from typing import TYPE_CHECKING

from planner.domain import CostMode, Frontier, FrontierPoint, Scenario
from planner.report.kit.frames import Frame
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import counted, money, rate, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def frontier_frame(frontier: Frontier) -> Frame:
    """One row a point; `gpus_<type>`: how many of the type are rented."""
    import pandas as pd  # noqa: PLC0415  # half a second to load: only who asks for a table pays

    return pd.DataFrame([_row(point) for point in frontier.points])


def _row(point: FrontierPoint) -> dict[str, object]:
    return {
        "budget_usd_per_hour": point.budget_usd_per_hour,
        "price_usd_per_hour": point.price_usd_per_hour,
        "rate_rps": point.rate_rps,
        "bound_rps": point.bound_rps,
        "gap": point.gap,
        "requests_per_usd": point.requests_per_usd,
        "watts": point.watts,
        **{f"gpus_{gpu}": count for gpu, count in point.gpus},
        "layout": point.layout.label,
    }


def frontier_page(frontier: Frontier, scenario: Scenario) -> str:
    """The frontier as Markdown, ending in a newline."""
    best, last = frontier.most_per_dollar, frontier.points[-1]
    parts = [
        f"# Frontier: {escaped(scenario.name)}",
        f"**Of these points, {_mix(best)} serve most per USD**: {_words(best)}. The most found is {_words(last)}.",
        *_reference(scenario),
        _table(frontier),
        "Each row is the best layout found for a budget; no layout of that budget serves more than the bound, under "
        "this model. Budgets whose layout serves no more than a cheaper one are left out. Watts are of the rented GPUs "
        "at full load.",
        *_unsolved(frontier),
        *_unasked(frontier),
        "![Rate against price, and the mix at each point](frontier.png)",
    ]
    return "\n\n".join(parts) + "\n"


def _words(point: FrontierPoint) -> str:
    return (
        f"{rate(point.rate_rps)} requests/s for {money(point.price_usd_per_hour)} USD/hour, "
        f"{whole(point.requests_per_usd)} requests per USD"
    )


def _mix(point: FrontierPoint) -> str:
    return ", ".join(f"{count:,} {escaped(gpu)}" for gpu, count in point.gpus if count)


def _reference(scenario: Scenario) -> list[str]:
    if scenario.cost.mode is not CostMode.REFERENCE:
        return []
    return ["> **Warning: reference mode.** The rates follow the published paper and simulator and are not physical."]


def _table(frontier: Frontier) -> str:
    types = [gpu for gpu, _ in frontier.points[0].gpus]
    header = ["USD/hour", "Requests/s", "Bound", "Gap", "Requests per USD", *map(escaped, types), "kW"]
    best = frontier.most_per_dollar
    return table(header, [_line(point, point is best) for point in frontier.points], "r" * len(header))


def _line(point: FrontierPoint, best: bool) -> list[str]:
    per_usd = whole(point.requests_per_usd)
    return [
        money(point.price_usd_per_hour),
        rate(point.rate_rps),
        rate(point.bound_rps),
        f"{100 * max(0.0, point.gap):.1f} %",
        f"**{per_usd}**" if best else per_usd,
        *(whole(count) for _, count in point.gpus),
        f"{point.watts / 1000:.1f}",
    ]


def _unasked(frontier: Frontier) -> list[str]:
    if not frontier.unasked:
        return []
    return [
        f"**Interrupted**: {counted(len(frontier.unasked), 'further budget')} up to {money(frontier.unasked[-1])} "
        "USD/hour were not looked at."
    ]


def _unsolved(frontier: Frontier) -> list[str]:
    if not frontier.unsolved:
        return []
    budgets = ", ".join(money(budget) for budget in frontier.unsolved)
    return [
        f"For {counted(len(frontier.unsolved), 'budget')} no layout was found in the time given ({budgets} USD/hour): "
        "raise search.time\\_limit\\_s."
    ]


def frontier_figure(frontier: Frontier, scenario: Scenario) -> "Figure":
    """Rate against price under its bound; below, the share of each GPU type at each point."""
    from planner.report.comparison import frontier_panels  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return frontier_panels.draw(frontier, scenario)
