"""The pools of a plan of buckets: solved for, made as simple as their rate allows, or searched for.

Of all pools the best come first. Then as few buckets as pay: a further bucket of a phase must raise the objective by
`WORTH_A_BUCKET`, or a second one of prefill halve the median TTFT at next to no cost. Of what is left, the fewest kinds
and pools within `simplicity` of it. With a simplicity of 0 nothing is given up: every bucket pays that adds more than
the solver's gap.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    better_pools,
    relaxed_values,
    simplest_pools,
)
from planner.cost.serving import parts_unevenly
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
from planner.domain.stocks import Stock
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.classes import MEDIAN_COUNTS, SolvedClass, form_is_free, solved_classes
from planner.proposing.buckets.forms import chosen_form, other_answers, uniform_answers
from planner.proposing.buckets.simpler import SIMPLE_WORK, Counts, frontier_of
from planner.proposing.certificate import layout_settings, require_prices, single

HALF = 0.5
"""Of the median TTFT: what a second bucket of prefill may pay with instead."""

UNSEEN = 0.97
"""Of the programme's value: what pools that serve less together lose by how the router parts requests among them."""

MOST_RAISES = 6
MET = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChoice:
    """The pools of the plan as they serve together, the value of the best pools and the bound of all deployable ones
    in the objective's unit, whether it was reached within the work limit, what simpler plans would serve, and what
    surviving a loss costs. `forms`: what their form was chosen over, where the choice was free. `searched`: a search
    may have chosen others in their place. `note`: what else is to be said of value and bound."""

    priced: PricedPools
    value: float
    bound: float
    proven: bool
    solver: str
    simpler: tuple[SimplerPlan, ...]
    survival_cost_rps: float | None = None
    forms: FormChoice | None = None
    searched: bool = True
    note: str = ""

    @property
    def bound_of_form(self) -> float:
        """Of pools of the form chosen, where it was free; of all where split ones were."""
        forms = self.forms
        return self.bound if forms is None or forms.chosen is not ServingForm.AGGREGATED else forms.own_bound


def solve_buckets(evaluator: Evaluator, target_rps: float | None = None) -> BucketChoice:
    """The best pools for the scenario's objective, or for another target than its own. A target is met with the rate
    that the pools reach together.

    Raises InfeasibleError where nothing serves, a target is out of reach, or a loss cannot be survived; InputError
    where GPUs cost nothing and the objective counts money.
    """
    question, prices = evaluator.question, evaluator.prices
    require_prices(question.scenario)
    objective = single(question.scenario.objective)
    if target_rps is not None:
        objective = replace(objective, target_rps=target_rps)
    # A dearer fleet may pass no more through a full uplink: who compares costs asks for pools that surely do.
    if (objective.minimises or objective.kind.row.per_charge) and (surely := prices.surely):
        choice = _solved(question, prices, objective)
        if choice.priced.crosses:
            with suppress(InfeasibleError, SolverError):  # pools that fill it beyond what is sure may serve, too
                return replace(_solved_to_target(question, surely, objective), bound=choice.bound)
    return _solved_to_target(question, prices, objective)


def _solved_to_target(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> BucketChoice:
    """The best pools; a target that they do not reach together is raised. Raises as `solve_buckets` does."""
    target_rps, bound, reached = objective.target_rps, None, 0.0
    for _ in range(MOST_RAISES):
        try:
            choice = _solved(question, prices, objective)
        except InfeasibleError:
            if bound is None:
                raise
            break
        bound = choice.bound if bound is None else bound
        reached = choice.priced.rate_rps
        if reached >= target_rps * (1 - MET):
            return replace(choice, bound=bound)
        estimated = next(point.rate_rps for point in choice.simpler if point.chosen)
        # Up to what the programme holds these pools for it would choose the same again.
        raised_rps = max(objective.target_rps * target_rps / reached, estimated)
        objective = replace(objective, target_rps=raised_rps * (1 + MET))
    where = f"scenario {question.scenario.name}: objective.target_rps: "
    if choice.priced.crosses:  # dearer pools that keep types apart, or cross less, may be there: these rows are rough
        raise InfeasibleError(
            f"{where}no pools were found that pass {target_rps:g} requests/s through network.uplinks_gb_s; of those "
            f"that were tried the closest reach {reached:.1f}.",
            hint="Plan with objective.kind rate or budget, which say what the GPUs reach, or widen the uplink.",
        )
    raise InfeasibleError(
        f"{where}{target_rps:g} requests/s is not reached with the queues of the pools together; the closest reach "
        f"{reached:.1f}.",
        hint="Lower the target, or loosen the service levels.",
    )


def _solved(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> BucketChoice:
    """The best choice of any family and form; the bound is of all of them."""
    sign = -1.0 if objective.minimises else 1.0
    classes = solved_classes(question, prices, objective, layout_settings(question.scenario))
    every, forms, candidates = _best_class(question, objective, classes)
    bound = sign * max(sign * one_class.bound for one_class in classes)
    choice = _choice(question, objective, every, candidates)
    return replace(choice, bound=bound, proven=all(one_class.proven for one_class in classes), forms=forms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """Pools of a class, what they were chosen from, and what they serve together."""

    every: SolvedClass
    offer: BucketOffer
    answer: BucketAnswer
    priced: PricedPools


def _best_class(
    question: Question, objective: ObjectiveSettings, classes: Sequence[SolvedClass]
) -> tuple[SolvedClass, FormChoice | None, tuple[_Candidate, ...]]:
    """The class with the best pools, what their form was chosen over, where it was free, and the pools that were
    looked at. Rates are compared as the pools serve them together."""
    sign = -1.0 if objective.minimises else 1.0
    by_rate = not (objective.minimises or objective.kind.row.per_charge)
    values: dict[ServingForm, tuple[float, SolvedClass, tuple[_Candidate, ...]]] = {}
    for every in classes:
        if not every.answers:
            continue
        counts = _worth_their_buckets(every.answers, objective, question.scenario, lambda _: None)
        best = every.answers[counts]
        if best.form is not every.form and best.form in values:
            continue  # all of its pools are aggregated, and these have been solved for alone
        value, candidates = best.value, tuple[_Candidate, ...]()
        if by_rate:
            candidates = tuple(_candidates(question, objective, every, best))
            value = max(pools.priced.rate_rps for pools in candidates)
        if best.form not in values or sign * value > sign * values[best.form][0]:
            values[best.form] = value, every, candidates
    bounds = {
        form: sign * max(sign * every.bound for every in classes if every.form is form)
        for form in {every.form for every in classes}
    }
    chosen = chosen_form({form: value for form, (value, *_) in values.items()}, bounds, objective)
    _, every, candidates = values[chosen.chosen]
    return every, chosen if form_is_free(question) else None, candidates


def _candidates(
    question: Question, objective: ObjectiveSettings, every: SolvedClass, best: BucketAnswer
) -> Iterator[_Candidate]:
    """The best pools of a class, and those that the programme may have thought too little of."""
    service, settings = every.prices.service, layout_settings(question.scenario)
    sought = (every.offer, best, every.prices.partitions, objective, settings)

    def candidate(offer: BucketOffer, answer: BucketAnswer) -> _Candidate:
        priced = service.priced(every.prices.pools(answer, every.stocks))
        return _Candidate(every=every, offer=offer, answer=answer, priced=priced)

    programmes = candidate(every.offer, best)
    yield programmes
    yield from (candidate(*other) for other in other_answers(*sought))
    router, served_rps = question.scenario.router, programmes.priced.rate_rps
    parted = [phase for phase in Phase if parts_unevenly(router.layers(phase))]
    if parted and served_rps < best.value * UNSEEN:
        yield from (candidate(*other) for other in uniform_answers(*sought, phases=parted, above_rps=served_rps))


def _choice(
    question: Question, objective: ObjectiveSettings, every: SolvedClass, candidates: Sequence[_Candidate]
) -> BucketChoice:
    scenario, prices, settings = question.scenario, every.prices, layout_settings(question.scenario)
    service = prices.service
    counts = _worth_their_buckets(
        every.answers, objective, scenario, lambda answer: _median(service, prices, answer, every.stocks)
    )
    best = every.answers[counts]
    within = _left_for_simplicity(scenario.simplicity, best)
    simpler = []
    if not candidates or candidates[0].answer is not best:
        candidates = tuple(_candidates(question, objective, every, best))
    for pools in candidates:
        answer = _simplest(pools.offer, pools.answer, objective, settings, within)
        same = answer is pools.answer
        priced = pools.priced if same else service.priced(prices.pools(answer, every.stocks))
        simpler.append(replace(pools, answer=answer, priced=priced))
    simple, chosen = max(zip(simpler, candidates, strict=True), key=lambda pair: pair[0].priced.rate_rps)
    return BucketChoice(
        priced=simple.priced,
        value=best.value,
        bound=every.bound,
        proven=every.proven,
        solver=best.solver,
        simpler=frontier_of(
            every.offer, every.answers | {counts: chosen.answer}, simple.answer, objective, settings
        ),  # what was set aside because it serves less together is no point of it
        survival_cost_rps=_survival_cost_rps(question, objective, every, best, simple.priced.rate_rps),
    )


def _left_for_simplicity(simplicity: float, best: BucketAnswer) -> float:
    """What simpler pools may give up of the best, which may be short of its bound already; half of it at least."""
    gap = abs(best.bound - best.value) / max(abs(best.bound), 1e-12)
    return max(simplicity / 2, simplicity - gap)


def _survival_cost_rps(
    question: Question, objective: ObjectiveSettings, every: SolvedClass, best: BucketAnswer, rate_rps: float
) -> float | None:
    """What pools of as many buckets, as simple, would serve beyond `rate_rps` where nothing had to survive; None where
    nothing has to, where fleets are compared by what they cost, or it is not found within the work limit."""
    if not every.offer.survive or objective.minimises or objective.kind.row.per_charge:
        return None
    settings = replace(layout_settings(question.scenario), work_limit=SIMPLE_WORK)
    free = replace(every.offer, survive=0.0)
    alike = [partition for partition in every.prices.partitions if partition.counts == best.partition.counts]
    relaxed = relaxed_values(free, alike, objective, settings)
    unbroken, _ = better_pools(free, relaxed, objective, settings, than=best.value)
    if unbroken is None:
        unbroken = best
    simple = _simplest(
        free, unbroken, objective, settings, _left_for_simplicity(question.scenario.simplicity, unbroken)
    )
    priced = every.prices.service.unbroken(every.prices.pools(simple, every.stocks))
    return max(0.0, priced.rate_rps - rate_rps)


def chosen_near(priced: PricedPools, value: float, scratch: BucketChoice | None, solver: str) -> BucketChoice:
    """Pools that were chosen near another plan, with the bound of all plans, not of those alone that change so little;
    without one where no plan was solved for from scratch."""
    return BucketChoice(
        priced=priced,
        value=value,
        bound=math.inf if scratch is None else scratch.bound,
        proven=scratch is None or scratch.proven,
        solver=solver,
        simpler=(SimplerPlan.of(priced.pools, priced.rate_rps, chosen=True),),
        searched=False,
    )


def fastest_pools(
    evaluator: Evaluator, objective: ObjectiveSettings, settings: AssignmentSettings
) -> tuple[PricedPools, float, str]:
    """The best pools for an objective, no simpler than they are, with their bound and the solver's name. Raises as
    `solve_buckets` does."""
    question = evaluator.question
    sign = -1.0 if objective.minimises else 1.0
    classes = solved_classes(question, evaluator.prices, objective, settings)
    every, _, candidates = _best_class(question, objective, classes)
    best = every.answers[_worth_their_buckets(every.answers, objective, question.scenario, lambda _: None)]
    bound = sign * max(sign * one_class.bound for one_class in classes)
    candidates = candidates or tuple(_candidates(question, objective, every, best))
    priced = [pools.priced for pools in candidates]
    return max(priced, key=lambda pools: pools.rate_rps), bound, best.solver


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
