"""Figures of a change: the rate over the roll-out, and the frontier of rate against change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.domain.changes import ChangePoint
from planner.domain.rollouts import RollOut
from planner.errors import InputError
from planner.report.replanning.plots import frontier_plots, roll_out_plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANGE_FIGURES = {
    "rollout": "What can be served while the change is rolled out",
    "frontier": "Rate against change: the best plan for so many GPUs touched",
}
"""Names and titles."""


def change_figure(roll_out: RollOut, frontier: Sequence[ChangePoint], name: str, plan: str) -> "Figure":
    """The figure `name`, one of `CHANGE_FIGURES`, of the plan called `plan`. Raises InputError for another name."""
    if name not in CHANGE_FIGURES:
        raise InputError(
            f"Figure: the name must be one of {', '.join(CHANGE_FIGURES)}, got {name!r}.",
            hint="Choose one of these names.",
        )
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    if name == "rollout":
        words, plots = "what can be served while the change is rolled out", roll_out_plots(roll_out)
        return still(plan, words, plots, "nothing changes")
    return still(plan, "rate against change", frontier_plots(frontier), "no frontier was asked for")
