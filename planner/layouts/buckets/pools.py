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
    proves,
    relaxed_values,
    simplest_pools,
)
from planner.domain import (
    AssignmentSettings,
    FormChoice,
    LoadPoint,
    ObjectiveSettings,
    Phase,
    Question,
    Scenario,
    ServingForm,
    SimplerPlan,
)
from planner.domain.serving.routing import WORTH_A_BUCKET
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.buckets.stocks import Stock
from planner.evaluation.evaluator import Evaluator
from planner.layouts.buckets.forms import chosen_form, may_win, other_answers
from planner.layouts.buckets.infeasible import not_survived, nothing_serves, stocks_of
from planner.layouts.buckets.simpler import SIMPLE_SECONDS, Counts, frontier_of
from planner.layouts.certificate import layout_settings, require_prices, single

HALF = 0.5
"""Of the median TTFT: what a second bucket of prefill may pay with instead."""

MOST_RAISES = 6
MET = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChoice:
    """The pools of the plan as they serve together, the value of the best pools and the bound of all deployable ones
    in the objective's unit, whether it was reached in the time given, what simpler plans would serve, and what
    surviving a loss costs. `forms`: what their form was chosen over, where the choice was free. `searched`: a search
    may have chosen others in their place."""

    priced: PricedPools
    value: float
    bound: float
    proven: bool
    solver: str
    simpler: tuple[SimplerPlan, ...]
    survival_cost_rps: float | None = None
    forms: FormChoice | None = None
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
    """The best pools by number of buckets, out of `offer` at `prices`, and the bound of all of them. No answers: none
    can win."""

    prices: BucketPrices
    stocks: tuple[Stock, ...]
    offer: BucketOffer
    answers: dict[Counts, BucketAnswer]
    bound: float
    proven: bool

    @property
    def form(self) -> ServingForm:
        """`aggregated` where nothing else is offered; else `split`, for some of the pools."""
        alone = self.prices.question.scenario.serving_form is ServingForm.AGGREGATED
        return ServingForm.AGGREGATED if alone else ServingForm.SPLIT


def _classes(
    question: Question, prices: BucketPrices, objective: ObjectiveSettings, settings: AssignmentSettings
) -> list[_Solved]:
    """What every family of GPU types that hand KV caches to each other can do: in aggregated pools, and in all. Raises
    as `solve_buckets` does."""
    stocks, solved, offers = stocks_of(question, objective), list[_Solved](), list[BucketOffer]()
    late: SolverError | None = None
    for pricing in (prices.aggregated, prices) if _free(question) else (prices,):
        for offer in pricing.offers(stocks, pricing.partitions):
            relaxed = relaxed_values(offer, pricing.partitions, objective, settings)
            if not relaxed:
                continue
            offers.append(offer)
            aggregated = [every for every in solved if every.form is ServingForm.AGGREGATED]
            beaten = [answer.value for every in aggregated for answer in every.answers.values()]
            try:
                answers, bounds, proven = _every_count(question, offer, relaxed, beaten, objective, settings)
            except SolverError as error:
                late, answers, bounds, proven = error, {}, list(relaxed.values()), False
            if bounds:
                bound = min(bounds) if objective.minimises else max(bounds)
                solved.append(
                    _Solved(prices=pricing, stocks=stocks, offer=offer, answers=answers, bound=bound, proven=proven)
                )
    if any(every.answers for every in solved):
        return solved
    if late is not None:
        raise late
    if offers:
        raise not_survived(question, offers[-1], prices, objective, settings)
    raise nothing_serves(question, prices, objective)


def _free(question: Question) -> bool:
    """Whether the form of pools is the planner's choice."""
    return question.scenario.serving_form is ServingForm.AUTO


def _every_count(
    question: Question,
    offer: BucketOffer,
    relaxed: dict[Partition, float],
    beaten: Sequence[float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> tuple[dict[Counts, BucketAnswer], list[float], bool]:
    """The best pools by number of buckets, the bounds of all partitions that can serve, and whether these are proven;
    partitions that cannot be worth more than what was `beaten` are not solved for. Raises SolverError where nothing was
    found in time."""
    groups: dict[Counts, dict[Partition, float]] = {}
    for partition, value in relaxed.items():
        if may_win(value, beaten, objective):
            groups.setdefault(partition.counts, {})[partition] = value
    answers, bounds = _by_buckets(offer, groups, objective, settings, _worth(question.scenario))
    sign = -1.0 if objective.minimises else 1.0
    values = [sign * answer.value for answer in answers.values()]
    proven = not values or proves(sign * max(values), sign * max(sign * bound for bound in bounds), settings.gap)
    passed_over = [value for partition, value in relaxed.items() if partition not in groups.get(partition.counts, {})]
    return answers, [*bounds, *passed_over], proven


def _solved(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> BucketChoice:
    """The best choice of any family and form; the bound is of all of them."""
    sign = -1.0 if objective.minimises else 1.0
    classes = _classes(question, prices, objective, layout_settings(question.scenario))
    every, forms = _best_class(question, objective, classes)
    bound = sign * max(sign * one_class.bound for one_class in classes)
    choice = _choice(question, every.prices, objective, every)
    return replace(choice, bound=bound, proven=all(one_class.proven for one_class in classes), forms=forms)


def _best_class(
    question: Question, objective: ObjectiveSettings, classes: Sequence[_Solved]
) -> tuple[_Solved, FormChoice | None]:
    """The class with the best pools, and what their form was chosen over, where it was free. Rates are compared as the
    pools serve them together."""
    sign, service = (-1.0 if objective.minimises else 1.0), BucketService(question)
    by_rate = not (objective.minimises or objective.kind.row.per_charge)
    values: dict[ServingForm, tuple[float, _Solved]] = {}
    for every in classes:
        if not every.answers:
            continue
        answer = every.answers[_worth_their_buckets(every.answers, objective, question.scenario, lambda _: None)]
        if answer.form is not every.form and answer.form in values:
            continue  # all of its pools are aggregated, and these have been solved for alone
        value = service.priced(every.prices.pools(answer, every.stocks)).rate_rps if by_rate else answer.value
        if answer.form not in values or sign * value > sign * values[answer.form][0]:
            values[answer.form] = value, every
    bounds = {
        form: sign * max(sign * every.bound for every in classes if every.form is form)
        for form in {every.form for every in classes}
    }
    chosen = chosen_form({form: value for form, (value, _) in values.items()}, bounds, objective)
    return values[chosen.chosen][1], chosen if _free(question) else None


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
        simpler=frontier_of(every.offer, every.answers, simple, objective, settings),
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
        free = best_pools(replace(offer, survive=0.0), alike, objective, replace(settings, time_limit_s=SIMPLE_SECONDS))
    except (InfeasibleError, SolverError):
        return None
    return max(0.0, free.rate_rps - best.rate_rps)


def fastest_pools(
    evaluator: Evaluator, objective: ObjectiveSettings, settings: AssignmentSettings
) -> tuple[PricedPools, float, str]:
    """The best pools for an objective, no simpler than they are, with their bound and the solver's name. Raises as
    `solve_buckets` does."""
    question = evaluator.question
    sign = -1.0 if objective.minimises else 1.0
    classes = _classes(question, evaluator.prices, objective, settings)
    every, _ = _best_class(question, objective, classes)
    best = every.answers[_worth_their_buckets(every.answers, objective, question.scenario, lambda _: None)]
    bound = sign * max(sign * one_class.bound for one_class in classes)
    service = BucketService(question)
    prices = every.prices
    others = [answer for _, answer in other_answers(every.offer, best, prices.partitions, objective, settings)]
    priced = [service.priced(prices.pools(answer, every.stocks)) for answer in (best, *others)]
    return max(priced, key=lambda pools: pools.rate_rps), bound, best.solver


def _by_buckets(
    offer: BucketOffer,
    groups: dict[Counts, dict[Partition, float]],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    worth: float,
) -> tuple[dict[Counts, BucketAnswer], list[float]]:
    """The best pools by number of buckets, none where more buckets cannot pay `worth` by their relaxation; and bounds
    of all that can serve. Raises SolverError where nothing was found in time."""
    answers: dict[Counts, BucketAnswer] = {}
    bounds, late = [], None
    sign = -1.0 if objective.minimises else 1.0
    share = replace(settings, time_limit_s=settings.time_limit_s / max(1, len(groups)))
    for counts in sorted(groups, key=sum):
        most = max(sign * value for value in groups[counts].values())
        fewer = [sign * answer.value for other, answer in answers.items() if sum(other) < sum(counts)]
        median_counts = counts == (2, 1)
        if fewer and not median_counts and most <= max(fewer) + worth * abs(max(fewer)):
            bounds.append(sign * most)
            continue
        try:
            answers[counts] = best_pools(offer, list(groups[counts]), objective, share, relaxed=groups[counts])
            bounds.append(answers[counts].bound)
        except InfeasibleError:
            continue
        except SolverError as error:
            late = error
            bounds.append(sign * most)
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
    if chosen == (1, 1) and (2, 1) in answers and _gain(answers, chosen, (2, 1), sign) >= -scenario.simplicity:
        one_bucket, two_buckets = median(answers[1, 1]), median(answers[2, 1])
        if one_bucket is not None and two_buckets is not None and two_buckets <= HALF * one_bucket:
            chosen = (2, 1)
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
    limits = replace(settings, time_limit_s=SIMPLE_SECONDS, gap=0.0)
    try:
        simple = simplest_pools(offer, best, objective, limits, within=within)
    except (InfeasibleError, SolverError):
        return best
    return simple if (simple.kinds, len(simple.pools)) < (best.kinds, len(best.pools)) else best
