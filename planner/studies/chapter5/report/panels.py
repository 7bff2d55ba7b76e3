"""The panels of chapter 5: searches by iteration, CPU-seconds of a trial, divisions by skew, tokens of traces."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from planner.domain import CostMode
from planner.report.kit import style
from planner.report.kit.quantities import counted, significant
from planner.studies.chapter5.records import CaseOutcome, Study, TokenCounts


def head(figure: Figure, study: Study, title: str, note: str = "", *, searched: bool = True) -> None:
    """Title, how often it was `searched`, if at all, and a word of warning in reference mode."""
    mode = "reference mode: not physical" if study.mode is CostMode.REFERENCE else ""
    small = "small form" if study.small and searched else ""
    remarks = "; ".join(filter(None, (note, small, mode)))
    style.heading(figure, f"{title} [{remarks}]" if remarks else title)


HEIGHT_IN = 4.2
ROW_IN = 2.7
EDGE_IN = 0.9


def draw_divisions(study: Study, _figure_name: str, title: str) -> Figure:
    """Island sizes over island indices, a line a skew."""
    figure = style.blank(HEIGHT_IN)
    axes = figure.subplots()
    first = study.divisions[0]
    style.heading(figure, f"{title} ({first.gpus} GPUs, {len(first.sizes)} islands of at least {first.least})")
    colours = (*style.palette()[:3], style.ink(), *style.palette()[3:])
    for place, (division, colour) in enumerate(zip(study.divisions, colours, strict=False)):
        marker = style.MARKERS[place % len(style.MARKERS)]
        indices = range(1, 1 + len(division.sizes))
        axes.plot(indices, division.sizes, marker=marker, markersize=4, color=colour, label=f"{division.skew:g}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("island")
    axes.set_ylabel("size (GPUs)")
    axes.set_ylim(bottom=0)
    style.legend_beside(axes, "skew")
    return figure


def draw_tokens(study: Study, _figure_name: str, title: str) -> Figure:
    """A column a trace: how many tokens its requests' prompts have and, where known, their answers."""
    sides, traces = (list(dict.fromkeys(getattr(row, key) for row in study.tokens)) for key in ("side", "trace"))
    figure = style.blank(EDGE_IN + ROW_IN * len(sides))
    panels = figure.subplots(len(sides), len(traces), squeeze=False)
    style.heading(figure, title)
    for row in study.tokens:
        _histogram(panels[sides.index(row.side)][traces.index(row.trace)], row)
    for line in panels:
        line[0].set_ylabel("requests (%)")
    return figure


def _histogram(axes: Axes, row: TokenCounts) -> None:
    shares = [100 * share for share in row.shares]
    axes.bar(row.starts, shares, width=row.width, align="edge", color=style.palette()[0])
    axes.axvline(row.mean, color=style.ink(), linestyle="--", linewidth=1.0, label=f"mean {row.mean:,.0f}")
    axes.set_title(f"{style.shown(row.trace)}: {row.side} tokens, {row.width} a bar")
    axes.set_xlabel(f"{row.side} tokens")
    axes.legend(loc="upper right")


ACROSS = 3
TALL_EDGE_IN = 1.3


def draw_searches(study: Study, figure_name: str, title: str) -> Figure:
    """Mean over the trials, its standard deviation, least to greatest; the maximum of all, and the optimum."""
    outcome = study.experiment(figure_name)
    cases = outcome.cases
    across = min(ACROSS, len(cases))
    down = -(-len(cases) // across)
    figure = style.blank(TALL_EDGE_IN + ROW_IN * down)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    head(figure, study, title, f"{counted(outcome.experiment.trials, 'trial')} each")
    for axes, case_outcome in zip(panels.flat, cases, strict=False):
        _search_panel(axes, case_outcome, outcome.highest_rps)
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


def _search_panel(axes: Axes, outcome: CaseOutcome, highest: float) -> None:
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


GROUP_WIDTH = 0.8


def draw_times(study: Study, figure_name: str, title: str) -> Figure:
    """Bars of choosing and judging layouts, with least and greatest of the trials."""
    outcomes = study.all_of(figure_name)
    figure = style.blank(HEIGHT_IN)
    axes = figure.subplots()
    head(figure, study, title)
    values = sorted({case_outcome.case.value for outcome in outcomes for case_outcome in outcome.cases})
    width = GROUP_WIDTH / len(outcomes)
    for place, outcome in enumerate(outcomes):
        by_value = {case_outcome.case.value: case_outcome for case_outcome in outcome.cases}
        at = [k + (place - (len(outcomes) - 1) / 2) * width for k, value in enumerate(values) if value in by_value]
        name = outcome.experiment.name.rsplit(", ", 1)[-1] + ": " if len(outcomes) > 1 else ""
        colour = style.palette()[place]
        _bars(axes, at, [by_value[value] for value in values if value in by_value], 0.9 * width, colour, name)
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_xlabel("batch size (layouts per iteration)")
    axes.set_ylabel("time of a trial (CPU-seconds)")
    axes.set_ylim(0, 1.14 * max(case_outcome.cpu_s.high for outcome in outcomes for case_outcome in outcome.cases))
    style.legend_beside(axes)
    return figure


def _bars(axes: Axes, at: Sequence[float], cases: Sequence[CaseOutcome], width: float, colour: str, name: str) -> None:
    judging = [sum(sum(trial.evaluation_cpu_s) for trial in outcome.trials) / len(outcome.trials) for outcome in cases]
    choosing = [outcome.cpu_s.mean - judging_s for outcome, judging_s in zip(cases, judging, strict=True)]
    pale = style.mixed(colour, style.paper(), 0.55)
    axes.bar(at, judging, width=width, color=pale, label=f"{name}judging layouts")
    axes.bar(at, choosing, width=width, bottom=judging, color=colour, label=f"{name}choosing layouts")
    means = [outcome.cpu_s.mean for outcome in cases]
    reach = [
        [outcome.cpu_s.mean - outcome.cpu_s.low for outcome in cases],
        [outcome.cpu_s.high - outcome.cpu_s.mean for outcome in cases],
    ]
    axes.errorbar(at, means, yerr=reach, fmt="none", ecolor=style.ink(), capsize=3, linewidth=1)
    for x, outcome in zip(at, cases, strict=True):
        axes.annotate(
            significant(outcome.cpu_s.mean),
            (x, outcome.cpu_s.high),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=style.points(7.5),
        )
