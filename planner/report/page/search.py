"""How the search went: its trials against the bound."""

from planner.domain import Plan, Trial
from planner.report.comparison.trial_plots import parameter_plots, pareto_plots
from planner.report.kit.html.blocks import Block, Chart, DataTable, Prose, Section
from planner.report.kit.html.plots import chart_of
from planner.report.kit.tables import Column, fields, table_of
from planner.report.plan.certificate import rate_bound
from planner.report.plan.sections import search_words

MOST_TRIALS = 2000
"""Dots of the chart; of more trials an even choice, the best among them."""


def search_section(plan: Plan) -> Section:
    """What was tried in words, and each trial where there was a search."""
    blocks: list[Block] = [Prose(markdown=search_words(plan))]
    if len(plan.search.trials) > 1:
        blocks.append(_chart(plan, _chosen(plan)))
    blocks += [chart_of(plot) for plot in (*pareto_plots(plan), *parameter_plots(plan))]
    return Section(name="search", title="How it was found", blocks=tuple(blocks))


def _chosen(plan: Plan) -> list[Trial]:
    trials = plan.search.judged
    step = max(1, -(-len(trials) // MOST_TRIALS))
    return [trial for at, trial in enumerate(trials) if at % step == 0 or trial.index == plan.search.best_trial]


def _chart(plan: Plan, trials: list[Trial]) -> Chart:
    record, best = plan.search, plan.search.best_by_iteration()
    served = [trial for trial in trials if record.judged_rps(trial) > 0]
    broken = [trial for trial in trials if record.judged_rps(trial) <= 0]
    winner = [trial for trial in trials if trial.index == record.best_trial]
    bound, last = rate_bound(plan), len(best) - 1
    lines: list[dict[str, object]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": list(range(len(best))),
            "y": list(best),
            "line": {"shape": "hv"},
            "meta": {"tone": "chosen"},
        }
    ]
    if bound is not None:
        ends = {"x": [0, last], "y": [bound, bound]}
        lines.append({"type": "scatter", "mode": "lines", "name": "bound", **ends, "meta": {"tone": "bound"}})
    dots = [
        _dots(plan, "layouts", served, {"opacity": 0.6, "size": 7}, {"series": 0}),
        _dots(plan, "failed, or serves nothing", broken, {"symbol": "x"}, {"tone": "alarm"}),
        _dots(plan, "the plan", winner, {"symbol": "star", "size": 16}, {"series": 1}),
    ]
    return Chart(
        name="search-trials",
        title="Layouts tried",
        says=_says(plan, len(trials), bound),
        traces=(*(dot for dot in dots if dot["x"]), *lines),
        layout={
            "height": 380,
            "xaxis": {"title": {"text": "round of the search"}, "dtick": max(1, last // 10)},
            "yaxis": {"title": {"text": "requests/s"}, "rangemode": "tozero"},
        },
        table=_table(plan, trials),
    )


def _dots(
    plan: Plan, name: str, trials: list[Trial], marker: dict[str, object], meta: dict[str, object]
) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [trial.iteration for trial in trials],
        "y": [plan.search.judged_rps(trial) for trial in trials],
        "hovertext": [f"trial {trial.index}" for trial in trials],
        "marker": marker,
        "meta": meta,
    }


def _says(plan: Plan, shown: int, bound: float | None) -> str:
    total = len(plan.search.judged)
    text = f"{total:,} layouts by round." if shown == total else f"{shown:,} of {total:,} layouts, evenly chosen."
    return text + (" No layout can pass the dashed line." if bound is not None else " No bound of the rate is known.")


def _table(plan: Plan, trials: list[Trial]) -> DataTable:
    columns: tuple[Column[Trial], ...] = (
        *fields("Trial=index", "Round=iteration"),
        Column("Requests/s", plan.search.judged_rps),
        *fields("Layout (GPUs each x islands)=layout.label", "Proposed by=generator", "Error=error"),
    )
    return table_of(columns, trials).html(rest="trials.csv of the run folder")
