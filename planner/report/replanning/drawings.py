"""The figures of a change, drawn. matplotlib is loaded with this file."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.domain.replanning.changes import ChangePoint
from planner.domain.replanning.rollouts import RollOut
from planner.report.kit import style
from planner.report.replanning.plots import timeline_of

HEIGHT_IN = 4.2
ROOM_ABOVE = 1.12


def draw_roll_out(roll_out: RollOut, plan: str) -> Figure:
    """Requests/s that can be served from step to step, beside the deployed plan's and what is never undercut."""
    figure = style.blank(HEIGHT_IN)
    style.heading(figure, f"{style.shown(plan, 40)}: what can be served while the change is rolled out")
    axes: Axes = figure.subplots()
    points = timeline_of(roll_out)
    if not points:
        style.nothing_to_show(axes, "nothing changes")
        return figure
    minutes, rates = [at for at, _ in points], [rps for _, rps in points]
    end = minutes[-1] + max(1.0, 0.05 * minutes[-1])
    axes.stairs(rates, [*minutes, end], baseline=None, color=style.palette()[0], linewidth=1.8, label="can be served")
    axes.axhline(roll_out.current_rps, color=style.faint(), linestyle="--", linewidth=1.2, label="deployed")
    axes.axhline(roll_out.floor_rps, color=style.ALARM, linestyle="-.", linewidth=1.2, label="never below")
    for step, at in zip(roll_out.steps, minutes, strict=False):
        axes.annotate(str(step.number), (at, step.during_rps), textcoords="offset points", xytext=(4, 4))
    axes.set_xlim(0, end)
    axes.set_ylim(0, ROOM_ABOVE * max(*rates, roll_out.current_rps))
    axes.set_xlabel("minutes since the begin; numbers are steps")
    axes.set_ylabel("requests/s")
    style.legend_beside(axes)
    return figure


def draw_frontier(frontier: Sequence[ChangePoint], plan: str) -> Figure:
    """Requests/s of the best plan for so many GPUs touched, the chosen one marked."""
    figure = style.blank(HEIGHT_IN)
    style.heading(figure, f"{style.shown(plan, 40)}: rate against change")
    axes: Axes = figure.subplots()
    if not frontier:
        style.nothing_to_show(axes, "no frontier was asked for")
        return figure
    points = sorted(frontier, key=lambda point: point.gpus_touched)
    axes.plot(
        [point.gpus_touched for point in points],
        [point.rate_rps for point in points],
        color=style.palette()[0],
        marker="o",
        markersize=4.5,
        linewidth=1.6,
        label="best plan",
    )
    chosen = [point for point in points if point.chosen]
    axes.scatter(
        [point.gpus_touched for point in chosen],
        [point.rate_rps for point in chosen],
        marker="*",
        s=180,
        color=style.palette()[1],
        zorder=3,
        label="chosen",
    )
    axes.set_ylim(0, ROOM_ABOVE * max(1e-9, *(point.rate_rps for point in points)))
    axes.set_xlabel("GPUs touched")
    axes.set_ylabel("requests/s")
    style.legend_beside(axes)
    return figure
