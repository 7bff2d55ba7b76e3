"""What pools of each class can do: of one family of GPU types that hand KV caches to each other, of one or both forms.

Every class is solved for by number of buckets; each must beat what came before it, which ends most programmes at once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.assignment import BucketAnswer, BucketOffer, Partition, best_pools, better_pools, proves, relaxed_values
from planner.domain import AssignmentSettings, ObjectiveSettings, Question, ServingForm
from planner.domain.stocks import Stock
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.prices import BucketPrices
from planner.proposing.buckets.forms import value_to_beat
from planner.proposing.buckets.infeasible import not_survived, nothing_serves, stocks_of
from planner.proposing.buckets.simpler import Counts

WORTH_PRICING = 0.005  # of the rate: pools priced together may be so far below their programme
MOST_PRICINGS = 20
LEAST_CLOSED = 0.02  # of what is between pools and their bound: a pricing that closes less is the last
MEDIAN_COUNTS = (2, 1)  # buckets that may pay with the median


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedClass:
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


def solved_classes(
    question: Question, prices: BucketPrices, objective: ObjectiveSettings, settings: AssignmentSettings
) -> list[SolvedClass]:
    """What every family of GPU types that hand KV caches to each other can do: in aggregated pools, and in all. Raises
    as `solve_buckets` does."""
    solved: list[SolvedClass] = []
    for pricing in (prices.aggregated, prices) if form_is_free(question) else (prices,):
        beaten = [answer.value for every in solved for answer in every.answers.values()]
        solved += _priced_anew(question, pricing, beaten, objective, settings)
        # What the best pairing of servers lets through need not get through; these pools do, and have no wider bound.
        if pricing is prices and _by_rate(objective) and (surely := prices.surely):
            solved += _priced_anew(question, surely, beaten, objective, settings)
    if any(every.answers for every in solved):
        return [every for every in solved if every.answers or math.isfinite(every.bound)]
    if any(every.late for every in solved):
        raise SolverError("buckets: no pools were found within the work limit.", hint="Raise search.work_limit.")
    if solved:
        raise not_survived(question, solved[-1].offer, prices, objective, settings)
    raise nothing_serves(question, prices, objective)


def _by_rate(objective: ObjectiveSettings) -> bool:
    """Whether pools are compared by what they serve, not by what that costs."""
    return not (objective.minimises or objective.kind.row.per_charge)


def form_is_free(question: Question) -> bool:
    """Whether the form of pools is the planner's choice."""
    return question.scenario.serving_form is ServingForm.AUTO


def _priced_anew(
    question: Question,
    prices: BucketPrices,
    beaten: Sequence[float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> list[SolvedClass]:
    """What every family can do, worth more than what was `beaten`. Where pools at work together, as far as a loss lets
    them be used, stay behind a bound well below what queues were priced for, they are priced anew: fewer servers have
    longer queues, and nothing that survives serves more than the bound. Of all pricings the pools that serve most
    together are kept: a programme does not see how those of unequal patience share a bucket."""
    families = _families(question, prices, beaten, objective, settings)
    if not _by_rate(objective):
        return families
    best, most_rps, bound = families, _together_rps(families), max((f.bound for f in families), default=0.0)
    for _ in range(MOST_PRICINGS):
        tighter = prices.below(bound) if 0 < most_rps < bound * (1 - WORTH_PRICING) else None
        if tighter is None:
            break
        prices, before = tighter, bound
        families = _families(question, prices, beaten, objective, settings)
        # where none is worth more than what was beaten, what they cannot pass bounds the earlier ones, too
        bound = min(bound, max((f.bound for f in families if math.isfinite(f.bound)), default=bound))
        if not any(f.answers for f in families):
            break
        if (served_rps := _together_rps(families)) >= most_rps:  # of equals the later, priced more nearly
            best, most_rps = families, served_rps
        if before - bound < LEAST_CLOSED * (before - most_rps):
            break
    return [_no_more_than(bound, f) for f in best]


def _no_more_than(bound: float, solved: SolvedClass) -> SolvedClass:
    """Pools of an earlier pricing are held for no more than a later one allows any."""
    answers = {
        counts: replace(answer, value=min(answer.value, bound), bound=min(answer.bound, bound))
        for counts, answer in solved.answers.items()
    }
    return replace(solved, answers=answers, bound=min(solved.bound, bound))


def _together_rps(families: Sequence[SolvedClass]) -> float:
    """The most that the best pools of any family serve together."""
    pools = ((f.prices.service, f.prices.pools(f.best, f.stocks)) for f in families if f.answers)
    return max((service.priced(chosen).rate_rps for service, chosen in pools), default=0.0)


def _families(
    question: Question,
    prices: BucketPrices,
    beaten: Sequence[float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> list[SolvedClass]:
    """What every family can do for a partition that can serve at all."""
    stocks, solved, sign = stocks_of(question, objective), list[SolvedClass](), -1.0 if objective.minimises else 1.0
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
            SolvedClass(
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
