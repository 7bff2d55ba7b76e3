"""The frontier of a search with several goals, in words and as a table."""

from planner.domain import Goal, Pick, Plan, Trial
from planner.report.kit.quantities import LEFT_OUT, banded_rate, counted, money, percent, rate, significant, whole
from planner.report.kit.tables import Column, table_of
from planner.report.kit.tree import DataTable, Section, paragraphs, section

MOST_ROWS = 20

_UNITS = {
    Goal.RATE: "Requests/s",
    Goal.PRICE: "USD/hour",
    Goal.WATTS: "kW",
    Goal.HEADROOM: "Headroom",
    Goal.CHANGES: "Islands changed",
    Goal.CHANGE_COST: "Change, USD",
}


def frontier_trials(plan: Plan) -> list[Trial]:
    """The trials of the frontier, the best of the first goal first."""
    goals = plan.scenario.objective.goals
    indices = set(plan.search.frontier)
    trials = [trial for trial in plan.search.trials if trial.index in indices]
    return sorted(trials, key=lambda trial: [-value if goal.maximised else value for goal, value in _of(trial, goals)])


def _of(trial: Trial, goals: tuple[Goal, ...]) -> list[tuple[Goal, float]]:
    values = dict(trial.goals)
    return [(goal, values[goal.value]) for goal in goals]


def frontier_section(plan: Plan) -> Section:
    """The frontier; of no blocks where the search had a single goal."""
    front = frontier_trials(plan) if plan.search.frontier else []
    if not front:
        return section("frontier", "Frontier")
    served = sum(trial.throughput_rps > 0 for trial in plan.search.trials)
    lead = (
        f"{counted(len(front), 'layout')} of the {whole(served)} that serve: no other that was tried is as good in "
        f"every goal and better in one, as predicted. {_rule(plan)}{_firmness(plan)}"
    )
    after = paragraphs(_more(front), _goals_explained(plan))
    return section("frontier", "Frontier", *paragraphs(lead), frontier_table(plan), *after)


def _firmness(plan: Plan) -> str:
    banded = banded_rate(plan)
    if banded is None:
        return ""
    return (
        f" Its rate is about {banded} requests/s ({LEFT_OUT}): layouts that use the same GPU types alike err alike, "
        "others whose rates lie closer than that may come out in another order."
    )


def frontier_table(plan: Plan) -> DataTable:
    """One row a layout, at most `MOST_ROWS`; the plan's own, in bold, is always among them."""
    goals = plan.scenario.objective.goals
    front = frontier_trials(plan)
    shown = front[:MOST_ROWS]
    if plan.search.best_trial not in [trial.index for trial in shown]:
        shown[-1:] = [trial for trial in front if trial.index == plan.search.best_trial]
    best = plan.search.best_trial
    columns: tuple[Column[Trial], ...] = (
        Column(
            "Trial", lambda trial: f"**{trial.index}** (the plan)" if trial.index == best else str(trial.index), str
        ),
        *(_goal(goal, best) for goal in goals),
        Column("Layout (GPUs each x islands)", lambda trial: trial.layout.label),
    )
    return table_of(columns, shown).block()


def _goal(goal: Goal, best: int | None) -> Column[Trial]:
    def cell(trial: Trial) -> str:
        text = _cell(goal, dict(trial.goals)[goal.value])
        return f"**{text}**" if trial.index == best else text

    return Column(_UNITS[goal], cell, str)


def _cell(goal: Goal, value: float) -> str:
    match goal:
        case Goal.RATE:
            return rate(value)
        case Goal.PRICE | Goal.CHANGE_COST:
            return money(value)
        case Goal.WATTS:
            return significant(value / 1000)
        case Goal.HEADROOM:
            return percent(value) if value >= 0 else f"-{percent(-value)}"
        case Goal.CHANGES:
            return whole(value)


def _rule(plan: Plan) -> str:
    objective = plan.scenario.objective
    names = [goal.value for goal in objective.goals]
    if objective.pick is Pick.KNEE:
        rule = "the one nearest to the best of every goal, each goal scaled to its span over the frontier (knee)"
    else:
        share, others = f"{100 * objective.within:g} %", ", then ".join(names[1:])
        rule = f"of those within {share} of the best {names[0]}, the best in {others}"
    bearing = "; layouts that bear the demanded rate come first" if Goal.HEADROOM in objective.goals else ""
    return f"The plan is {rule}{bearing}."


def _more(front: list[Trial]) -> str:
    more = len(front) - MOST_ROWS
    return f"{counted(more, 'layout')} more of the frontier in `plan.json`." if more > 0 else ""


def _goals_explained(plan: Plan) -> str:
    """What the figures of the table mean."""
    objective = plan.scenario.objective
    sentences = []
    if objective.rents:
        units = [_UNITS[goal] for goal in (Goal.PRICE, Goal.WATTS) if goal in objective.goals]
        sentences.append(f"{' and '.join(units)} are of all GPUs in islands; the others are not rented.")
    if Goal.HEADROOM in objective.goals:
        demand = objective.demand_rps or plan.scenario.workload.arrival_rps or 0.0
        sentences.append(
            f"Headroom is what TTFT and TPOT leave of their bounds at {rate(demand)} requests/s where least is left; "
            "negative, it is the share of these requests that is not served. TPOT is that of full batches."
        )
    if any(goal.of_changes for goal in objective.goals):
        running = sum(island.count for island in objective.current)
        sentences.append(f"Changes are counted from the {counted(running, 'island')} that run now.")
    if Goal.CHANGE_COST in objective.goals:
        sentences.append(
            "What a change costs is the rent of GPUs while their servers drain, or load and start; those of the same "
            "type, phase and degrees run on."
        )
    return " ".join(sentences)
