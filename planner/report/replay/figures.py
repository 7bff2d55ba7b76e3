"""The figures of a replay, by name. matplotlib is loaded with the first figure, not with this file."""

from typing import TYPE_CHECKING

from planner.domain.replay import ReplayResult, ReplaySweep
from planner.errors import InputError
from planner.report.kit.quantities import significant
from planner.report.replay.plots import island_plots, moment_plots, sweep_plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPLAY_FIGURES = {
    "moments": "Requests over time: arrivals, those waiting and answering, those late",
    "islands": "How busy the islands are, and how full their KV caches",
}
"""Figures that every replay has, with their titles."""

SWEEP = "sweep"
SWEEP_TITLE = "Latency against the rate, with bounds, promise and capacity"


def replay_figures_of(sweep: ReplaySweep | None) -> dict[str, str]:
    """Names and titles of a replay's figures; that of the rates only where there is a sweep."""
    return REPLAY_FIGURES if sweep is None else {**REPLAY_FIGURES, SWEEP: SWEEP_TITLE}


def replay_figure(result: ReplayResult, name: str, sweep: ReplaySweep | None = None) -> "Figure":
    """The figure `name`, one of `replay_figures_of(sweep)`, on an Agg canvas. Raises InputError for another name."""
    names = replay_figures_of(sweep)
    if name not in names:
        hint = "Sweep the rates, too." if name == SWEEP else "Choose one of these names."
        raise InputError(f"Figure: the name must be one of {', '.join(names)}, got {name!r}.", hint=hint)
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    at = f"{significant(result.rate_rps)} requests/s"
    if sweep is not None and name == SWEEP:
        return still(result.plan, "what requests meet at each rate", sweep_plots(sweep), "no rate was served")
    if name == "islands":
        return still(result.plan, f"its islands at {at}", island_plots(result), "no islands")
    return still(result.plan, f"replayed at {at}, first seed", moment_plots(result), "no moments were recorded")
