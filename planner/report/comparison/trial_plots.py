"""Plots of what a search tried: the frontier of several goals, and what each parameter explains of the rate."""

from planner.domain import Goal, Plan, Trial
from planner.report.comparison.pareto import frontier_trials
from planner.report.kit.html.plots import Kind, Plot, Series, series_of
from planner.report.plan.importance import importance_of

_AXES = {
    Goal.PRICE: ("price (USD/hour)", 1.0),
    Goal.WATTS: ("highest draw (kW)", 1e-3),
    Goal.HEADROOM: ("headroom at the demanded rate (%)", 100.0),
    Goal.CHANGES: ("islands changed", 1.0),
    Goal.CHANGE_COST: ("cost of the change (USD)", 1.0),
}
_RATE = "rate of the whole mix (requests/s)"


def pareto_plots(plan: Plan) -> tuple[Plot, ...]:
    """Rate against every other goal: layouts that none beats, those that are beaten, the plan; none of one goal."""
    if not plan.search.frontier:
        return ()
    return tuple(_goal(plan, goal) for goal in plan.scenario.objective.goals if goal is not Goal.RATE)


def _goal(plan: Plan, goal: Goal) -> Plot:
    unit, factor = _AXES[goal]
    front = frontier_trials(plan)
    unbeaten = {trial.index for trial in front}
    beaten = [t for t in plan.search.trials if t.goals and t.throughput_rps > 0 and t.index not in unbeaten]
    chosen = [trial for trial in front if trial.index == plan.search.best_trial]

    def dots(name: str, trials: list[Trial], tone: str = "", place: int | None = None) -> Series:
        rows = [(factor * dict(trial.goals)[goal.value], dict(trial.goals)[Goal.RATE.value]) for trial in trials]
        return series_of(name, rows, tone=tone, place=place)

    series = (dots("beaten", beaten, "faint"), dots("not beaten", front, place=0), dots("the plan", chosen, place=6))
    return Plot(
        name=f"frontier-{goal.value.replace('_', '-')}",
        title=f"Layouts that no other beats: rate against {goal.value}",
        says="No layout that was tried is as good in every goal as one that is not beaten, and better in one.",
        kind=Kind.DOTS,
        x=unit,
        y=_RATE,
        series=tuple(row for row in series if row.x),
        rest="trials.csv of the run folder",
    )


def parameter_plots(plan: Plan) -> tuple[Plot, ...]:
    """How much of the rate each parameter of the search explains; none where the layout was solved for."""
    rows = importance_of(plan)
    if not rows:
        return ()
    return (
        Plot(
            name="search-parameters",
            title="What the search's parameters explain",
            says="The share of the rate's variance over the layouts tried that a parameter explains by itself; shares "
            "of parameters that matter together are small, and they do not sum to 100 %.",
            kind=Kind.BARS,
            x="parameter",
            y="variance explained (%)",
            series=(series_of("explained", [(row.name, 100 * row.share) for row in rows]),),
        ),
    )
