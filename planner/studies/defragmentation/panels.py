"""Figures of a defragmentation study: what could be placed over the days, and what rhythms cost and bring."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.report.kit import style
from planner.studies.defragmentation.study import by_rhythm, mean_of, rhythm
from planner.studies.defragmentation.workload import ChurnRun

HEIGHT_IN = 3.4
HOURS_A_DAY = 24.0
WIDEST_LINE = 3.0
MOVES_WIDTH = 0.012
"""Of the days shown; rhythms stand beside each other."""

BARS = (
    ("placeable", "requests of 8 GPUs placeable"),
    ("not_full", "nodes with an idle GPU"),
    ("host_wait_h", "wait of tasks of 8 GPUs (h)"),
    ("moves", "moves"),
)


def churn_figures(runs: Sequence[ChurnRun]) -> dict[str, bytes]:
    """PNGs by name: `placeable` over the days (first seed), `rhythms` as means over seeds."""
    with style.look():
        return {"placeable": style.encoded(draw_placeable(runs)), "rhythms": style.encoded(draw_rhythms(runs))}


def draw_placeable(runs: Sequence[ChurnRun]) -> Figure:
    """Requests of eight GPUs that could be placed, hour by hour, a line a rhythm; moves below."""
    firsts = [group[0] for group in by_rhythm(runs).values()]
    figure = style.blank(2 * HEIGHT_IN)
    style.heading(figure, f"A churned cluster over time, seed {firsts[0].seed}")
    upper, lower = figure.subplots(2, 1, sharex=True)
    for turn, run in enumerate(firsts):
        days = [sample.hour / HOURS_A_DAY for sample in run.series]
        look = style.line_of(turn)
        wide = max(1.0, WIDEST_LINE - 0.7 * turn)  # lines that lie on each other show side by side
        placeable = [sample.placeable for sample in run.series]
        upper.plot(days, placeable, linewidth=wide, label=rhythm(run.every_hours), **look)
        if run.every_hours is not None:
            moving = [(sample.hour / HOURS_A_DAY, sample.moves) for sample in run.series if sample.moves]
            lower.bar(
                [day + MOVES_WIDTH * max(days) * (turn - len(firsts) / 2) for day, _ in moving],
                [moves for _, moves in moving],
                width=MOVES_WIDTH * max(days),
                color=look["color"],
                label=rhythm(run.every_hours),
            )
    upper.set_ylabel("requests of 8 GPUs placeable")
    upper.set_ylim(bottom=0)
    lower.set_ylabel("moves")
    lower.set_xlabel("days")
    style.legend_beside(upper)
    style.legend_beside(lower)
    return figure


def draw_rhythms(runs: Sequence[ChurnRun]) -> Figure:
    """Means over seeds, a panel a figure, a bar a rhythm."""
    groups = by_rhythm(runs)
    figure = style.blank(HEIGHT_IN)
    style.heading(figure, "Rhythms of defragmentation")
    for (name, words), axes in zip(BARS, figure.subplots(1, len(BARS)), strict=True):
        _bars(axes, [rhythm(hours) for hours in groups], [mean_of(group, name) or 0.0 for group in groups.values()])
        axes.set_title(words)
    return figure


def _bars(axes: Axes, names: Sequence[str], heights: Sequence[float]) -> None:
    looks = [style.bar_of(turn) for turn in range(len(names))]
    hatches, colours = [look["hatch"] for look in looks], [look["color"] for look in looks]
    bars = axes.bar(range(len(names)), heights, 0.7, color=colours, hatch=hatches, edgecolor=style.paper())
    axes.bar_label(bars, [f"{height:,.3g}" for height in heights], fontsize=style.points(7))
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
