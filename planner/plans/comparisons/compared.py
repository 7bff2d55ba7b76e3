"""Plans beside each other: who is likely better, and what keeps them from being compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from planner.cost import shares_of_best
from planner.domain import Plan
from planner.domain.comparisons import ComparedPlan, KeyDifference, PlanComparison
from planner.plans.comparisons.figures import latency_figures, plan_figures, pool_figures
from planner.plans.rate_bands import compare_rates, uncertain_rate

LONGEST_VALUE = 48
_OF_TYPES = ("prices_usd_per_gpu_hour.", "node_selectors.")
ABSENT, LONG = "–", "differs (too long to show)"


def compare_plans(plans: Mapping[str, Plan], keys: Sequence[Mapping[str, object]]) -> PlanComparison:
    """Plans by name, in their order. `keys`: the scenario of each, dotted key -> value."""
    rows = [
        ComparedPlan(figures=plan_figures(plan, name), pools=tuple(pool_figures(plan)), latencies=latency_figures(plan))
        for name, plan in plans.items()
    ]
    return PlanComparison(
        plans=tuple(_with_odds(rows, list(plans.values()))),
        same_work=len({(plan.scenario.model, plan.scenario.workload) for plan in plans.values()}) == 1,
        differences=tuple(key_differences(keys)),
        warnings=tuple(_warnings(list(plans.values()))),
    )


def _with_odds(rows: Sequence[ComparedPlan], plans: Sequence[Plan]) -> list[ComparedPlan]:
    """The rows with how likely each is better than the first, and best of all."""
    comparisons = [compare_rates(plans[0], plan) for plan in plans]
    odds = [None if comparison is None else comparison.probability_faster for comparison in comparisons]
    shares: Sequence[float | None] | None = None
    if all(value is not None for value in odds):
        shares = shares_of_best([uncertain_rate(plan) for plan in plans], [1.0] * len(plans))
    best = shares or [None] * len(rows)
    return [
        replace(row, better_than_first=chance, best_probability=most)
        for row, chance, most in zip(rows, odds, best, strict=True)
    ]


def key_differences(keys: Sequence[Mapping[str, object]]) -> list[KeyDifference]:
    """Keys that are not the same in all scenarios; of GPU types that some lack, the inventory alone."""
    names = dict.fromkeys(key for scenario in keys for key in scenario)
    differing = [name for name in names if any(scenario.get(name) != keys[0].get(name) for scenario in keys)]
    return [
        KeyDifference(key=name, values=tuple(_shown(scenario, name) for scenario in keys))
        for name in differing
        if not (name.startswith(_OF_TYPES) and len({scenario[name] for scenario in keys if name in scenario}) == 1)
    ]


def _shown(scenario: Mapping[str, object], key: str) -> str:
    value = scenario.get(key)
    text = ABSENT if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else LONG


_ASPECTS: Mapping[str, Callable[[Plan], object]] = {
    "models": lambda plan: plan.scenario.model.name,
    "workloads": lambda plan: plan.scenario.workload.name,
    "service levels": lambda plan: plan.scenario.slo,
    "cost modes": lambda plan: plan.scenario.cost.mode.value,
    "calibrations": lambda plan: plan.provenance.calibration,
    "planner versions": lambda plan: plan.provenance.planner_version,
    "routing forms": lambda plan: plan.scenario.routing_form.value,
}
_WHY = {
    "models": "their requests/s are of different work",
    "workloads": "their requests/s are of different work",
    "service levels": "a looser level allows a higher rate",
    "cost modes": "their rates follow different rules",
    "calibrations": "their rates follow different efficiency factors",
    "planner versions": "their rates may follow different formulas",
    "routing forms": "rates of buckets count queues, and those of a table only under levels",
}


def _warnings(plans: Sequence[Plan]) -> list[str]:
    """What makes the plans answers to different questions, a sentence each."""
    sentences = []
    for aspect, read in _ASPECTS.items():
        values = [read(plan) for plan in plans]
        distinct = list(dict.fromkeys(values))
        if len(distinct) > 1:
            listed = "" if aspect == "service levels" else f" ({', '.join(map(str, distinct))})"
            sentences.append(f"The plans have different {aspect}{listed}: {_WHY[aspect]}.")
    contents = {plan.scenario.workload.name: plan.scenario.workload for plan in plans}
    if any(contents[plan.scenario.workload.name] != plan.scenario.workload for plan in plans):
        sentences.append("Workloads of one name have different lengths: their requests/s are of different work.")
    if any(plan.provenance.unverified for plan in plans):
        sentences.append("A plan was saved without digests, so it may have been edited: plan it again.")
    return sentences
