"""Whether each phase serves the ranges in the proportions of the workload."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain import PHASES, Phase, Plan
from planner.report.kit import style
from planner.report.plan.routing import achieved_mix, intervals
from planner.report.plan.routing_figures import NOTHING, name_ranges

HEIGHT_IN = 6.0
BAR = 0.4
LEAST_SPAN = 0.5
"""Least half-width of the deviation panel (percentage points): rounding must not look like a finding."""


def draw(plan: Plan) -> Figure:
    """Achieved and target probability per range and phase; below, the difference."""
    figure = style.blank(HEIGHT_IN)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    style.titled(figure, plan, "served mix against the workload's")
    target = [100 * interval.probability for interval in intervals(plan)]
    achieved = {phase: [100 * p for p in achieved_mix(plan, phase)] for phase in PHASES}
    _bars(upper, achieved)
    upper.hlines(
        target,
        [at - BAR for at in range(len(target))],
        [at + BAR for at in range(len(target))],
        color=style.ink(),
        linewidth=1.6,
        label="target",
    )
    upper.set_ylabel("share of requests (%)")
    style.legend_beside(upper)
    _deviations(lower, target, achieved)
    name_ranges(lower, intervals(plan))
    if not plan.routing:
        style.nothing_to_show(upper, NOTHING)
    return figure


def _bars(axes: Axes, values: dict[Phase, list[float]]) -> None:
    for side, phase in zip((-1, 1), PHASES, strict=True):
        axes.bar(
            [at + side * BAR / 2 for at in range(len(values[phase]))],
            values[phase],
            width=BAR,
            color=style.PHASE_COLOURS[phase],
            hatch=style.PHASE_HATCHES[phase],
            edgecolor=style.paper(),
            linewidth=0.3,
            label=phase.value,
        )


def _deviations(axes: Axes, target: list[float], achieved: dict[Phase, list[float]]) -> None:
    gaps = {phase: [a - t for a, t in zip(row, target, strict=True)] for phase, row in achieved.items()}
    _bars(axes, gaps)
    axes.axhline(0, color=style.faint(), linewidth=0.8)
    span = max([LEAST_SPAN, *(1.15 * abs(gap) for row in gaps.values() for gap in row)])
    axes.set_ylim(-span, span)
    axes.set_ylabel("served less target\n(percentage points)")
