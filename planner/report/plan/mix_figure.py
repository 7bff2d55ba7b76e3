"""Whether each phase serves the ranges in the proportions of the workload."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain import PHASES, Phase, Plan
from planner.report.kit import style
from planner.report.plan.routing import achieved_mix, intervals
from planner.report.plan.routing_figures import NOTHING, name_ranges

HEIGHT_IN = 6.0
BAR = 0.4
RATIOS = {False: (1.0,), True: (2.2, 1.0)}
LEAST_GAP = 0.05
"""Percentage points; smaller differences are rounding, and have no panel."""

ALONE_IN = 4.2
LEAST_SPAN = 0.5
"""Least half-width of the deviation panel (percentage points): rounding must not look like a finding."""


def draw(plan: Plan) -> Figure:
    """Achieved and target probability per range and phase; below, the difference where there is any."""
    target = [100 * interval.probability for interval in intervals(plan)]
    achieved = {phase: [100 * p for p in achieved_mix(plan, phase)] for phase in PHASES}
    gaps = {phase: [a - t for a, t in zip(row, target, strict=True)] for phase, row in achieved.items()}
    differs = bool(plan.routing) and any(abs(gap) >= LEAST_GAP for row in gaps.values() for gap in row)
    figure = style.blank(HEIGHT_IN if differs else ALONE_IN)
    panels = figure.subplots(1 + differs, 1, sharex=True, squeeze=False, height_ratios=RATIOS[differs])
    upper = panels[0][0]
    equal = plan.routing and not differs
    style.titled(figure, plan, "served mix equals the workload's" if equal else "served mix against the workload's")
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
    if differs:
        _deviations(panels[1][0], gaps)
    name_ranges(panels[-1][0], intervals(plan))
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


def _deviations(axes: Axes, gaps: dict[Phase, list[float]]) -> None:
    _bars(axes, gaps)
    axes.axhline(0, color=style.faint(), linewidth=0.8)
    span = max([LEAST_SPAN, *(1.15 * abs(gap) for row in gaps.values() for gap in row)])
    axes.set_ylim(-span, span)
    axes.set_ylabel("served less target\n(percentage points)")
