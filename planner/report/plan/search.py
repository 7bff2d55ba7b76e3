"""How the search went, in words and plots: trials against the bound, the frontier of several goals, parameters."""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.domain import Goal, Plan, SearchRecord, Trial
from planner.report.comparison.pareto import frontier_trials
from planner.report.kit.markdown import escaped
from planner.report.kit.plots import Kind, Plot, Series, chart_of, series_of
from planner.report.kit.quantities import banded_rate, rate, significant, whole
from planner.report.kit.tables import Column, fields, table_of
from planner.report.kit.tree import Block, DataTable, Section, paragraphs, section
from planner.report.plan.certificate import rate_bound
from planner.report.plan.importance import importance_of, trials_told

MOST_TRIALS = 2000
"""Dots of a plot; of more trials an even choice, the plan's among them."""
MOST_SLICES = 12
"""Parameters that have a plot of their own, the most important first."""

EXACT = "exact"
"""Generator of a layout that was solved for."""

_BARS = "▁▂▃▄▅▆▇█"
_BAND = "P10–P90 of its rate"
_TRIALS = "trials.csv of the run folder"
_RATE = "rate of the whole mix (requests/s)"
_ROUNDS = "search iteration (rounds of layouts)"
_AXES = {
    Goal.PRICE: ("price (USD/hour)", 1.0),
    Goal.WATTS: ("highest draw (kW)", 1e-3),
    Goal.HEADROOM: ("headroom at the demanded rate (%)", 100.0),
    Goal.CHANGES: ("islands changed", 1.0),
    Goal.CHANGE_COST: ("cost of the change (USD)", 1.0),
}


def search_section(plan: Plan) -> Section:
    """What was tried in words, and each trial where there was a search."""
    charts = []
    if len(plan.search.trials) > 1:
        columns: tuple[Column[Trial], ...] = (
            *fields("Trial=index", "Round=iteration"),
            Column("Requests/s", plan.search.judged_rps),
            *fields("Layout (GPUs each x islands)=layout.label", "Proposed by=generator", "Error=error"),
        )
        table = table_of(columns, _chosen(plan)).block(rest_file=_TRIALS)
        charts = [chart_of(plot, table) for plot in search_plots(plan)]
    charts += [chart_of(plot) for plot in (*pareto_plots(plan), *parameter_plots(plan))]
    words = (*paragraphs(_effort(plan)), *_progress(plan), *paragraphs(*_outcome(plan)))
    return section("search", "How it was found", *words, *charts)


def _progress(plan: Plan) -> tuple[Block, ...]:
    if not plan.search.trials or _solved(plan):
        return ()
    by_round = plan.search.best_by_iteration()
    return (
        *paragraphs(f"Best so far, round by round: `{_sparkline(by_round)}`"),
        _progress_table(plan.search, by_round),
    )


def _outcome(plan: Plan) -> list[str]:
    return [*_best_trial(plan), *_as_predicted(plan)] if plan.search.trials else []


def _solved(plan: Plan) -> bool:
    """Whether nothing was searched: the layout was solved for."""
    return plan.scenario.search.method.row.solves or all(trial.generator == EXACT for trial in plan.search.trials)


def _effort(plan: Plan) -> str:
    trials, settings = plan.search.trials, plan.scenario.search
    if not trials:
        return "No search was made: the layout was given."
    if _solved(plan):
        return f"Method {settings.method}: {plan.form.row.solved} solved for, as a MILP."
    rounds = len({t.iteration for t in trials})
    surrogate = f" with surrogate {settings.surrogate}" if settings.method.row.surrogate else ""
    effort = (
        f"Method {settings.method}{surrogate}: {len(trials)} layouts in {rounds} rounds "
        f"(planned: {settings.iterations} rounds of {settings.batch_size}), seed {settings.seed}."
    )
    if plan.search.replayed:
        replays = sum(trial.replayed_rps is not None for trial in trials)
        effort += f" The model of queues judged all of them; {replays} were replayed, and of those are the rates here."
    return effort


def _as_predicted(plan: Plan) -> list[str]:
    """What "best" means of layouts whose rates are closer than their bands."""
    if plan.rate_band is None:
        return []
    return [
        "Best is meant as predicted: layouts that use the same GPU types in the same phases err alike and keep their "
        "order, others that come closer than their bands may not (`planner diff` of two runs says how likely)."
    ]


def _sparkline(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_BARS[int((v - low) / step)] for v in values)


def _progress_table(record: SearchRecord, by_round: Sequence[float]) -> DataTable:
    """Only rounds that improved on the one before, and the last."""
    last = len(by_round) - 1
    listed = [i for i, best in enumerate(by_round) if i in (0, last) or best > by_round[i - 1]]
    rates = {i: [record.judged_rps(trial) for trial in record.judged if trial.iteration == i] for i in listed}
    served = {i: [rate_rps for rate_rps in rates[i] if rate_rps > 0] for i in listed}
    columns: tuple[Column[int], ...] = (
        Column("Iteration", lambda i: i, whole),
        Column("Best so far (requests/s)", lambda i: by_round[i], rate),
        Column("Mean of round", lambda i: sum(served[i]) / len(served[i]) if served[i] else None, rate),
        Column("Failed or zero", lambda i: f"{len(rates[i]) - len(served[i])} of {len(rates[i])}", right=True),
    )
    return table_of(columns, listed).block()


def _best_trial(plan: Plan) -> list[str]:
    best = [t for t in plan.search.trials if t.index == plan.search.best_trial]
    members = plan.form.row.members
    return [
        f"Best trial: number {t.index}, iteration {t.iteration}, {rate(plan.search.judged_rps(t))} requests/s, "
        f"proposed by {escaped(t.generator)}, layout {escaped(t.layout.label)} (GPUs each x {members})."
        for t in best
    ]


def _chosen(plan: Plan) -> list[Trial]:
    trials = plan.search.judged
    step = max(1, -(-len(trials) // MOST_TRIALS))
    return [trial for at, trial in enumerate(trials) if at % step == 0 or trial.index == plan.search.best_trial]


def search_plots(plan: Plan) -> tuple[Plot, ...]:
    """Every layout's rate by round, the span of each round, the best so far, the bound; none without a search."""
    if not plan.search.trials:
        return ()
    shown, total, bound = len(_chosen(plan)), len(plan.search.judged), rate_bound(plan)
    says = f"{total:,} layouts by round." if shown == total else f"{shown:,} of {total:,} layouts, evenly chosen."
    says += " No layout can pass the dashed line." if bound is not None else " No bound of the rate is known."
    plot = Plot(
        name="search-trials",
        title="Layouts tried",
        says=says,
        kind=Kind.LINES,
        x=_ROUNDS,
        y="replayed rate (requests/s)" if plan.search.replayed else "throughput (requests/s)",
        series=tuple(_of_rounds(plan)),
        interval="round: lowest to highest",
        bounds=() if bound is None else ((f"no layout serves more ({significant(bound)})", bound),),
        rest=_TRIALS,
    )
    return (plot,)


def _of_rounds(plan: Plan) -> Iterator[Series]:
    record, trials = plan.search, _chosen(plan)
    rates: dict[int, list[float]] = {}
    for trial in sorted(record.judged, key=lambda trial: trial.iteration):
        if record.judged_rps(trial) > 0:
            rates.setdefault(trial.iteration, []).append(record.judged_rps(trial))
    if any(len(layouts) > 1 for layouts in rates.values()):  # of one layout a round the mean says nothing
        means = [(k, sum(layouts) / len(layouts)) for k, layouts in rates.items()]
        ends = {"low": tuple(map(min, rates.values())), "high": tuple(map(max, rates.values()))}
        yield series_of("round: mean", means, place=0, **ends)
    served = [trial for trial in trials if record.judged_rps(trial) > 0]
    if served:
        yield _dots(plan, "one layout", served, place=0)
    broken = [trial for trial in trials if record.judged_rps(trial) <= 0]
    if broken:
        yield _dots(plan, f"failed or serves nothing ({len(broken)})", broken, tone="alarm")
    yield series_of("best so far", list(enumerate(record.best_by_iteration())), kind=Kind.STEPS, tone="chosen")
    winner = [trial for trial in trials if trial.index == record.best_trial]
    if winner:
        band = {} if record.replayed else _band(plan)  # a band is of predicted rates
        yield _dots(plan, f"the plan (trial {record.best_trial})", winner, tone="chosen", **band)


def _dots(plan: Plan, name: str, trials: Sequence[Trial], **look: Any) -> Series:
    points = [(trial.iteration, plan.search.judged_rps(trial)) for trial in trials]
    labels = tuple(f"trial {trial.index}" for trial in trials) if len(trials) > 1 else ()
    return series_of(name, points, kind=Kind.DOTS, labels=labels, **look)


def _band(plan: Plan) -> dict[str, Any]:
    """Where the plan's rate may come to lie."""
    banded = banded_rate(plan)
    return {} if banded is None else {"low": (banded.low,), "high": (banded.high,), "interval": _BAND}


def pareto_plots(plan: Plan) -> tuple[Plot, ...]:
    """Rate against every other goal: layouts that none beats, those that are beaten, the plan; what the frontier covers
    round by round. None of one goal."""
    if not plan.search.frontier:
        return ()
    others = [goal for goal in plan.scenario.objective.goals if goal is not Goal.RATE]
    return (*(_goal(plan, goal, alone=len(others) == 1) for goal in others), *_hypervolume(plan))


def _goal(plan: Plan, goal: Goal, *, alone: bool) -> Plot:
    unit, factor = _AXES[goal]
    front = frontier_trials(plan)
    unbeaten = {trial.index for trial in front}
    beaten = [t for t in plan.search.trials if t.goals and t.throughput_rps > 0 and t.index not in unbeaten]
    chosen = [trial for trial in front if trial.index == plan.search.best_trial]

    def against(name: str, trials: list[Trial], **look: Any) -> Series:
        rows = [(factor * dict(trial.goals)[goal.value], dict(trial.goals)[Goal.RATE.value]) for trial in trials]
        return series_of(name, rows, **look)

    reached = sorted(front, key=lambda trial: dict(trial.goals)[goal.value])
    # where less is better the frontier steps to the right, to the next dot; else to the left
    stairs = against("best for its value", reached, kind=Kind.STEPS, stepped=goal.maximised, place=0)
    series = (
        *([stairs] if alone else ()),
        against("beaten", beaten, tone="faint"),
        against("not beaten", front, place=0),
        against(f"the plan (trial {plan.search.best_trial})", chosen, tone="chosen", **(_band(plan) if chosen else {})),
    )
    return Plot(
        name=f"frontier-{goal.value.replace('_', '-')}",
        title=f"Layouts that no other beats: rate against {goal.value}",
        says="No layout that was tried is as good in every goal as one that is not beaten, and better in one.",
        kind=Kind.DOTS,
        x=unit,
        y=_RATE,
        series=tuple(row for row in series if row.x),
        rest=_TRIALS,
    )


def _hypervolume(plan: Plan) -> Iterator[Plot]:
    rounds = [(r.iteration, r.hypervolume) for r in plan.search.rounds if r.hypervolume is not None]
    if rounds:
        yield Plot(
            name="frontier-covers",
            title="What the frontier covers",
            says="Hypervolume: requests/s times the other goals' shares of their range.",
            kind=Kind.STEPS,
            x=_ROUNDS,
            y="hypervolume (requests/s)",
            series=(series_of("covered", rounds, tone="chosen"),),
        )


def parameter_plots(plan: Plan) -> tuple[Plot, ...]:
    """How much of the rate each parameter of the search explains; none where the layout was solved for."""
    rows = importance_of(plan)
    if not rows:
        return ()
    words = tuple(f"{100 * row.share:.0f} %, ρ {row.rank_correlation:+.2f}" for row in rows)
    return (
        Plot(
            name="search-parameters",
            title="What the search's parameters explain",
            says="The share of the rate's variance over the layouts tried that a parameter explains by itself, and its "
            "rank correlation ρ with the rate; shares of parameters that matter together are small, and they do not "
            "sum to 100 %.",
            kind=Kind.BARS,
            x="parameter",
            y="variance explained (%)",
            series=(series_of("explained", [(row.name, 100 * row.share) for row in rows], labels=words),),
        ),
    )


def slice_plots(plan: Plan) -> tuple[Plot, ...]:
    """Every layout's rate over each parameter, the most important first."""
    bound = rate_bound(plan)
    return tuple(
        Plot(
            name=f"slice-{place}",
            title=row.name,
            says=f"The rate of every layout over {row.name}.",
            kind=Kind.DOTS,
            x=row.name,
            y="rate (requests/s)",
            series=tuple(_over(plan, row.name)),
            bounds=() if bound is None else (("no layout serves more", bound),),
        )
        for place, row in enumerate(importance_of(plan)[:MOST_SLICES])
    )


def _over(plan: Plan, name: str) -> Iterator[Series]:
    trials = [trial for trial in trials_told(plan) if name in dict(trial.parameters)]
    chosen = [trial for trial in trials if trial.index == plan.search.best_trial]
    groups = (("one layout", trials, ""), (f"the plan (trial {plan.search.best_trial})", chosen, "chosen"))
    for words, members, tone in groups:
        if members:
            points = [(dict(trial.parameters)[name], plan.search.judged_rps(trial)) for trial in members]
            yield series_of(words, points, tone=tone)
