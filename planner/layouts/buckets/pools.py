"""The pools of a plan of buckets: solved for, made as simple as their rate allows, or searched for.

Of all pools the best come first. Then as few buckets as pay: a further bucket of a phase must raise the objective by
`WORTH_A_BUCKET`, or a second one of prefill halve the median TTFT at next to no cost. Of what is left, the fewest kinds
and pools within `simplicity` of it. With a simplicity of 0 nothing is given up: every bucket pays that adds more than
the solver's gap.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    Partition,
    best_pools,
    better_pools,
    fastest_of_kinds,
    proves,
    relaxed_values,
    simplest_pools,
)
from planner.domain import (
    AssignmentSettings,
    LoadPoint,
    ObjectiveSettings,
    Phase,
    Question,
    Scenario,
    SimplerPlan,
)
from planner.domain.serving.routing import WORTH_A_BUCKET
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.buckets.stocks import Stock
from planner.evaluation.evaluator import Evaluator
from planner.layouts.buckets.forms import other_answers
from planner.layouts.buckets.infeasible import not_survived, nothing_serves, stocks_of
from planner.layouts.certificate import layout_settings, require_prices, single

HALF = 0.5
"""Of the median TTFT: what a second bucket of prefill may pay with instead."""

MOST_RAISES = 6
MET = 1e-4
SIMPLE_WORK = 4.0
MEDIAN_COUNTS = (2, 1)  # buckets that may pay with the median
MOST_KINDS = 6  # of the frontier's points without length routing

Counts = tuple[int, int]  # buckets of prefill and of decode


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChoice:
    """The pools of the plan as they serve together, the value of the best pools and the bound of all deployable ones
    in the objective's unit, whether it was reached in the time given, what simpler plans would serve, and what
    surviving a loss costs. `searched`: a search may have chosen others in their place."""

    priced: PricedPools
    value: float
    bound: float
    proven: bool
    solver: str
    simpler: tuple[SimplerPlan, ...]
    survival_cost_rps: float | None = None
    searched: bool = True


def solve_buckets(evaluator: Evaluator) -> BucketChoice:
    """The best pools for the scenario's objective. A target is met with the rate that the pools reach together.

    Raises InfeasibleError where nothing serves, a target is out of reach, or a loss cannot be survived; InputError
    where GPUs cost nothing and the objective counts money.
    """
    question = evaluator.question
    require_prices(question.scenario)
    wanted = question.scenario.objective.target_rps
    objective, bound = single(question.scenario.objective), None
    reached = 0.0
    for _ in range(MOST_RAISES):
        try:
            choice = _solved(question, evaluator.prices, objective)
        except InfeasibleError:
            if bound is None:
                raise
            break
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solved:
    """The best pools by number of buckets, out of `offer`, and the bound of all of them."""

    stocks: tuple[Stock, ...]
    offer: BucketOffer
    answers: dict[Counts, BucketAnswer]
    bound: float
    proven: bool


def _families(
    question: Question, prices: BucketPrices, objective: ObjectiveSettings, settings: AssignmentSettings
) -> list[_Solved]:
    """What every family of GPU types that hand KV caches to each other can do. Raises as `solve_buckets` does."""
    stocks, errors, solved = stocks_of(question, objective), [], []
    for offer in prices.offers(stocks, prices.partitions):
        try:
            solved.append(_every_count(question, prices, objective, settings, offer))
        except InfeasibleError as error:
            errors.append(error)
    if not solved:
        raise errors[0] if errors else nothing_serves(question, prices, objective)
    return solved


def _every_count(
    question: Question,
    prices: BucketPrices,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    offer: BucketOffer,
) -> _Solved:
    """Raises as `solve_buckets` does."""
    stocks = stocks_of(question, objective)
    relaxed = relaxed_values(offer, prices.partitions, objective, settings)
    if not relaxed:
        raise nothing_serves(question, prices, objective)
    groups: dict[Counts, dict[Partition, float]] = {}
    for partition, value in relaxed.items():
        groups.setdefault(partition.counts, {})[partition] = value
    answers, bounds = _by_buckets(offer, groups, objective, settings, question.scenario.simplicity)
    if not answers:
        raise not_survived(question, offer, prices, objective, settings)
    sign = -1.0 if objective.minimises else 1.0
    bound = sign * max(sign * value for value in bounds)
    most = sign * max(sign * answer.value for answer in answers.values())
    proven = proves(most, bound, settings.gap)
    return _Solved(stocks=stocks, offer=offer, answers=answers, bound=bound, proven=proven)


def _solved(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> BucketChoice:
    """The best choice of any family; the bound is of all of them."""
    sign = -1.0 if objective.minimises else 1.0
    families = _families(question, prices, objective, layout_settings(question.scenario))
    choices = [_choice(question, prices, objective, every) for every in families]
    best = max(choices, key=lambda choice: sign * choice.value)
    bound = sign * max(sign * choice.bound for choice in choices)
    return replace(best, bound=bound, proven=all(choice.proven for choice in choices))


def _choice(question: Question, prices: BucketPrices, objective: ObjectiveSettings, every: _Solved) -> BucketChoice:
    scenario, service, settings = question.scenario, BucketService(question), layout_settings(question.scenario)
    counts = _worth_their_buckets(
        every.answers, objective, scenario, lambda answer: _median(service, prices, answer, every.stocks)
    )
    best = every.answers[counts]
    candidates = [(every.offer, best), *other_answers(every.offer, best, prices.partitions, objective, settings)]
    simpler = [_simplest(offer, answer, objective, settings, scenario.simplicity) for offer, answer in candidates]
    priced = {answer: service.priced(prices.pools(answer, every.stocks)) for answer in simpler}
    simple = max(simpler, key=lambda answer: priced[answer].rate_rps)
    return BucketChoice(
        priced=priced[simple],
        value=best.value,
        bound=every.bound,
        proven=every.proven,
        solver=best.solver,
        simpler=_frontier(every.offer, every.answers, simple, objective, settings),
        survival_cost_rps=_survival_cost_rps(every.offer, best, objective, prices, settings),
    )


def _survival_cost_rps(
    offer: BucketOffer,
    best: BucketAnswer,
    objective: ObjectiveSettings,
    prices: BucketPrices,
    settings: AssignmentSettings,
) -> float | None:
    """What as many buckets would serve more where nothing had to survive; None where nothing has to, where fleets are
    compared by what they cost, or it is not found in time."""
    if not offer.survive or objective.minimises or objective.kind.row.per_charge:
        return None
    alike = [partition for partition in prices.partitions if partition.counts == best.partition.counts]
    try:
        free = best_pools(replace(offer, survive=0.0), alike, objective, replace(settings, work_limit=SIMPLE_WORK))
    except (InfeasibleError, SolverError):
        return None
    return max(0.0, free.rate_rps - best.rate_rps)


def fastest_pools(
    evaluator: Evaluator, objective: ObjectiveSettings, settings: AssignmentSettings
) -> tuple[PricedPools, float, str]:
    """The best pools for an objective, no simpler than they are, with their bound and the solver's name. Raises as
    `solve_buckets` does."""
    question, prices = evaluator.question, evaluator.prices
    sign = -1.0 if objective.minimises else 1.0
    scenario = question.scenario
    families = _families(question, prices, objective, settings)
    counts = [_worth_their_buckets(every.answers, objective, scenario, lambda _: None) for every in families]
    pairs = [(every, every.answers[key]) for every, key in zip(families, counts, strict=True)]
    every, best = max(pairs, key=lambda pair: sign * pair[1].value)
    bound = sign * max(sign * one_family.bound for one_family in families)
    service = BucketService(question)
    others = [answer for _, answer in other_answers(every.offer, best, prices.partitions, objective, settings)]
    priced = [service.priced(prices.pools(answer, every.stocks)) for answer in (best, *others)]
    return max(priced, key=lambda pools: pools.rate_rps), bound, best.solver


def _by_buckets(
    offer: BucketOffer,
    groups: dict[Counts, dict[Partition, float]],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    within: float,
) -> tuple[dict[Counts, BucketAnswer], list[float]]:
    """The best pools by number of buckets, those alone that are better than all of fewer; and bounds of all that can
    serve. What must be beaten ends most programmes at once. Raises SolverError where nothing was found within the
    limit."""
    answers: dict[Counts, BucketAnswer] = {}
    bounds, late = [], None
    sign = -1.0 if objective.minimises else 1.0
    share = replace(settings, work_limit=settings.work_limit / max(1, len(groups)))
    for counts in sorted(groups, key=sum):
        fewer = [sign * answer.value for answer in answers.values()]
        try:
            if not fewer or objective.kind.row.per_charge:
                answers[counts] = best_pools(offer, list(groups[counts]), objective, share, relaxed=groups[counts])
                bounds.append(answers[counts].bound)
                continue
            beaten = max(fewer) - (within * abs(max(fewer)) if counts == MEDIAN_COUNTS else 0.0)
            answer, bound = better_pools(offer, groups[counts], objective, share, than=sign * beaten)
        except InfeasibleError:
            continue
        except SolverError as error:
            late = error
            bounds.append(sign * max(sign * value for value in groups[counts].values()))
            continue
        answers |= {} if answer is None else {counts: answer}
        bounds += [] if bound is None else [bound]
    if late is not None and not answers:
        raise late
    return answers, bounds


def _worth_their_buckets(
    answers: dict[Counts, BucketAnswer],
    objective: ObjectiveSettings,
    scenario: Scenario,
    median: Callable[[BucketAnswer], float | None],
) -> Counts:
    """The numbers of buckets that pay for themselves; a halved median may cost the scenario's simplicity."""
    sign, worth = -1.0 if objective.minimises else 1.0, _worth(scenario)
    chosen = min(answers, key=sum)
    for counts in sorted(answers, key=lambda c: (sum(c), -sign * answers[c].value)):
        added = sum(counts) - sum(chosen)
        if added > 0 and _gain(answers, chosen, counts, sign) >= max(MET, (1 + worth) ** added - 1):
            chosen = counts
    if chosen == (1, 1) and MEDIAN_COUNTS in answers and _gain(answers, chosen, MEDIAN_COUNTS, sign) >= -scenario.simplicity:
        one_bucket, two_buckets = median(answers[1, 1]), median(answers[MEDIAN_COUNTS])
        if one_bucket is not None and two_buckets is not None and two_buckets <= HALF * one_bucket:
            chosen = MEDIAN_COUNTS
    return chosen


def _worth(scenario: Scenario) -> float:
    """What a further bucket must add; where nothing is given up for simplicity, the solver's gap."""
    return WORTH_A_BUCKET if scenario.simplicity else scenario.search.gap


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
    limits = replace(settings, work_limit=SIMPLE_WORK, gap=0.0)
    try:
        simple = simplest_pools(offer, best, objective, limits, within=within)
    except (InfeasibleError, SolverError):
        return best
    return simple if (simple.kinds, len(simple.pools)) < (best.kinds, len(best.pools)) else best


def _frontier(
    offer: BucketOffer,
    answers: dict[Counts, BucketAnswer],
    chosen: BucketAnswer,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> tuple[SimplerPlan, ...]:
    """Rate against simplicity: few kinds without length routing, then every number of buckets, and the plan. Where GPUs
    are rented, simpler plans may cost as much as this one, or its budget."""
    limits = replace(settings, work_limit=SIMPLE_WORK, gap=max(settings.gap, 0.005))
    most_cost = _most_cost(offer, chosen, objective)
    candidates = list(answers.values())
    single_buckets = answers.get((1, 1))
    if single_buckets is not None:
        for kinds in range(2, min(MOST_KINDS, single_buckets.kinds)):
            try:
                candidates.append(fastest_of_kinds(offer, single_buckets.partition, kinds, limits, most_cost=most_cost))
            except (InfeasibleError, SolverError):
                continue
    points = {_point(answer, chosen=False) for answer in candidates} - {_point(chosen, chosen=False)}
    points = {point for point in points if not any(_outdoes(other, point) for other in points)}
    return tuple(sorted((*points, _point(chosen, chosen=True)), key=_simplicity))


def _most_cost(offer: BucketOffer, chosen: BucketAnswer, objective: ObjectiveSettings) -> float | None:
    """What simpler plans may cost (as the offer charges); None where nothing is rented."""
    if not objective.rents:
        return None
    if objective.kind.row.budgeted:
        return objective.budget_usd_per_hour
    return sum(offer.charges[pool.option.stock] * pool.option.use * pool.count for pool in chosen.pools)


def _simplicity(point: SimplerPlan) -> tuple[float, ...]:
    return point.prefill_buckets + point.decode_buckets, point.kinds, point.pools, point.rate_rps


def _point(answer: BucketAnswer, *, chosen: bool) -> SimplerPlan:
    return SimplerPlan(
        kinds=answer.kinds,
        prefill_buckets=answer.partition.counts[0],
        decode_buckets=answer.partition.counts[1],
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
