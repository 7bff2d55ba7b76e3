"""Who serves which range: shares and rates per island group, one panel a phase."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from planner.domain import PHASES, Phase, Plan
from planner.report.kit import style
from planner.report.kit.bands import banded_rate
from planner.report.plan.groups import READABLE_GROUPS, IslandGroup, groups, merged, of_phase
from planner.report.plan.routing import Interval, intervals, rates, shares

HEIGHT_IN = 7.0
TICKS = 32
"""Ranges named on the axis; beyond, every second, third … is."""

NOTHING = "no requests are routed"

Matrix = Callable[[Plan, Phase, Sequence[IslandGroup]], list[list[float]]]


def draw_shares(plan: Plan) -> Figure:
    """Share of each range's requests per island group."""
    figure, panels = _panels(plan, "who serves which prompts")
    for axes, phase in zip(panels, PHASES, strict=True):
        _stack(axes, plan, phase, shares)
        axes.set_ylabel(f"{phase}: share of\nthe range's requests (%)")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        axes.set_ylim(0, 1)
        _finish(axes, plan, phase)
    return figure


def draw_rates(plan: Plan) -> Figure:
    """Requests/s of each range per island group; the line is the target mix at the plan's rate, bars its band."""
    figure, panels = _panels(plan, "requests served per range")
    target = [plan.throughput_rps * interval.probability for interval in intervals(plan)]
    tops = [_stack(axes, plan, phase, rates) for axes, phase in zip(panels, PHASES, strict=True)]
    for axes, phase in zip(panels, PHASES, strict=True):
        axes.plot(range(len(target)), target, color=style.ink(), linewidth=1.2, marker=".", label="target mix")
        highest = _band(axes, plan, target)
        axes.set_ylabel(f"{phase}: served\n(requests/s)")
        axes.set_ylim(0, 1.06 * max([*tops, *target, highest]) or 1.0)
        _finish(axes, plan, phase)
    return figure


def _band(axes: Axes, plan: Plan, target: Sequence[float]) -> float:
    """Bars from what the mix comes to at P10 of the plan's rate to that at P90; returns the highest."""
    banded = banded_rate(plan)
    if banded is None:
        return 0.0
    low, high = ([value * end / banded.value for value in target] for end in (banded.low, banded.high))
    axes.vlines(range(len(target)), low, high, color=style.ink(), linewidth=0.9, label="P10–P90 of the rate", zorder=3)
    return max(high, default=0.0)


def _panels(plan: Plan, title: str) -> tuple[Figure, Sequence[Axes]]:
    figure = style.blank(HEIGHT_IN)
    panels: Sequence[Axes] = figure.subplots(2, 1, sharex=True)
    style.titled(figure, plan, title)
    name_ranges(panels[-1], intervals(plan))
    return figure, panels


def _finish(axes: Axes, plan: Plan, phase: Phase) -> None:
    if plan.routing:
        style.legend_beside(axes, f"{phase} islands\n(type/GPUs × islands)")
    else:
        style.nothing_to_show(axes, NOTHING)


def name_ranges(axes: Axes, ranges: Sequence[Interval]) -> None:
    """Ranges along the horizontal axis, upright so that thirty fit."""
    step = -(-len(ranges) // TICKS) or 1
    ticks = range(0, len(ranges), step)
    axes.set_xticks(list(ticks), [ranges[i].label for i in ticks], rotation=90, fontsize=style.points(7.0))
    axes.set_xlim(-0.6, max(len(ranges), 1) - 0.4)
    axes.set_xlabel("input length (tokens)")


def _stack(axes: Axes, plan: Plan, phase: Phase, matrix: Matrix) -> float:
    """Draws the bars; returns the height of the tallest."""
    listed = merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    base = [0.0] * len(intervals(plan))
    for group, colour, row in zip(listed, style.group_colours(plan, listed), matrix(plan, phase, listed), strict=True):
        axes.bar(
            range(len(row)),
            row,
            bottom=base,
            width=0.86,
            color=colour,
            edgecolor=style.paper(),
            linewidth=0.4,
            hatch=style.PHASE_HATCHES[phase],
            label=_legend_label(group),
        )
        base = [b + r for b, r in zip(base, row, strict=True)]
    return max(base, default=0.0)


def _legend_label(group: IslandGroup) -> str:
    return style.shown(group.gpu) + group.label.removeprefix(group.gpu)
