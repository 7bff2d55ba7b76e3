"""The search's parameters drawn: how much of the rate each explains, and every trial over each of them."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain import Plan
from planner.report.kit import style
from planner.report.plan.certificate import rate_bound
from planner.report.plan.importance import ParameterImportance, importance_of, trials_told
from planner.report.plan.search_figure import mark_plan

ROW_IN, FRAME_IN, LEAST_IN = 0.3, 1.3, 2.6
PANEL_IN, ACROSS = 2.5, 3
MOST_BARS, MOST_SLICES = 24, 12
"""Parameters drawn, the most important first."""


def draw_importance(plan: Plan) -> Figure:
    """A bar a parameter: the share of the rate's variance that it explains by itself; the sign of its correlation."""
    rows = importance_of(plan)[:MOST_BARS]
    figure = style.blank(max(LEAST_IN, FRAME_IN + ROW_IN * len(rows)))
    axes = figure.add_subplot()
    style.titled(figure, plan, f"what the search's parameters explain, of {len(trials_told(plan))} layouts")
    shares = [100 * row.share for row in rows]
    bars = axes.barh(range(len(rows)), shares, height=0.7, color=style.palette()[0])
    axes.bar_label(bars, [_bar_words(row) for row in rows], padding=3, fontsize=style.points(7.5))
    axes.set_yticks(range(len(rows)), [style.shown(row.name) for row in rows])
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(5.0, 1.25 * max(shares)))
    axes.set_xlabel("variance of the rate that a parameter explains by itself (%); ρ: rank correlation with the rate")
    return figure


def _bar_words(row: ParameterImportance) -> str:
    return f"{100 * row.share:.0f} %, ρ {row.rank_correlation:+.2f}"


def draw_slices(plan: Plan) -> Figure:
    """Every layout's rate over each parameter, a panel a parameter, the most important first; the plan as a star."""
    rows = importance_of(plan)[:MOST_SLICES]
    lines = -(-len(rows) // ACROSS)
    figure = style.blank(1.0 + PANEL_IN * lines)
    style.titled(figure, plan, "rate of the layouts tried over each parameter")
    grid = figure.subplots(lines, min(ACROSS, len(rows)), squeeze=False, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place < len(rows):
            _slice(axes, plan, rows[place].name)
        else:
            axes.set_visible(False)
    for line in grid:
        line[0].set_ylabel("rate (requests/s)")
    style.legend_beside(grid[0][-1] if len(rows) >= ACROSS or lines == 1 else grid[0][0])
    return figure


def _slice(axes: Axes, plan: Plan, name: str) -> None:
    points = points_over(plan, name)
    axes.scatter(
        [x for x, _, _ in points], [y for _, y, _ in points], s=13, color=style.palette()[0], label="one layout"
    )
    for x, y, index in points:
        if index == plan.search.best_trial:
            mark_plan(axes, x, y, index)
    bound = rate_bound(plan)
    if bound is not None:
        axes.axhline(bound, color=style.ink(), linewidth=1.0, linestyle="--", label="no layout serves more")
    axes.set_xlabel(style.shown(name, 30))
    axes.set_ylim(bottom=0)


def points_over(plan: Plan, name: str) -> Sequence[tuple[float, float, int]]:
    """Value of a parameter, rate (requests/s) and index of every trial that has it."""
    return [
        (dict(trial.parameters)[name], plan.search.judged_rps(trial), trial.index)
        for trial in trials_told(plan)
        if name in dict(trial.parameters)
    ]
