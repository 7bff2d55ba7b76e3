"""CPU-seconds of a trial by batch size: of one kind of search (figure 5.6), or of two side by side (5.11)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planner.report.kit import style
from planner.report.kit.quantities import significant
from planner.studies.chapter5.records import CaseOutcome, Study
from planner.studies.chapter5.report.titles import head

HEIGHT_IN = 4.2
GROUP_WIDTH = 0.8


def draw(study: Study, figure_name: str, title: str) -> Figure:
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
    choosing = [outcome.cpu_s.mean - mine for outcome, mine in zip(cases, judging, strict=True)]
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
