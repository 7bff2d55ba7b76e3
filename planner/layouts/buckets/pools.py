"""The pools of a plan of buckets: solved for, made as simple as their rate allows, or searched for.

Of all pools the best come first. Then as few buckets as pay: a further bucket of a phase must raise the objective by
`WORTH_A_BUCKET`, or a second one of prefill halve the median TTFT at next to no cost. Of what is left, the fewest kinds
and pools within `simplicity` of it. With a simplicity of 0 nothing is given up: every bucket pays that adds
more than the solver's gap.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    Partition,
    best_pools,
    fastest_of_kinds,
    relaxed_values,
    simplest_pools,
)
from planner.domain import (
    AssignmentSettings,
    LoadPoint,
    ObjectiveSettings,
    Phase,
    Question,
    SimplerPlan,
)
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.judging import WORTH_A_BUCKET
from planner.evaluation.buckets.prices import BucketPrices, Stock, inventory_stocks
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.evaluator import Evaluator
from planner.layouts.certificate import layout_settings, single

HALF = 0.5
"""Of the median TTFT: what a second bucket of prefill may pay with instead."""

MOST_RAISES = 6
MET = 1e-4
SIMPLE_SECONDS = 10.0
MOST_KINDS = 6  # of the frontier's points without length routing
_SURVIVAL_STEPS = 50

Counts = tuple[int, int]  # buckets of prefill and of decode


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChoice:
    """The pools of the plan as they serve together, the bound of all deployable ones in the objective's unit, whether
    it was reached in the time given, and what simpler plans would serve."""

    priced: PricedPools
    bound: float
    proven: bool
    solver: str
    simpler: tuple[SimplerPlan, ...]


def solve_buckets(evaluator: Evaluator) -> BucketChoice:
    """The best pools for the scenario's objective. A target is met with the rate that the pools reach together.

    Raises InfeasibleError where nothing serves, a target is out of reach, or a loss cannot be survived.
    """
    question = evaluator.question
    wanted = question.scenario.objective.target_rps
    objective, bound = single(question.scenario.objective), None
    for _ in range(MOST_RAISES):
        choice = _solved(question, evaluator.prices, objective)
        bound = choice.bound if bound is None else bound
        reached = choice.priced.rate_rps
        if reached >= wanted * (1 - MET):
            return replace(choice, bound=bound)
        objective = replace(objective, target_rps=objective.target_rps * wanted / reached * (1 + MET))
    raise InfeasibleError(
        f"scenario {question.scenario.name}: objective.target_rps: {wanted:g} requests/s is not reached with the "
        f"queues of the pools together; the closest reach {reached:.1f}.",
        hint="Lower the target, or loosen the service levels.",
    )


def stocks_of(question: Question, objective: ObjectiveSettings) -> tuple[Stock, ...]:
    """The inventory's GPUs, charged as the objective counts them."""
    items = question.scenario.inventory.items
    if objective.kind.row.in_watts:
        return inventory_stocks(question.scenario.inventory, [item.gpu.max_w for item in items])
    return inventory_stocks(question.scenario.inventory, [item.price_usd_per_gpu_hour for item in items])


def _solved(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> BucketChoice:
    scenario, service = question.scenario, BucketService(question)
    stocks, settings = stocks_of(question, objective), layout_settings(scenario)
    offer = prices.offer(stocks, prices.partitions)
    relaxed = relaxed_values(offer, prices.partitions, objective, settings)
    if not relaxed:
        raise _nothing_serves(question, prices, objective)
    worth = WORTH_A_BUCKET if scenario.simplicity else settings.gap
    groups: dict[Counts, dict[Partition, float]] = {}
    for partition, value in relaxed.items():
        groups.setdefault((len(partition[0]), len(partition[1])), {})[partition] = value
    try:
        answers = dict(_by_buckets(offer, groups, objective, settings, worth))
    except InfeasibleError:
        raise _not_survived(question, offer, prices, objective, settings) from None
    if not answers:
        raise _not_survived(question, offer, prices, objective, settings)
    sign = -1.0 if objective.minimises else 1.0
    bounds = [answers[c].bound if c in answers else sign * max(sign * v for v in groups[c].values()) for c in groups]
    counts = _worth_their_buckets(
        answers, objective, lambda answer: _median(service, prices, answer, stocks), worth, scenario.simplicity
    )
    best = answers[counts]
    simple = _simplest(offer, best, objective, settings, scenario.simplicity)
    simpler = _frontier(offer, answers, simple, settings)
    return BucketChoice(
        priced=service.priced(prices.pools(simple, stocks)),
        bound=sign * max(sign * bound for bound in bounds),
        proven=all(answer.proven for answer in answers.values()),
        solver=best.solver,
        simpler=simpler,
    )


def _by_buckets(
    offer: BucketOffer,
    groups: dict[Counts, dict[Partition, float]],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    worth: float,
) -> Iterator[tuple[Counts, BucketAnswer]]:
    """The best pools by number of buckets; where more buckets cannot pay `worth` by their relaxation, none."""
    best: dict[Counts, float] = {}
    sign = -1.0 if objective.minimises else 1.0
    share = replace(settings, time_limit_s=settings.time_limit_s / max(1, len(groups)))
    for counts in sorted(groups, key=sum):
        most = max(sign * value for value in groups[counts].values())
        fewer = [value for other, value in best.items() if sum(other) < sum(counts)]
        median_counts = counts == (2, 1)
        if fewer and not median_counts and most <= max(fewer) + worth * abs(max(fewer)):
            continue
        try:
            answer = best_pools(offer, list(groups[counts]), objective, share, relaxed=groups[counts])
        except InfeasibleError:
            continue
        best[counts] = sign * answer.value
        yield counts, answer


def _worth_their_buckets(
    answers: dict[Counts, BucketAnswer],
    objective: ObjectiveSettings,
    median: Callable[[BucketAnswer], float | None],
    worth: float,
    simplicity: float,
) -> Counts:
    """The numbers of buckets that pay for themselves, `worth` each; a median may cost the share `simplicity`."""
    sign = -1.0 if objective.minimises else 1.0
    chosen = min(answers, key=sum)
    for counts in sorted(answers, key=lambda c: (sum(c), -sign * answers[c].value)):
        added = sum(counts) - sum(chosen)
        if added > 0 and _gain(answers, chosen, counts, sign) >= max(MET, (1 + worth) ** added - 1):
            chosen = counts
    if chosen == (1, 1) and (2, 1) in answers and _gain(answers, chosen, (2, 1), sign) >= -simplicity:
        one, two = median(answers[1, 1]), median(answers[2, 1])
        if one is not None and two is not None and two <= HALF * one:
            chosen = (2, 1)
    return chosen


def _gain(answers: dict[Counts, BucketAnswer], chosen: Counts, counts: Counts, sign: float) -> float:
    """By what share others are better than the chosen ones."""
    before, value = answers[chosen].value, answers[counts].value
    return sign * (value - before) / max(abs(before), 1e-12)


def _median(
    service: BucketService, prices: BucketPrices, answer: BucketAnswer, stocks: Sequence[Stock]
) -> float | None:
    """Median TTFT of all requests at what the plan would promise, roughly: that of its buckets, weighted."""
    priced = service.priced(prices.pools(answer, stocks))
    rate = priced.rate_rps * prices.question.scenario.routing.margin
    rows = service.latencies(priced.pools, {LoadPoint.PROMISE: rate})
    weights = {(pool.start, pool.end): pool for pool in priced.pools if pool.phase is Phase.PREFILL}
    spans = prices.question.workload.ranges
    total = 0.0
    for row in rows:
        if row.phase is Phase.PREFILL and (row.start, row.end) in weights:
            if row.p50_ms is None:
                return None
            total += row.p50_ms * sum(s.probability for s in spans if row.start <= s.start and s.end <= row.end)
    return total


def _simplest(
    offer: BucketOffer, best: BucketAnswer, objective: ObjectiveSettings, settings: AssignmentSettings, within: float
) -> BucketAnswer:
    """The simplest pools within the share of the best; the best where nothing is simpler."""
    if not within:
        return best
    limits = replace(settings, time_limit_s=SIMPLE_SECONDS, gap=0.0)
    try:
        simple = simplest_pools(offer, best, objective, limits, within=within)
    except (InfeasibleError, SolverError):
        return best
    return simple if (simple.kinds, len(simple.pools)) < (best.kinds, len(best.pools)) else best


def _frontier(
    offer: BucketOffer, answers: dict[Counts, BucketAnswer], chosen: BucketAnswer, settings: AssignmentSettings
) -> tuple[SimplerPlan, ...]:
    """Rate against simplicity: few kinds without length routing, then every number of buckets, and the plan."""
    limits = replace(settings, time_limit_s=SIMPLE_SECONDS / 5, gap=max(settings.gap, 0.005))
    candidates = list(answers.values())
    single_buckets = answers.get((1, 1))
    if single_buckets is not None:
        for kinds in range(2, min(MOST_KINDS, single_buckets.kinds)):
            try:
                candidates.append(fastest_of_kinds(offer, single_buckets.partition, kinds, limits))
            except (InfeasibleError, SolverError):
                continue
    points = {_point(answer, chosen=False) for answer in candidates if answer is not chosen}
    points = {point for point in points if not any(_outdoes(other, point) for other in points)}
    return tuple(sorted((*points, _point(chosen, chosen=True)), key=_simplicity))


def _simplicity(point: SimplerPlan) -> tuple[float, ...]:
    return point.prefill_buckets + point.decode_buckets, point.kinds, point.pools, point.rate_rps


def _point(answer: BucketAnswer, *, chosen: bool) -> SimplerPlan:
    return SimplerPlan(
        kinds=answer.kinds,
        prefill_buckets=len(answer.partition[0]),
        decode_buckets=len(answer.partition[1]),
        pools=len(answer.pools),
        rate_rps=answer.rate_rps,
        chosen=chosen,
    )


def _outdoes(other: SimplerPlan, point: SimplerPlan) -> bool:
    """Whether another is as simple and as fast, and better in one of both."""
    sizes = [
        (other.kinds, point.kinds),
        (other.prefill_buckets, point.prefill_buckets),
        (other.decode_buckets, point.decode_buckets),
        (other.pools, point.pools),
        (-other.rate_rps, -point.rate_rps),
    ]
    return all(a <= b for a, b in sizes) and any(a < b for a, b in sizes)


def _nothing_serves(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> InfeasibleError:
    """Why no partition can be served: a budget or target, or the GPUs themselves."""
    scenario = question.scenario
    stocks = stocks_of(question, objective)
    offer = prices.offer(stocks, prices.partitions[:1])
    fastest = relaxed_values(offer, prices.partitions[:1], ObjectiveSettings(), scenario.assignment)
    most = max(fastest.values(), default=0.0)
    if most and objective.target_rps:
        return InfeasibleError(
            f"scenario {scenario.name}: objective.target_rps: {objective.target_rps:g} requests/s is above what the "
            f"offered GPUs can reach, at most {most:.1f}.",
            hint="Lower the target, offer more GPUs, or loosen the service levels.",
        )
    if most:
        return InfeasibleError(
            f"scenario {scenario.name}: objective.budget_usd_per_hour: {objective.budget_usd_per_hour:g} USD/hour "
            "rents no fleet that serves the workload.",
            hint="Raise the budget, or offer cheaper GPUs.",
        )
    return InfeasibleError(
        f"scenario {scenario.name}: inventory: no servers of these GPUs that an engine would start serve "
        f"{scenario.model.name} in both phases within the service levels.",
        hint="Prefill and decode need an island each: add GPUs, choose a type with more memory, or loosen slo.",
    )


def _not_survived(
    question: Question,
    offer: BucketOffer,
    prices: BucketPrices,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> InfeasibleError:
    """Names the closest share that can be survived, or what else is short."""
    scenario = question.scenario
    if not scenario.survive.share:
        return _nothing_serves(question, prices, objective)
    low, high = 0, round(scenario.survive.share * _SURVIVAL_STEPS)
    limits = replace(settings, time_limit_s=SIMPLE_SECONDS / 5, gap=0.05)
    while low < high - 1:
        middle = (low + high) // 2
        try:
            best_pools(replace(offer, survive=middle / _SURVIVAL_STEPS), prices.partitions[:1], objective, limits)
            low = middle
        except (InfeasibleError, SolverError):
            high = middle
    return InfeasibleError(
        f"scenario {scenario.name}: survive.share: {scenario.survive.share:g} of the rate does not remain after the "
        f"loss of any {scenario.survive.nodes} node{'s' * (scenario.survive.nodes != 1)}; the closest share is "
        f"{low / _SURVIVAL_STEPS:.2f}.",
        hint="Lower survive.share or survive.nodes, or offer more GPUs: every phase needs servers on several nodes.",
    )


def require_pools(evaluator: Evaluator) -> None:
    """Raises InfeasibleError where no pools of the inventory serve the workload, whatever their number."""
    question, prices = evaluator.question, evaluator.prices
    if not any(_serves(prices, partition) for partition in prices.partitions):
        raise _nothing_serves(question, prices, ObjectiveSettings())


def _serves(prices: BucketPrices, partition: Partition) -> bool:
    offer = prices.offer(inventory_stocks(prices.question.scenario.inventory), [partition])
    return bool(relaxed_values(offer, [partition], ObjectiveSettings(), prices.question.scenario.assignment))
