"""Of the fleets that cost next to nothing more than the least, the one that serves most, and then the cheapest.

A fleet of least cost is found to the search's gap. Within it costs are alike, rates are not: 54.00 USD/hour may promise
32.3 requests/s where 53.88 promise 33.1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from planner.assignment import BucketOffer, Partition, best_pools, better_pools, relaxed_values
from planner.domain import PHASES, BucketPool, ObjectiveKind, ObjectiveSettings, ServingForm, SimplerPlan
from planner.domain.serving.routing import WORTH_A_BUCKET
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.infeasible import stocks_of
from planner.proposing.buckets.pools import BucketChoice
from planner.proposing.certificate import layout_settings, single

ALIKE = 1e-4
ROUNDING = 1e-9


def best_of_ties(evaluator: Evaluator, choice: BucketChoice) -> BucketChoice:
    """The choice for an objective that is the less the better with the best pools of its cost; any other as it is."""
    objective = single(evaluator.question.scenario.objective)
    if not objective.minimises:
        return choice
    ties = _Ties(evaluator, objective, choice)
    pools = ties.best()
    return choice if pools is choice.priced else replace(choice, priced=pools, simpler=_points_of(choice, pools))


class _Ties:
    """Fleets whose cost is within the gap of the least, or that of the choice."""

    def __init__(self, evaluator: Evaluator, objective: ObjectiveSettings, choice: BucketChoice) -> None:
        question = evaluator.question
        self._objective, self._choice = objective, choice
        self._settings, self._service = layout_settings(question.scenario), BucketService(question)
        self._stocks = stocks_of(question, objective)
        # ties are looked for among pools of the form that was chosen; the other form lost by its margin
        aggregated = choice.forms is not None and choice.forms.chosen is ServingForm.AGGREGATED
        self._prices = evaluator.prices.aggregated if aggregated else evaluator.prices
        # what the solver may be off by is a tie; a choice that costs more yet sets the budget
        most_cost = max(self._cost(choice.priced), choice.bound * (1 + self._settings.gap)) * (1 + ROUNDING)
        self._budget = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=most_cost)
        self._worth = 1 + (WORTH_A_BUCKET if question.scenario.simplicity else self._settings.gap)

    def best(self) -> PricedPools:
        """As few buckets as the choice has, and more where each pays."""
        best = self._choice.priced
        for offer in self._prices.offers(self._stocks, self._prices.partitions):
            relaxed = relaxed_values(offer, self._prices.partitions, self._budget, self._settings)
            buckets = len(_buckets(best.pools))
            for more in sorted({max(0, sum(partition.counts) - buckets) for partition in relaxed}):
                group = {p: value for p, value in relaxed.items() if max(0, sum(p.counts) - buckets) == more}
                # a further bucket must pay here as it must in the choice
                than = best.rate_rps * self._worth**more
                best = max([best, *self._better(offer, group, than)], key=self._rank)
        return best

    def _better(self, offer: BucketOffer, relaxed: Mapping[Partition, float], than: float) -> Iterator[PricedPools]:
        """Pools that serve more than `than`, and the cheapest that serve as much as they do."""
        try:
            answer, _ = better_pools(offer, relaxed, self._budget, self._settings, than=than)
            if answer is None:
                return
            # the budget's answer may spend all of it: the same rate may be had for less
            target = replace(self._objective, target_rps=answer.rate_rps * (1 - ALIKE))
            answers = [answer, best_pools(offer, [answer.partition], target, self._settings)]
        except (InfeasibleError, SolverError):
            return
        for pools in answers:
            priced = self._service.priced(self._prices.pools(pools, self._stocks))
            if priced.rate_rps >= than and self._cost(priced) <= self._budget.budget_usd_per_hour:
                yield priced

    def _rank(self, pools: PricedPools) -> tuple[float, float]:
        # rates that no page tells apart are ties: the cheaper pools win
        return float(f"{pools.rate_rps:.4g}"), -self._cost(pools)

    def _cost(self, priced: PricedPools) -> float:
        """As the objective counts it: USD/hour, or W."""
        charges = {stock.gpu: stock.charge for stock in self._stocks}
        return sum(charges[pool.gpu] * pool.gpus for pool in priced.pools)


def _buckets(pools: tuple[BucketPool, ...]) -> set[tuple[object, ...]]:
    """Of both phases."""
    return {(phase, pool.start, pool.end) for phase in PHASES for pool in pools if pool.serves(phase)}


def _points_of(choice: BucketChoice, priced: PricedPools) -> tuple[SimplerPlan, ...]:
    """What simpler plans serve, with the new pools as the chosen one."""
    chosen = SimplerPlan.of(priced.pools, priced.rate_rps, chosen=True)
    return tuple(chosen if point.chosen else point for point in choice.simpler)
