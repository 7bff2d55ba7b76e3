"""The panels of the frontier: requests/s over USD/hour, and the mix of GPUs on the same axis."""

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain import CostMode, Frontier, Scenario
from planner.report.kit import style
from planner.report.kit.quantities import significant, whole

HEIGHT_IN = 6.4
WIDEST_BAR = 0.05
THINNEST_BAR = 0.006
"""Bars' widths as shares of the axis."""

ROOM = 0.034
"""Space that the number over a bar needs, as a share of the axis."""


def draw(frontier: Frontier, scenario: Scenario) -> Figure:
    """Rate and bound above, the mix below."""
    figure = style.blank(HEIGHT_IN)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1.7, 1))
    mode = " [reference mode: not physical]" if scenario.cost.mode is CostMode.REFERENCE else ""
    style.heading(figure, f"{style.shown(scenario.name, 40)}: requests/s against price{mode}")
    _rates(upper, frontier, scenario.objective.demand_rps or scenario.workload.arrival_rps or 0.0)
    _mix(lower, frontier, scenario)
    return figure


def _rates(axes: Axes, frontier: Frontier, demand_rps: float) -> None:
    prices = [point.price_usd_per_hour for point in frontier.points]
    budgets = [prices[0], *(point.budget_usd_per_hour for point in frontier.points)]
    bounds = [frontier.points[0].bound_rps, *(point.bound_rps for point in frontier.points)]
    axes.plot(
        budgets,
        bounds,
        drawstyle="steps-pre",  # of any price up to a budget, that budget's bound holds
        color=style.faint(),
        linestyle="--",
        linewidth=1.3,
        marker="_",
        markersize=9,
        label="bound at each budget:\nno layout serves more",
    )
    axes.plot(
        prices,
        [point.rate_rps for point in frontier.points],
        color=style.palette()[0],
        linewidth=1.8,
        marker="o",
        markersize=4.5,
        label="best layout found",
    )
    highest = _bands(axes, frontier)
    best = frontier.most_per_dollar
    axes.scatter(
        [best.price_usd_per_hour],
        [best.rate_rps],
        marker="*",
        s=170,
        color=style.palette()[1],
        edgecolors=style.ink(),
        linewidths=0.7,
        zorder=5,
        label=f"most per USD\n({whole(best.requests_per_usd)} requests)",
    )
    if demand_rps:
        label = f"demand ({significant(demand_rps)})"
        axes.axhline(demand_rps, color=style.ink(), linewidth=1.2, linestyle=":", label=label)
    axes.set_ylabel("rate of the whole mix (requests/s)")
    axes.set_ylim(0, 1.06 * max(*bounds, highest, demand_rps))
    style.legend_beside(axes)


def _bands(axes: Axes, frontier: Frontier) -> float:
    """P10 to P90 of every rate that has a band; returns the highest."""
    rows = [(point.price_usd_per_hour, point.band) for point in frontier.points]
    banded = [(price, band) for price, band in rows if band is not None]
    if not banded:
        return 0.0
    axes.vlines(
        [price for price, _ in banded],
        [band.low_rps for _, band in banded],
        [band.high_rps for _, band in banded],
        color=style.palette()[0],
        alpha=0.5,
        linewidth=1.4,
        label="P10–P90 of the rate",
    )
    return max(band.high_rps for _, band in banded)


def _mix(axes: Axes, frontier: Frontier, scenario: Scenario) -> None:
    prices = [point.price_usd_per_hour for point in frontier.points]
    span = (max(prices) - min(prices)) or max(prices)
    gaps = [b - a for a, b in pairwise(prices)]
    width = max(THINNEST_BAR * span, min([WIDEST_BAR * span, *(0.85 * gap for gap in gaps)]))
    floor = [0.0] * len(prices)
    hatches = style.type_hatches(scenario.inventory)
    for gpu, colour in style.type_colours(scenario.inventory).items():
        shares = [100 * dict(point.gpus)[gpu] / sum(count for _, count in point.gpus) for point in frontier.points]
        axes.bar(
            prices,
            shares,
            width=width,
            bottom=floor,
            color=colour,
            edgecolor=style.paper(),
            hatch=hatches[gpu],
            linewidth=0,
            label=style.shown(gpu),
        )
        floor = [low + share for low, share in zip(floor, shares, strict=True)]
    _totals(axes, frontier, ROOM * span)
    axes.set_ylabel("share of the GPUs (%)")
    axes.set_xlabel("price (USD/hour); over the bars: GPUs rented")
    axes.set_ylim(0, 112)
    axes.set_yticks([0, 25, 50, 75, 100])
    style.legend_beside(axes, "GPU type")


def _totals(axes: Axes, frontier: Frontier, room: float) -> None:
    """GPUs rented over each bar, where there is room for the number."""
    last = float("-inf")
    for point in frontier.points:
        at = point.price_usd_per_hour
        if at - last >= room:
            total = sum(count for _, count in point.gpus)
            axes.text(at, 101.5, whole(total), ha="center", va="bottom", fontsize=style.points(7.5), color=style.ink())
            last = at
