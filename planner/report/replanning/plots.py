"""Plots and figures of a change: the rate over the roll-out, and the frontier of rate against change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.domain.changes import ChangePoint
from planner.domain.rollouts import RollOut
from planner.report.kit.plots import Kind, Plot, require_figure, series_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCUMENT = "changes.json"


def change_plots(roll_out: RollOut, frontier: Sequence[ChangePoint]) -> tuple[Plot, ...]:
    """Those that there are; a frontier of one point is none."""
    return (*roll_out_plots(roll_out), *(frontier_plots(frontier) if len(frontier) > 1 else ()))


def timeline_of(roll_out: RollOut) -> list[tuple[float, float]]:
    """(minutes since the begin, requests/s that can be served from then on), the end with what serves then."""
    points, now_s = [], 0.0
    for step in roll_out.steps:
        points.append((now_s / 60, step.during_rps))
        now_s += step.seconds
    return [*points, (now_s / 60, roll_out.steps[-1].after_rps)] if points else []


def roll_out_plots(roll_out: RollOut) -> tuple[Plot, ...]:
    """Requests/s that can be served from step to step, beside the deployed plan's and what is never undercut."""
    plot = Plot(
        name="roll-out",
        title="What can be served while the change is rolled out",
        says="Each level is a step: servers that drain or load do nothing meanwhile.",
        kind=Kind.STEPS,
        x="minutes since the begin",
        y="rate of the whole mix (requests/s)",
        series=(series_of("can be served", timeline_of(roll_out)),),
        bounds=(("deployed", roll_out.current_rps), ("never below", roll_out.floor_rps)),
        rest=DOCUMENT,
    )
    return (plot,) if roll_out.steps else ()


def frontier_plots(frontier: Sequence[ChangePoint]) -> tuple[Plot, ...]:
    """Requests/s of the best plan for so many GPUs touched, the chosen one marked."""
    by_gpus = sorted(frontier, key=lambda point: point.gpus_touched)
    points = [(float(point.gpus_touched), point.rate_rps) for point in by_gpus]
    chosen = [(float(point.gpus_touched), point.rate_rps) for point in frontier if point.chosen]
    marked = [series_of("chosen", chosen, tone="chosen", kind=Kind.DOTS)] if chosen else []
    plot = Plot(
        name="rate-over-change",
        title="Rate against change",
        says="The best plan for so many GPUs touched.",
        kind=Kind.LINES,
        x="GPUs touched",
        y="rate of the whole mix (requests/s)",
        series=(series_of("best plan", points), *marked),
        rest=DOCUMENT,
    )
    return (plot,) if frontier else ()


CHANGE_FIGURES = {
    "rollout": "What can be served while the change is rolled out",
    "frontier": "Rate against change: the best plan for so many GPUs touched",
}
"""Names and titles."""


def change_figure(roll_out: RollOut, frontier: Sequence[ChangePoint], name: str, plan: str) -> "Figure":
    """The figure `name`, one of `CHANGE_FIGURES`, of the plan called `plan`. Raises InputError for another name."""
    require_figure(name, CHANGE_FIGURES)
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    if name == "rollout":
        words, plots = "what can be served while the change is rolled out", roll_out_plots(roll_out)
        return still(plan, words, plots, "nothing changes")
    return still(plan, "rate against change", frontier_plots(frontier), "no frontier was asked for")
