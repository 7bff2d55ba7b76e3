"""Why no pools serve a scenario, in words: what the objective, a loss or the GPUs fall short by."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from planner.assignment import BucketOffer, best_pools, relaxed_values
from planner.cost.engine_rules import refusals
from planner.cost.serving import server_shapes
from planner.domain import AssignmentSettings, Inventory, ObjectiveSettings, Phase, Question, SizeSet
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.prices import BucketPrices, inventory_stocks
from planner.layouts.feasibility import LOOSEN, unreachable_bounds

PLENTY = 512
"""GPUs of a type among which the smallest server is sought."""
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
    """What servers of both phases need, where the GPUs do not make them."""
    scenario, plenty = question.scenario, _prices_of_plenty(question)
    types = [item.gpu.name for item in scenario.inventory.items]
    short = [phase for phase in Phase if not any(_smallest(prices, gpu, phase) for gpu in types)]
    missing = {(phase, j) for phase in short for j in range(len(question.workload.ranges))}
    if verdicts := unreachable_bounds(question, missing):
        return InfeasibleError(f"scenario {scenario.name}: {'; '.join(verdicts)}.", hint=LOOSEN)
    of_engine = f"that {scenario.engine.name or 'an engine'} starts"
    lack = "they do not make a server for each phase"
    if short:
        lack = f"no server of theirs {of_engine} can {' or '.join(short)} prompts of all lengths"
    levels = ", within the service levels" if scenario.slo.bounds_anything else ""
    remedies = ["add GPUs", "choose a type with more memory or a smaller model"]
    remedies += ["widen search.sizes"] if scenario.search.sizes not in (SizeSet.ALL, SizeSet.WHOLE_NODES) else []
    remedies += ["loosen slo"] if levels else []
    return InfeasibleError(
        f"scenario {scenario.name}: inventory: {scenario.model.name} ({scenario.model.weights_gb:.0f} GB of weights) "
        f"cannot be served by these GPUs: {lack}{levels}. GPUs that one server {of_engine} needs, by type: "
        f"{'; '.join(_needs(question, plenty))}.",
        hint=f"Prefill and decode need a server each: {', '.join(remedies[:-1])}, or {remedies[-1]}.",
    )


def _prices_of_plenty(question: Question) -> BucketPrices:
    """Prices for an inventory with GPUs enough of every type."""
    items = tuple(replace(item, count=max(item.count, PLENTY)) for item in question.scenario.inventory.items)
    scenario = replace(question.scenario, inventory=Inventory(items=items))
    return BucketPrices(replace(question, scenario=scenario), most=1)


def _smallest(prices: BucketPrices, gpu: str, phase: Phase) -> int:
    """GPUs of the smallest server that takes prompts of all lengths; 0: there is none."""
    column = prices.column(gpu, phase)
    (whole,) = prices.phases[phase].partitions[0]
    rows = [row for row, rate in enumerate(column.capped[:, whole]) if rate > 0]
    return min((column.config(row, whole).parallel.devices for row in rows), default=0)


def _needs(question: Question, plenty: BucketPrices) -> Iterator[str]:
    """A clause for each GPU type."""
    for item in question.scenario.inventory.items:
        phases = [
            f"at least {need} to {phase}" if need else f"no number to {phase}{_refusal(plenty, item.gpu.name, phase)}"
            for phase in Phase
            for need in (_smallest(plenty, item.gpu.name, phase),)
        ]
        yield f"{item.gpu.name} (the inventory has {item.count}): {' and '.join(phases)}"


def _refusal(plenty: BucketPrices, gpu: str, phase: Phase) -> str:
    """Why the engine starts no server of the type, in brackets: the refusal heard most; nothing where it starts one."""
    context, engine = plenty.context(gpu), plenty.question.scenario.engine
    shapes = server_shapes(context, PLENTY, lambda _: True, lambda _: True)
    heard = [refusals(context, phase, shape, engine) for shape in shapes]
    if not heard or not all(heard):
        return ""
    return f" ({Counter(sentences[0] for sentences in heard).most_common(1)[0][0].rstrip('.')})"
