"""Why no pools serve a scenario, in words: what the objective, a loss or the GPUs fall short by."""

from dataclasses import replace

from planner.assignment import BucketOffer, best_pools, relaxed_values
from planner.domain import AssignmentSettings, ObjectiveSettings, Phase, Question, SizeSet
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.prices import BucketPrices, inventory_stocks
from planner.layouts.buckets.exclusions import exclusions, smallest_servers
from planner.layouts.feasibility import LOOSEN, unreachable_bounds

_SURVIVAL_STEPS = 50
_SURVIVAL_GAP = 0.05
_SURVIVAL_SECONDS = 2.0


def nothing_serves(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> InfeasibleError:
    """Why no partition can be served: a budget or target, or the GPUs themselves."""
    scenario = question.scenario
    offer = prices.offer(inventory_stocks(scenario.inventory), prices.partitions[:1])
    fastest = relaxed_values(offer, prices.partitions[:1], ObjectiveSettings(), scenario.assignment)
    most = max(fastest.values(), default=0.0)
    if most and objective.target_rps:
        return InfeasibleError(
            f"scenario {scenario.name}: objective.target_rps: {objective.target_rps:g} requests/s is above what the "
            f"offered GPUs can reach, at most {most:.1f}.",
            hint="Lower the target, offer more GPUs, or loosen the service levels.",
        )
    if most and objective.budget_usd_per_hour:
        return InfeasibleError(
            f"scenario {scenario.name}: objective.budget_usd_per_hour: {objective.budget_usd_per_hour:g} USD/hour "
            "rents no fleet that serves the workload.",
            hint="Raise the budget, or offer cheaper GPUs.",
        )
    return _too_few_gpus(question, prices)


def not_survived(
    question: Question,
    offer: BucketOffer,
    prices: BucketPrices,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> InfeasibleError:
    """Names the closest share that can be survived, or what else is short."""
    scenario = question.scenario
    limits = replace(settings, time_limit_s=_SURVIVAL_SECONDS, gap=_SURVIVAL_GAP)

    def survives(steps: int) -> bool:
        try:
            best_pools(replace(offer, survive=steps / _SURVIVAL_STEPS), prices.partitions[:1], objective, limits)
        except (InfeasibleError, SolverError):
            return False
        return True

    if not scenario.survive.share or not survives(0):
        return nothing_serves(question, prices, objective)
    low, high = 0, round(scenario.survive.share * _SURVIVAL_STEPS)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if survives(middle) else (low, middle)
    return InfeasibleError(
        f"scenario {scenario.name}: survive.share: {scenario.survive.share:g} of the rate does not remain after the "
        f"loss of any {scenario.survive.nodes} node{'s' * (scenario.survive.nodes != 1)}; the closest share is "
        f"{low / _SURVIVAL_STEPS:.2f}.",
        hint="Lower survive.share or survive.nodes, or offer more GPUs: every phase needs servers on several nodes.",
    )


def _too_few_gpus(question: Question, prices: BucketPrices) -> InfeasibleError:
    """What servers of both phases need, where the GPUs do not make them: by GPU type and phase what excludes them."""
    scenario, load = question.scenario, question.workload
    short = [phase for phase in Phase if not smallest_servers(prices, phase)]
    missing = {(phase, j) for phase in short for j in range(len(load.ranges))}
    lack = "they do not make a server for each phase"
    if short:
        engine = scenario.engine.name or "an engine"
        lack = f"no server of theirs that {engine} starts can {' or '.join(short)} prompts of all lengths"
    levels = ", within the service levels" if scenario.slo.bounds_anything else ""
    verdicts = "".join(f"\n  {verdict}" for verdict in unreachable_bounds(question, missing))
    reasons = "".join(f"\n  {line}" for line in exclusions(prices))
    remedies = ["add GPUs", "choose a type with more memory or a smaller model"]
    remedies += ["widen search.sizes"] if scenario.search.sizes not in (SizeSet.ALL, SizeSet.WHOLE_NODES) else []
    remedies += [LOOSEN[0].lower() + LOOSEN[1:].rstrip(".")] if verdicts else ["loosen slo"] if levels else []
    return InfeasibleError(
        f"scenario {scenario.name}: inventory: {scenario.model.name} ({scenario.model.weights_gb:.0f} GB of weights) "
        f"cannot be served by these GPUs: {lack}{levels}.{verdicts}{reasons}",
        hint=f"Prefill and decode need a server each: {', '.join(remedies[:-1])}, or {remedies[-1]}.",
    )
