"""How sure pools are of what they promise, in draws of how fast servers are.

| symbol | meaning | unit |
|---|---|---|
| eps[g,p] | pace of servers of GPU type g in phase p over the predicted one (`planner.cost.residuals.pace_draws`) | 1 |
| C[p](eps) | what a phase serves within the levels where every pass takes 1 / eps of its time | requests/s |
| u[p] | part of a phase that is used, as others stand in for lost nodes: that of the plan as predicted | 1 |
| m | the margin that a plan takes off its capacity | 1 |
| rate | m min over p of u[p] C[p](eps): what the pools may promise in a draw | requests/s |

A level is a bound on time, so a rate within levels falls faster than the pace: servers that hold 50 ms a token at 56
sequences hold it at fewer when they are slower. Servers admit then what keeps the bound on TPOT. The margin is for what
a calculation does not see, in a draw as elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from planner.cost.residuals.pace_draws import pace_dimensions, pace_draws, uniform_draws
from planner.domain import PHASES, Band, BucketPool, Phase, Plan, Question
from planner.domain.serving.promise import SURE, PromiseOdds, SureRate, quantile, share_of
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.doubts.drawn import at_paces, parts_used
from planner.evaluation.pool_assembly import pool_estimates

DRAWS = 64
"""What is 80 % sure comes so within about 5 % of what 1,024 draws say, at a quarter of the time of 256."""

Key = tuple[str, Phase]
Pools = Sequence[BucketPool]


def bands_of(question: Question, pools: Pools) -> dict[Key, Band]:
    """How far speeds may be off, by GPU type and phase of the pools; empty where nothing says it."""
    return {(row.gpu, row.phase): row.band for row in pool_estimates(question.scenario, pools) if row.band is not None}


class PromisedPools:
    """Pools as they are deployed; `rate_rps`: their capacity as planned."""

    def __init__(self, question: Question, pools: Pools, rate_rps: float) -> None:
        self.question = question.of_rate
        self.pools = tuple(replace(pool, share=1.0) for pool in pools)
        service = BucketService(self.question)
        self._used = parts_used(service, self.pools)
        # where pools lie, and what a placed plan loses by it, is as planned
        lying = rate_rps / service.priced(self.pools).rate_rps
        self._kept = lying * self.question.scenario.routing.margin

    def rate_rps(self, paces: Mapping[Key, float], remaining: Pools) -> float:
        """What those of them that remain may promise at these paces."""
        if not _serves_all(self.pools, remaining):
            return 0.0
        scenario = at_paces(self.question.scenario, paces)
        served = BucketService(replace(self.question, scenario=scenario)).unbroken(remaining)
        return self._kept * min(self._used[phase] * served.phase_rps(phase) for phase in PHASES)


def _serves_all(pools: Sequence[BucketPool], remaining: Sequence[BucketPool]) -> bool:
    """Whether every bucket still has a pool."""
    every, still = ({(pool.phase, pool.start, pool.end) for pool in some} for some in (pools, remaining))
    return every == still


def promise_odds(question: Question, pools: Pools, rate_rps: float, draws: int) -> PromiseOdds | None:
    """How sure the pools are of what they promise; None where nothing says how far speeds may be off."""
    bands, scenario = bands_of(question, pools), question.scenario
    if not bands or not rate_rps:
        return None
    points = uniform_draws(draws, pace_dimensions(list(bands)), scenario.search.seed)
    paces = pace_draws(bands, points, scenario.doubt.alike)
    promised = PromisedPools(question, pools, rate_rps)
    drawn = ({key: float(row[draw]) for key, row in paces.items()} for draw in range(draws))
    rates = [promised.rate_rps(at, promised.pools) for at in drawn]
    levels = sorted({*SURE, *filter(None, [scenario.promise.sure])}, reverse=True)
    return PromiseOdds(
        odds=share_of(rates, rate_rps * scenario.routing.margin),
        sure=tuple(SureRate(sure=sure, rate_rps=quantile(sorted(rates), 1 - sure)) for sure in levels),
    )


def with_odds(plan: Plan, ask: Callable[..., Question]) -> Plan:
    """The plan, its promise with odds; as it is where they are known, or it has no pools."""
    buckets = plan.buckets
    if buckets is None or not buckets.pools or buckets.odds is not None:
        return plan
    odds = promise_odds(ask(plan.scenario), buckets.pools, plan.throughput_rps, DRAWS)
    return replace(plan, buckets=replace(buckets, odds=odds))
