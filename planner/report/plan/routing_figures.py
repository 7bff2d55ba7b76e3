"""Who serves which range: shares and rates per island group, one panel a phase."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

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

EVEN = 0.86
"""Width of a bar where all are equally wide."""

APART = 0.024
"""Part of the panel that a length at an edge takes."""

Matrix = Callable[[Plan, Phase, Sequence[IslandGroup]], list[list[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Where a range's bar begins, and how wide it is."""

    left: float
    width: float


def draw_shares(plan: Plan) -> Figure:
    """Share of each range's requests per island group; as wide as a bar is its range's share of all requests."""
    figure, panels = _panels(plan, "who serves which prompts")
    bars = _by_requests(intervals(plan))
    for axes, phase in zip(panels, PHASES, strict=True):
        _stack(axes, plan, phase, shares, bars)
        axes.set_ylabel(f"{phase}: share of\nthe range's requests (%)")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        axes.set_ylim(0, 1)
        _finish(axes, plan, phase)
        axes.set_xlim(0, 1)
    _name_edges(panels[-1], intervals(plan))
    return figure


def draw_rates(plan: Plan) -> Figure:
    """Requests/s of each range per island group; strokes are the target mix at the plan's rate, bars its band."""
    figure, panels = _panels(plan, "requests served per range")
    target = [plan.throughput_rps * interval.probability for interval in intervals(plan)]
    bars = [Bar(left=at - EVEN / 2, width=EVEN) for at in range(len(target))]
    tops = [_stack(axes, plan, phase, rates, bars) for axes, phase in zip(panels, PHASES, strict=True)]
    name_ranges(panels[-1], intervals(plan))
    for axes, phase in zip(panels, PHASES, strict=True):
        starts, ends = [bar.left for bar in bars], [bar.left + bar.width for bar in bars]
        axes.hlines(target, starts, ends, color=style.ink(), linewidth=1.6, label="target mix", zorder=3)
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
    return figure, panels


def _finish(axes: Axes, plan: Plan, phase: Phase) -> None:
    if plan.routing:
        style.legend_beside(axes, f"{phase} islands\n(type/GPUs × islands)")
    else:
        style.nothing_to_show(axes, NOTHING)


def _by_requests(ranges: Sequence[Interval]) -> list[Bar]:
    """Bars side by side, as wide as the shares of all requests."""
    total = sum(interval.probability for interval in ranges) or 1.0
    ends = list(accumulate((interval.probability / total for interval in ranges), initial=0.0))
    return [Bar(left=left, width=right - left) for left, right in pairwise(ends)]


def _name_edges(axes: Axes, ranges: Sequence[Interval]) -> None:
    """Lengths at the edges of bars, where there is room for them; the last always."""
    bars = _by_requests(ranges)
    edges = [(bar.left, interval.start) for bar, interval in zip(bars, ranges, strict=True)]
    edges += [(1.0, ranges[-1].end)] if ranges else []
    ticks: list[tuple[float, int]] = []
    for at, length in edges:
        if not ticks or at - ticks[-1][0] >= APART:
            ticks.append((at, length))
    if edges and ticks[-1] != edges[-1]:
        ticks = [*(tick for tick in ticks if 1.0 - tick[0] >= APART), edges[-1]]
    axes.set_xticks(
        [at for at, _ in ticks], [f"{length:,}" for _, length in ticks], rotation=90, fontsize=style.points(7.0)
    )
    axes.set_xlabel("input length (tokens) at the edges of ranges, as wide as their share of all requests")


def name_ranges(axes: Axes, ranges: Sequence[Interval]) -> None:
    """Ranges along the horizontal axis, upright so that thirty fit."""
    step = -(-len(ranges) // TICKS) or 1
    ticks = range(0, len(ranges), step)
    axes.set_xticks(list(ticks), [ranges[i].label for i in ticks], rotation=90, fontsize=style.points(7.0))
    axes.set_xlim(-0.6, max(len(ranges), 1) - 0.4)
    axes.set_xlabel("input length (tokens)")


def _stack(axes: Axes, plan: Plan, phase: Phase, matrix: Matrix, bars: Sequence[Bar]) -> float:
    """Draws the bars; returns the height of the tallest."""
    listed = merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    base = [0.0] * len(bars)
    hatches = style.type_hatches(plan.scenario.inventory)
    for group, colour, row in zip(listed, style.group_colours(plan, listed), matrix(plan, phase, listed), strict=True):
        axes.bar(
            [bar.left for bar in bars],
            row,
            bottom=base,
            width=[bar.width for bar in bars],
            align="edge",
            color=colour,
            edgecolor=style.paper(),
            linewidth=0.4,
            hatch=hatches[group.gpu],
            label=_legend_label(group),
        )
        base = [b + r for b, r in zip(base, row, strict=True)]
    return max(base, default=0.0)


def _legend_label(group: IslandGroup) -> str:
    return style.shown(group.gpu) + group.label.removeprefix(group.gpu)
