"""Pools chosen under doubt: tiny inventories solved the long way, over all pools and all draws."""

from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from enumerated_buckets import numbers_of

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    BucketOption,
    DrawnOffer,
    Partition,
    doubted_pools,
)
from planner.assignment.buckets.doubted import deciding_draws
from planner.assignment.buckets.offer import columns_of, places_of
from planner.domain import PHASES, AssignmentSettings, Phase
from planner.domain.serving.doubt import Risk, RiskMeasure
from planner.errors import InfeasibleError

EXACT = AssignmentSettings(gap=0.0)
SLACK = 1e-5
DRAWS = 20
P10, CVAR, REGRET = (Risk(measure=measure) for measure in RiskMeasure)
EVERY = (P10, CVAR, REGRET, replace(P10, sure=0.75))
each_instance = pytest.mark.parametrize("seed", range(20))


@cache
def instance(seed: int) -> tuple[DrawnOffer, tuple[Partition, ...]]:
    """One or two stocks of 3-4 units, servers of one unit and of two, one bucket of a phase or two of prefill; the
    pace of a stock in a phase is of a draw, and rates fall faster than the pace. Every third has mixed servers."""
    rng = np.random.default_rng(seed)
    stocks, mixed = int(rng.integers(1, 3)), seed % 3 == 2
    counts = tuple(int(rng.integers(3, 4 + (stocks == 1))) for _ in range(stocks))
    phases = (*PHASES, Phase.MIXED) if mixed else PHASES
    places = [(phase, bucket) for phase in phases for bucket in ((0, 1, 2) if phase is Phase.PREFILL else (0,))]
    chance = float(rng.uniform(0.2, 0.8))
    options, rates = {}, {}
    for place in places:
        row = []
        for stock, use in product(range(stocks), (1, 2)):
            rate = float(rng.uniform(1, 9) * use)
            option = BucketOption(stock=stock, use=use, server=use, kind=use, rate_rps=rate)
            row.append(option)
        options[place] = tuple(row)
    paces = {(t, phase): np.exp(rng.normal(-0.1, 0.3, DRAWS)) for t in range(stocks) for phase in phases}
    for place, row in options.items():
        for option in row:
            fall = rng.uniform(0.0, 0.6)  # of the predicted pace, below which the level is missed
            rates[place, option] = option.rate_rps * np.maximum(0.0, paces[option.stock, place[0]] - fall) / (1 - fall)
    offer = BucketOffer(
        counts=counts,
        charges=(1.0,) * stocks,
        options=options,
        probabilities={place: {0: 1.0, 1: chance, 2: 1 - chance}[place[1]] for place in places},
        halves={(Phase.MIXED, 0): ((Phase.PREFILL, 0), (Phase.DECODE, 0))} if mixed else {},
    )
    partitions = (Partition((0,), (0,), (0,) if mixed else ()), Partition((1, 2), (0,)))
    drawn = DrawnOffer(offer=offer, rates=rates)
    best = np.max([rates_of_all(drawn, partition).max(axis=0) for partition in partitions], axis=0)
    return replace(drawn, best_rps=tuple((1.01 * best).tolist())), partitions


def rates_of_all(drawn: DrawnOffer, partition: Partition) -> np.ndarray:
    """What all pools of whole servers that the stocks have room for serve, a row each and a column a draw."""
    columns = list(columns_of(drawn.offer, partition))
    numbers = np.array(list(numbers_of([option for _, option in columns], drawn.offer.counts)), dtype=float)
    served = []
    for place in places_of(partition):
        rates = [drawn.rates[key] * (place in drawn.offer.served_by(key[0])) for key in columns]
        served.append(numbers @ np.array(rates) / drawn.offer.probabilities[place])
    return np.min(served, axis=0)


def measured(rates: np.ndarray, risk: Risk, best: np.ndarray) -> np.ndarray:
    """The measure of every row, from its definition."""
    if risk.measure is RiskMeasure.REGRET:
        return np.maximum(0.0, 1 - rates / best).mean(axis=1)
    ranked = np.sort(rates, axis=1)
    below = round(100 * (1 - risk.sure)) * DRAWS // 100
    return ranked[:, below] if risk.measure is RiskMeasure.P10 else ranked[:, : DRAWS // 5].mean(axis=1)


def solved(seed: int, risk: Risk, settings: AssignmentSettings = EXACT) -> BucketAnswer:
    drawn, partitions = instance(seed)
    return doubted_pools(drawn, partitions, risk, settings)


@pytest.mark.parametrize("risk", EVERY)
@each_instance
def test_no_pools_are_better_by_the_measure(seed: int, risk: Risk) -> None:
    drawn, partitions = instance(seed)
    every = np.concatenate([measured(rates_of_all(drawn, p), risk, np.array(drawn.best_rps)) for p in partitions])
    best = float(every.min() if risk.minimised else every.max())
    answer = solved(seed, risk)
    assert answer.value == pytest.approx(best, abs=SLACK)
    assert answer.proven
    above = answer.value - answer.bound if risk.minimised else answer.bound - answer.value
    assert 0 <= above <= SLACK * max(1.0, abs(answer.bound))


@pytest.mark.parametrize("risk", EVERY[1:3])
@pytest.mark.parametrize("seed", range(4))
def test_a_bound_holds_where_the_best_was_not_looked_for_to_the_end(seed: int, risk: Risk) -> None:
    exact, rough = solved(seed, risk), solved(seed, risk, AssignmentSettings(gap=0.5))
    bounds = (rough.bound, exact.value, rough.value)
    assert sorted(bounds, reverse=not risk.minimised) == pytest.approx(bounds, abs=SLACK)


@pytest.mark.parametrize("seed", range(4))
def test_what_passes_the_best_of_a_draw_is_no_gain(seed: int) -> None:
    drawn, partitions = instance(seed)
    best = 0.6 * np.array(drawn.best_rps)
    every = [measured(rates_of_all(drawn, partition), REGRET, best).min() for partition in partitions]
    answer = doubted_pools(replace(drawn, best_rps=tuple(best.tolist())), partitions, REGRET, EXACT)
    assert answer.value == pytest.approx(min(every), abs=SLACK)


@pytest.mark.parametrize("risk", EVERY)
@pytest.mark.parametrize("seed", range(0, 20, 5))
def test_the_pools_are_whole_and_within_the_stocks(seed: int, risk: Risk) -> None:
    drawn, _ = instance(seed)
    answer = solved(seed, risk)
    for stock, count in enumerate(drawn.offer.counts):
        assert sum(pool.count * pool.option.use for pool in answer.pools if pool.option.stock == stock) <= count
    assert answer.value == drawn.value(risk, answer.partition, answer.pools)


def test_one_draw_is_the_programme_that_knows_it() -> None:
    drawn, partitions = instance(0)
    rates = {key: values[:1] for key, values in drawn.rates.items()}
    one = DrawnOffer(offer=drawn.offer, rates=rates, best_rps=drawn.best_rps[:1])
    most = max(rates_of_all(one, partition).max() for partition in partitions)
    for risk in (P10, CVAR):
        assert doubted_pools(one, partitions, risk, EXACT).value == pytest.approx(most, abs=SLACK)


def test_draws_that_cannot_decide_are_left_out_and_no_others() -> None:
    rates = np.array([[1.0, 2, 3, 4, 0], [1.0, 2, 3, 4, 9]])
    # the first three are in order, the last is slower in one row and faster in the other
    assert deciding_draws(rates, 1) == ([1], [0, 4])
    assert deciding_draws(rates, 0) == ([0, 4], [])
    assert deciding_draws(np.ones((1, 3)), 1) == ([1], [0])


@pytest.mark.parametrize("seed", range(8))
def test_the_deciding_draws_give_the_same_rate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = np.sort(rng.random((3, 30)), axis=1) * rng.uniform(0.7, 1, (3, 30))
    must, may = deciding_draws(rates, 3)
    assert len(must) + len(may) < 30
    for weights in rng.random((20, 3)):
        served = weights @ rates
        # the three slowest of those that may miss it do
        reached = min([*served[must], *np.sort(served[may])[3:]])
        assert reached == pytest.approx(np.sort(served)[3])


def test_nothing_served_is_infeasible() -> None:
    drawn, partitions = instance(1)
    nothing = {key: np.zeros(DRAWS) for key in drawn.rates}
    offer = BucketOffer(counts=(1,), charges=(1.0,), options={}, probabilities=drawn.offer.probabilities)
    with pytest.raises(InfeasibleError) as refused:
        doubted_pools(DrawnOffer(offer=offer, rates=nothing), partitions[1:], CVAR, EXACT)
    assert refused.value.hint


def test_measures_are_what_they_say() -> None:
    rates = [10.0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert P10.of(rates) == 2
    assert (replace(P10, sure=0.8).of(rates), replace(P10, sure=0.8).name) == (3, "p20")
    assert replace(P10, sure=0.7).of(rates) == 4  # 0.3 of 10 is no less for how it is rounded
    assert CVAR.of(rates) == 1.5
    assert CVAR.of(rates[:7]) == pytest.approx((1 + 0.4 * 2) / 1.4)
    assert REGRET.of([5.0, 8, 3], [10.0, 8, 0]) == pytest.approx(0.5 / 3)


def test_slower_in_every_draw_is_no_better() -> None:
    drawn, partitions = instance(3)
    shares = (1.0, 0.9, 0.7)
    slower = [replace(drawn, rates={key: share * rate for key, rate in drawn.rates.items()}) for share in shares]
    values = [doubted_pools(one, partitions, P10, EXACT).value for one in slower]
    assert all(slow <= fast + SLACK for fast, slow in pairwise(values))
