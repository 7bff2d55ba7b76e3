"""Door: pools that serve much though servers may be slower than predicted, or faster: the best by a measure of draws.

Candidates are the pools that are best as predicted, those of the programme in two stages, those that would be best in
some draws, and those of each GPU type alone. All are judged in the same draws, priced one by one; the best by the
measure is the plan, and a tie goes to the pools that are best as predicted, which the plan is so never worse than. What
it says of its measure comes from fresh draws, which chose nothing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from planner.assignment import BucketAnswer, BucketOption, DrawnOffer, best_pools, doubted_pools, relaxed_values
from planner.domain import BucketPool, ObjectiveSettings, ReportProgress, Scenario, SearchJournal, SimplerPlan
from planner.domain.serving.doubt import Risk, RiskMeasure
from planner.domain.stocks import Stock
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.buckets.columns import of_types
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.buckets.service import PricedPools
from planner.evaluation.doubts.drawn import DrawnPrices, Paces, drawn_paces, rates_in_draws
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.infeasible import require_pools, stocks_of
from planner.proposing.buckets.pools import BucketChoice, solve_buckets
from planner.proposing.buckets.proposals import proposed_pools
from planner.proposing.certificate import layout_settings
from planner.proposing.proposals import ProposedPlan
from planner.proposing.search import given

DRAWS = 100
SLOW_DRAWS = (0.05, 0.2, 0.5)
"""Places among all draws, from the slowest on, whose own best pools are candidates."""

MOST_JUDGED = 3
"""Candidates beside the pools that are best as predicted: judging one takes as long as solving for it, or longer."""

_FRESH = 1_000_003
"""Between the seeds of draws that choose and of those that tell."""

RATE = ObjectiveSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustChoice:
    """The pools of the plan and those that are best as predicted, with their rates (requests/s) in the draws that chose
    and in fresh ones. `programme`: what the programme in two stages holds its own pools for, in the measure's unit, and
    the bound of all pools by its rates; None where it has no answer."""

    risk: Risk
    predicted: BucketChoice
    pools: tuple[BucketPool, ...]
    rates_rps: tuple[float, ...]
    predicted_rates_rps: tuple[float, ...]
    fresh_rps: tuple[float, ...]
    predicted_fresh_rps: tuple[float, ...]
    best_rps: tuple[float, ...]
    programme: BucketAnswer | None

    @property
    def note(self) -> str:
        """What a certificate says of it."""
        shown = replace(self.risk, measure=RiskMeasure.P10) if self.risk.minimised else self.risk
        robust_rps, predicted_rps = shown.of(self.fresh_rps), shown.of(self.predicted_fresh_rps)
        bound = "" if self.programme is None else f"; {self._bound(self.programme.bound)}"
        return (
            f"chosen by {self.risk.name} in {len(self.rates_rps)} draws of how fast servers are: in fresh ones "
            f"{shown.name} is {robust_rps:.1f} requests/s, and {predicted_rps:.1f} of the pools that are best as "
            f"predicted{bound}"
        )

    def _bound(self, bound: float) -> str:
        return f"by the programme's rates no pools have a {self.risk.name} " + (
            f"below {bound:.1%}" if self.risk.minimised else f"above {bound:.1f} requests/s"
        )


def find_robust(evaluator: Evaluator, progress: ReportProgress, _journal: SearchJournal | None = None) -> ProposedPlan:
    """The pools that are best by the measure of the scenario's objective.

    Raises InfeasibleError where nothing serves, InputError where no band says how far speeds may be off.
    """
    scenario, start = evaluator.question.scenario, time.process_time()
    robust = robust_choice(evaluator, risk_of(scenario), DRAWS)
    priced = evaluator.prices.service.priced(robust.pools)
    choice = robust.predicted
    if priced.pools != choice.priced.pools:
        others = tuple(replace(point, chosen=False) for point in choice.simpler)
        chosen = SimplerPlan.of(priced.pools, priced.rate_rps, chosen=True)
        choice = replace(choice, priced=priced, simpler=(*others, chosen))
    choice = replace(choice, note=robust.note)
    layout = layout_of(choice.priced.pools)
    evaluator.remember_pools(layout, choice.priced, choice.solver, optimal=choice.proven)
    result = given(
        layout,
        evaluator,
        progress,
        solving_cpu_s=time.process_time() - start if scenario.search.timings else None,
    )
    assert result.best is not None, "pools that were judged serve"
    return proposed_pools(evaluator, result.best, result.record, choice)


def robust_choice(evaluator: Evaluator, risk: Risk, draws: int) -> RobustChoice:
    """The best candidate by a measure of so many draws. Raises as `find_robust` does."""
    question, prices = evaluator.question, evaluator.prices
    paces = _required_paces(evaluator, draws)
    predicted = solve_buckets(evaluator)
    candidates = Candidates(DrawnPrices(prices, paces), stocks_of(question, RATE), risk, evaluator)
    base = as_started(predicted.priced)
    base_rps = rates_in_draws(question, [base], paces)
    fleets = candidates.fleets(base, base_rps[0])
    rates = base_rps + rates_in_draws(question, fleets[1:], paces)
    best_rps = tuple(map(max, *rates, candidates.best_rps))
    sign = 1.0 if risk.minimised else -1.0
    number = min(range(len(fleets)), key=lambda one: sign * risk.of(rates[one], best_rps))  # the first of equals
    fresh = drawn_paces(prices, draws, question.scenario.search.seed + _FRESH)
    fresh_rates = rates_in_draws(question, [base, fleets[number]] if number else [base], fresh)
    return RobustChoice(
        risk=risk,
        predicted=predicted,
        pools=fleets[number],
        rates_rps=tuple(rates[number]),
        predicted_rates_rps=tuple(rates[0]),
        fresh_rps=tuple(fresh_rates[-1]),
        predicted_fresh_rps=tuple(fresh_rates[0]),
        best_rps=best_rps,
        programme=candidates.programme,
    )


def risk_of(scenario: Scenario) -> Risk:
    """What pools are chosen by: the objective's measure, or the rate that is as sure as the promise is to be."""
    sure, robust = scenario.promise.sure, scenario.objective.kind.row.robust
    measure = scenario.objective.measure if robust else RiskMeasure.P10
    return Risk(measure=measure) if sure is None else Risk(measure=measure, sure=sure)


def require_doubt(evaluator: Evaluator, tell: Callable[[str], None]) -> None:
    """Raises as `find_robust` does before it solves; `tell` hears of each step."""
    require_pools(evaluator, tell)
    _required_paces(evaluator, DRAWS)


def _required_paces(evaluator: Evaluator, draws: int) -> Paces:
    scenario = evaluator.question.scenario
    paces = drawn_paces(evaluator.prices, draws, scenario.search.seed)
    if not paces:
        raise InputError(
            f"scenario {scenario.name}: objective.kind robust, or promise.sure: the speeds of some GPU type must have "
            "a band, got none: nothing is doubted.",
            hint="Set objective.kind to rate without promise.sure, or leave out cost.source and cost.mode, whose step "
            "times have no band.",
        )
    return paces


class Candidates:
    """Pools that may be the best by the measure."""

    def __init__(self, drawn: DrawnPrices, stocks: Sequence[Stock], risk: Risk, evaluator: Evaluator) -> None:
        self._drawn, self._stocks, self._risk = drawn, stocks, risk
        self._settings = layout_settings(evaluator.question.scenario)
        self._inventory = [item.gpu.name for item in evaluator.question.scenario.inventory.items]
        offers = drawn.offers(stocks)
        bests = [self._best_rps(offer) for offer in offers]
        self.best_rps = [max(rates) for rates in zip(*bests, strict=True)]
        self._offers = [replace(offer, best_rps=tuple(self.best_rps)) for offer in offers]
        self.programme: BucketAnswer | None = None

    def fleets(self, base: tuple[BucketPool, ...], base_rps: Sequence[float]) -> list[tuple[BucketPool, ...]]:
        """Candidates: `base` comes first, which serves `base_rps` in the draws; then those that the programme's rates
        hold for the best."""
        answers = [(offer, answer) for offer in self._offers for answer in self._answers(offer, base_rps)]
        sign = 1.0 if self._risk.minimised else -1.0
        answers.sort(key=lambda pair: sign * pair[0].value(self._risk, pair[1].partition, pair[1].pools))
        prices = self._drawn.prices
        pools = (prices.pools(answer, self._stocks) for _, answer in answers)
        distinct = dict.fromkeys([base, *(as_started(prices.service.priced(some)) for some in pools)])
        return list(distinct)[: 1 + MOST_JUDGED]

    def _best_rps(self, offer: DrawnOffer) -> list[float]:
        """What no pools of an offer exceed in each draw."""
        offers = (offer.at(draw) for draw in range(offer.draws))
        values = (relaxed_values(offer, self._drawn.partitions, RATE, self._settings) for offer in offers)
        return [max(of_partitions.values(), default=0.0) for of_partitions in values]

    def _answers(self, offer: DrawnOffer, base_rps: Sequence[float]) -> Iterator[BucketAnswer]:
        partitions, order = self._drawn.partitions, sorted(range(len(base_rps)), key=lambda draw: base_rps[draw])
        with suppress(InfeasibleError, SolverError):
            answer = doubted_pools(offer, partitions, self._risk, self._settings)
            self.programme = self._better(answer)
            yield answer
        slow_offers = [offer.at(order[int(place * len(order))]) for place in SLOW_DRAWS]
        alone = [of_types(offer.offer, self._stocks, {gpu}) for gpu in self._inventory]
        for some in (*slow_offers, *alone):
            with suppress(InfeasibleError, SolverError):
                yield _as_offered(offer, best_pools(some, partitions, RATE, self._settings))

    def _better(self, answer: BucketAnswer) -> BucketAnswer:
        """The better programme, of several families of GPU types, with the bound of all."""
        other = self.programme or answer
        sign = 1.0 if self._risk.minimised else -1.0
        better = min(answer, other, key=lambda one: sign * one.value)
        return replace(better, bound=min(answer.bound, other.bound, key=lambda bound: sign * bound))


def _as_offered(offer: DrawnOffer, answer: BucketAnswer) -> BucketAnswer:
    """An answer of another draw with the options as they are predicted, by which their rates are known."""
    pools = []
    for pool in answer.pools:
        same = (option for option in offer.offer.options[pool.place] if _server_of(option) == _server_of(pool.option))
        pools.append(replace(pool, option=next(same)))
    return replace(answer, pools=tuple(pools))


def _server_of(option: BucketOption) -> tuple[int, int]:
    return option.stock, option.server


def as_started(priced: PricedPools) -> tuple[BucketPool, ...]:
    """Pools as they are deployed: routers weigh them as predicted, whatever the draw."""
    return tuple(replace(pool, share=1.0) for pool in priced.pools)
