"""The pools of a plan of buckets: solved for, made as simple as their rate allows, or searched for.

Of all pools the best come first. Then as few buckets as pay: a further bucket of a phase must raise the objective by
`WORTH_A_BUCKET`, or a second one of prefill halve the median TTFT at next to no cost. Of what is left, the fewest kinds
and pools within `simplicity` of it. With a simplicity of 0 nothing is given up: every bucket pays that adds more than
the solver's gap.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    Partition,
    best_pools,
    better_pools,
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
from planner.layouts.buckets.forms import chosen_form, other_answers, value_to_beat
from planner.layouts.buckets.infeasible import not_survived, nothing_serves, stocks_of
from planner.layouts.buckets.simpler import SIMPLE_WORK, Counts, frontier_of
from planner.layouts.certificate import layout_settings, require_prices, single

HALF = 0.5
"""Of the median TTFT: what a second bucket of prefill may pay with instead."""

MOST_RAISES = 6
MET = 1e-4
WORTH_PRICING = 0.005  # of the rate: pools priced together may be so far below their programme
MOST_PRICINGS = 2
MEDIAN_COUNTS = (2, 1)  # buckets that may pay with the median


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
    can win, or `late`: none were found within the work limit."""

    prices: BucketPrices
    stocks: tuple[Stock, ...]
    offer: BucketOffer
    answers: dict[Counts, BucketAnswer]
    bound: float
    proven: bool
    late: bool = False

    @property
    def form(self) -> ServingForm:
        """`aggregated` where nothing else is offered; else `split`, for some of the pools."""
        alone = self.prices.question.scenario.serving_form is ServingForm.AGGREGATED
        return ServingForm.AGGREGATED if alone else ServingForm.SPLIT

    @property
    def best(self) -> BucketAnswer:
        """The best, whatever its buckets, where the objective is a rate."""
        return max(self.answers.values(), key=lambda answer: answer.value)


def _classes(
    question: Question, prices: BucketPrices, objective: ObjectiveSettings, settings: AssignmentSettings
) -> list[_Solved]:
    """What every family of GPU types that hand KV caches to each other can do: in aggregated pools, and in all. Raises
    as `solve_buckets` does."""
    solved: list[_Solved] = []
    for pricing in (prices.aggregated, prices) if _free(question) else (prices,):
        beaten = [answer.value for every in solved for answer in every.answers.values()]
        solved += _priced_anew(question, pricing, beaten, objective, settings)
    if any(every.answers for every in solved):
        return [every for every in solved if every.answers or math.isfinite(every.bound)]
    if any(every.late for every in solved):
        raise SolverError("buckets: no pools were found within the work limit.", hint="Raise search.work_limit.")
    if solved:
        raise not_survived(question, solved[-1].offer, prices, objective, settings)
    raise nothing_serves(question, prices, objective)


def _free(question: Question) -> bool:
    """Whether the form of pools is the planner's choice."""
    return question.scenario.serving_form is ServingForm.AUTO


def _priced_anew(
    question: Question,
    prices: BucketPrices,
    beaten: Sequence[float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> list[_Solved]:
    """What every family can do, worth more than what was `beaten`. Where pools at work together stay behind a bound
    well below what queues were priced for, they are priced anew: fewer servers have longer queues."""
    service = BucketService(question)
    families = _families(question, prices, beaten, objective, settings)
    if objective.minimises or objective.kind.row.per_charge:
        return families
    for _ in range(MOST_PRICINGS):
        bound = max((every.bound for every in families), default=0.0)
        served = [service.unbroken(prices.pools(f.best, f.stocks)).rate_rps for f in families if f.answers]
        tighter = prices.below(bound) if served and max(served) < bound * (1 - WORTH_PRICING) else None
        if tighter is None:
            break
        anew = _families(question, tighter, beaten, objective, settings)
        if not any(every.answers for every in anew):
            break
        prices, families = tighter, [replace(every, bound=min(every.bound, bound)) for every in anew]
    return families


def _families(
    question: Question,
    prices: BucketPrices,
    beaten: Sequence[float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> list[_Solved]:
    """What every family can do for a partition that can serve at all."""
    stocks, solved, sign = stocks_of(question, objective), list[_Solved](), -1.0 if objective.minimises else 1.0
    for offer in prices.offers(stocks, prices.partitions):
        relaxed = relaxed_values(offer, prices.partitions, objective, settings)
        if not relaxed:
            continue
        than = value_to_beat(beaten, objective)
        bounds: list[float]
        try:
            answers, bounds = _by_buckets(offer, relaxed, objective, settings, question.scenario.simplicity, than)
            late = False
        except SolverError:
            answers, bounds, late = {}, list(relaxed.values()), True
        values = [sign * answer.value for answer in answers.values()]
        bound = sign * max((sign * value for value in bounds), default=-math.inf)
        solved.append(
            _Solved(
                prices=prices,
                stocks=stocks,
                offer=offer,
                answers=answers,
                bound=bound,
                proven=not late and (not values or proves(sign * max(values), bound, settings.gap)),
                late=late,
            )
        )
    return solved


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
    within = _left_for_simplicity(scenario.simplicity, best)
    simpler = [_simplest(offer, answer, objective, settings, within) for offer, answer in candidates]
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


def _left_for_simplicity(simplicity: float, best: BucketAnswer) -> float:
    """What simpler pools may give up of the best, which may be short of its bound already; half of it at least."""
    gap = abs(best.bound - best.value) / max(abs(best.bound), 1e-12)
    return max(simplicity / 2, simplicity - gap)


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
    relaxed: Mapping[Partition, float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    within: float,
    than: float | None,
) -> tuple[dict[Counts, BucketAnswer], list[float]]:
    """The best pools by number of buckets, those alone that are better than all of fewer and `than` a value; and bounds
    of all that can serve. What must be beaten ends most programmes at once. Raises SolverError where nothing was found
    within the limit."""
    answers: dict[Counts, BucketAnswer] = {}
    bounds, late = [], None
    sign = -1.0 if objective.minimises else 1.0
    groups: dict[Counts, dict[Partition, float]] = {}
    for partition, value in relaxed.items():
        groups.setdefault(partition.counts, {})[partition] = value
    share = replace(settings, work_limit=settings.work_limit / max(1, len(groups)))
    for counts in sorted(groups, key=sum):
        fewer = [sign * answer.value for answer in answers.values()]
        try:
            if objective.kind.row.per_charge or (not fewer and than is None):
                answers[counts] = best_pools(offer, list(groups[counts]), objective, share, relaxed=groups[counts])
                bounds.append(answers[counts].bound)
                continue
            beaten = max([*fewer, *([] if than is None else [sign * than])])
            if fewer and counts == MEDIAN_COUNTS:
                beaten = min(beaten, max(fewer) - within * abs(max(fewer)))
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
    if (
        chosen == (1, 1)
        and MEDIAN_COUNTS in answers
        and _gain(answers, chosen, MEDIAN_COUNTS, sign) >= -scenario.simplicity
    ):
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
    priced = service.unbroken(prices.pools(answer, stocks))
    rate = min(priced.rate_rps, answer.rate_rps) * prices.question.scenario.routing.margin
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
