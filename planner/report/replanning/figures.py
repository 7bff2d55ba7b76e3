"""Figures of a change: the rate over the roll-out, and the frontier of rate against change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.domain.replanning.changes import ChangePoint
from planner.domain.replanning.rollouts import RollOut
from planner.errors import InputError

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
    from planner.report.kit.style import look  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.replanning import drawings  # noqa: PLC0415  # as above

    with look():
        return drawings.draw_roll_out(roll_out, plan) if name == "rollout" else drawings.draw_frontier(frontier, plan)
