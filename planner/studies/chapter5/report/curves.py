"""Best rate per iteration, one panel a value of what is varied (figures 5.5, 5.7-5.10, 5.12)."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.report.kit import style
from planner.report.kit.quantities import counted
from planner.studies.chapter5.records import CaseOutcome, Study
from planner.studies.chapter5.report.titles import head

ACROSS = 3
ROW_IN = 2.7
EDGE_IN = 1.3


def draw(study: Study, figure_name: str, title: str) -> Figure:
    """Mean over the trials, its standard deviation, least to greatest; the maximum of all, and the optimum."""
    outcome = study.experiment(figure_name)
    cases = outcome.cases
    across = min(ACROSS, len(cases))
    down = -(-len(cases) // across)
    figure = style.blank(EDGE_IN + ROW_IN * down)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    head(figure, study, title, f"{counted(outcome.experiment.trials, 'trial')} each")
    for axes, case_outcome in zip(panels.flat, cases, strict=False):
        _panel(axes, case_outcome, outcome.highest_rps)
        axes.set_title(f"{outcome.experiment.parameter} {case_outcome.case.label}")
    for axes in panels.flat[len(cases) :]:
        axes.remove()
    for place, axes in enumerate(panels.flat[: len(cases)]):
        if place % across == 0:
            axes.set_ylabel("best rate so far\n(requests/s)")
        if place + across >= len(cases):
            axes.set_xlabel("iteration")
            axes.tick_params(labelbottom=True)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), fontsize=style.points(8.0))
    return figure


def _panel(axes: Axes, outcome: CaseOutcome, highest: float) -> None:
    rounds = range(1, 1 + len(outcome.by_iteration))
    mean = [spread.mean for spread in outcome.by_iteration]
    around = [spread.deviation or 0.0 for spread in outcome.by_iteration]
    low, high = [spread.low for spread in outcome.by_iteration], [spread.high for spread in outcome.by_iteration]
    colour = style.palette()[0]
    edge: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": 0.9, "linestyle": ":"}
    axes.fill_between(rounds, low, high, label="lowest to highest", **edge)
    below, above = ([m + sign * a for m, a in zip(mean, around, strict=True)] for sign in (-1, 1))
    axes.fill_between(rounds, below, above, color=colour, alpha=0.25, linewidth=0, label="mean ± standard deviation")
    axes.plot(rounds, mean, color=colour, linewidth=1.8, marker="o", markersize=3, label="mean of the trials")
    axes.axhline(highest, color=style.palette()[1], linewidth=1.2, label="maximum of all trials and panels")
    if outcome.optimum:
        axes.axhline(outcome.optimum.rate_rps, color=style.ink(), linestyle="--", linewidth=1.2, label="exact optimum")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.margins(y=0.08)
