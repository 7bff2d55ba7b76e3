"""Tiny inventories solved the long way: nothing beats the programme of buckets, and no bound is too low."""

from dataclasses import replace
from functools import cache
from typing import Any

import pulp
import pytest
from enumerated_buckets import Instance, Trial, instance_of, trials, worst_loss
from hypothesis import given
from hypothesis import strategies as st

from planner import milp
from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    BucketOption,
    Partition,
    best_pools,
    fastest_of_kinds,
    relaxed_buckets,
    relaxed_values,
    simplest_pools,
    undominated,
)
from planner.assignment.buckets import programme
from planner.domain import PHASES, AssignmentSettings, ObjectiveKind, ObjectiveSettings, Phase
from planner.errors import InfeasibleError

SEEDS = range(6)
MIXED = range(100, 112)
"""Seeds from 100 on are of instances with servers that do both phases."""

EXACT = AssignmentSettings(gap=0.0)
SLACK = 1e-6
RATE = ObjectiveSettings()
each_instance = pytest.mark.parametrize("seed", [*SEEDS, *MIXED[:6]])
some_instances = pytest.mark.parametrize("seed", [*range(3), *MIXED[:2]])


@cache
def instance(seed: int, survive: float = 0.0, nodes: int = 1) -> Instance:
    mixed = seed in MIXED
    return instance_of(seed, survive=survive, nodes=nodes, mixed=mixed, cuts=2 if mixed else 3)


@cache
def every_trial(seed: int, survive: float = 0.0, nodes: int = 1) -> tuple[Trial, ...]:
    example = instance(seed, survive, nodes)
    return tuple(trials(example.offer, *example.partitions))


def best_rate(seed: int, survive: float = 0.0, nodes: int = 1) -> float:
    return max((trial.rate for trial in every_trial(seed, survive, nodes)), default=0.0)


def solved(example: Instance, objective: ObjectiveSettings = RATE) -> BucketAnswer:
    """The programme's answer, held against what it offers."""
    answer = best_pools(example.offer, example.partitions, objective, EXACT)
    require_kept(example.offer, answer)
    assert answer.proven
    return answer


@cache
def most_served(seed: int, survive: float = 0.0, nodes: int = 1) -> BucketAnswer:
    """The answer of most requests, which several tests look at."""
    return solved(instance(seed, survive, nodes))


@cache
def counted_trials(seed: int, survive: float, place: int) -> tuple[Trial, ...]:
    """Every trial of a partition with its kinds and pools, which several tests look at."""
    example = instance(seed, survive)
    return tuple(trials(example.offer, example.partitions[place], counted=True))


def require_kept(offer: BucketOffer, answer: BucketAnswer) -> None:
    """No stock is overdrawn, and the rate is what the pools do."""
    for stock, count in enumerate(offer.counts):
        assert sum(pool.count * pool.option.use for pool in answer.pools if pool.option.stock == stock) <= count
    for place in ((phase, bucket) for phase in PHASES for bucket in answer.partition.of(phase)):
        mine = [pool for pool in answer.pools if place in offer.served_by(pool.place)]
        served = sum(pool.count * pool.option.rate_rps for pool in mine)
        after = sum(pool.count * pool.option.after_rps for pool in mine)
        worst = worst_loss(offer, [(pool.option, pool.count) for pool in mine])
        due = answer.rate_rps * offer.probabilities[place]
        assert served >= due * (1 - SLACK)
        assert after - worst >= offer.survive * due * (1 - SLACK)


def cost_of(offer: BucketOffer, answer: BucketAnswer) -> float:
    return sum(pool.count * pool.option.use * offer.charges[pool.option.stock] for pool in answer.pools)


def test_the_examples_are_worth_enumerating() -> None:
    rates = [best_rate(seed) for seed in SEEDS]
    assert sum(rate > 0 for rate in rates) >= 4
    buckets = [len(most_served(seed).partition.prefill) for seed in SEEDS if best_rate(seed) > 0]
    assert {1, 2} <= set(buckets)
    phases = [{pool.place[0] for pool in most_served(seed).pools} for seed in MIXED if best_rate(seed) > 0]
    assert sum(Phase.MIXED in chosen for chosen in phases) >= 4
    assert any(len(chosen) == 3 for chosen in phases)


def test_a_solver_that_was_cut_short_and_shows_no_bound_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As CBC at its limit: what it found is no bound; the relaxation is."""
    example, solve = instance(1), programme.solve

    def cut_short(*arguments: Any) -> milp.Solved:
        return replace(solve(*arguments), proven=False)

    def no_bound(_model: pulp.LpProblem, if_proven: float | None) -> float | None:
        return if_proven

    monkeypatch.setattr(programme, "solve", cut_short)
    monkeypatch.setattr(programme, "dual_bound", no_bound)
    (partition,) = example.partitions[:1]
    relaxed = relaxed_values(example.offer, [partition], RATE, EXACT)[partition]
    answer = best_pools(example.offer, [partition], RATE, EXACT)
    assert answer.value < relaxed * (1 - SLACK)
    assert answer.bound == pytest.approx(relaxed, rel=2 * SLACK)
    assert not answer.proven


@each_instance
def test_most_requests(seed: int) -> None:
    best = best_rate(seed)
    if not best:
        with pytest.raises(InfeasibleError):
            most_served(seed)
        return
    answer = most_served(seed)
    assert answer.value == pytest.approx(best, rel=SLACK)
    assert answer.rate_rps == pytest.approx(best, rel=SLACK)
    assert answer.bound >= best * (1 - SLACK)


@some_instances
def test_no_relaxation_is_below_its_partitions_best(seed: int) -> None:
    example = instance(seed)
    relaxed = relaxed_values(example.offer, example.partitions, RATE, EXACT)
    for partition in example.partitions:
        best = max((trial.rate for trial in trials(example.offer, partition)), default=0.0)
        assert relaxed.get(partition, 0.0) >= best * (1 - SLACK)


@pytest.mark.parametrize("gap", [0.1, 0.3])
@some_instances
def test_a_rough_answer_is_within_its_gap_and_its_bound_above_the_best(seed: int, gap: float) -> None:
    """Partitions that hold nothing better by the gap may still hold something better."""
    best = best_rate(seed)
    if not best:
        return
    example = instance(seed)
    answer = best_pools(example.offer, example.partitions, RATE, replace(EXACT, gap=gap))
    require_kept(example.offer, answer)
    assert answer.value <= best * (1 + SLACK)
    assert answer.bound >= best * (1 - SLACK)
    assert answer.bound <= answer.value * (1 + gap + 3 * SLACK) / (1 - gap)
    assert answer.proven


@some_instances
@pytest.mark.parametrize("gap", [0.05, 0.3])
def test_a_rough_cost_is_within_its_gap_and_its_bound_below_the_least(seed: int, gap: float) -> None:
    if not best_rate(seed):
        return
    example, target_rps = instance(seed), 0.6 * best_rate(seed)
    least = min(trial.cost for trial in every_trial(seed) if trial.rate >= target_rps * (1 - 1e-9))
    objective = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=target_rps)
    answer = best_pools(example.offer, example.partitions, objective, replace(EXACT, gap=gap))
    assert answer.value >= least * (1 - SLACK)
    assert answer.bound <= least * (1 + SLACK)


@some_instances
@pytest.mark.parametrize("part", [0.5, 0.8])
def test_most_requests_for_a_rent(seed: int, part: float) -> None:
    if not best_rate(seed):
        return
    budget = part * max(trial.cost for trial in every_trial(seed))
    objective = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=budget)
    best = max((trial.rate for trial in every_trial(seed) if trial.cost <= budget * (1 + 1e-9)), default=0.0)
    if not best:
        with pytest.raises(InfeasibleError):
            solved(instance(seed), objective)
        return
    answer = solved(instance(seed), objective)
    assert answer.rate_rps == pytest.approx(best, rel=SLACK)
    assert answer.bound >= best * (1 - SLACK)
    assert cost_of(instance(seed).offer, answer) <= budget * (1 + SLACK)


@some_instances
@pytest.mark.parametrize(
    ("kind", "part"), [(ObjectiveKind.TARGET, 0.3), (ObjectiveKind.WATTS, 0.9), (ObjectiveKind.TARGET, 1.01)]
)
def test_least_for_a_rate(seed: int, kind: ObjectiveKind, part: float) -> None:
    if not best_rate(seed):
        return
    objective = ObjectiveSettings(kind=kind, target_rps=part * best_rate(seed))
    if part > 1:
        with pytest.raises(InfeasibleError):
            solved(instance(seed), objective)
        return
    best = min(trial.cost for trial in every_trial(seed) if trial.rate >= objective.target_rps * (1 - 1e-9))
    answer = solved(instance(seed), objective)
    assert answer.value == pytest.approx(best, rel=SLACK)
    assert cost_of(instance(seed).offer, answer) == pytest.approx(best, rel=SLACK)
    assert answer.bound <= best * (1 + SLACK)
    assert answer.rate_rps >= objective.target_rps * (1 - SLACK)


@some_instances
@pytest.mark.parametrize("part", [0.0, 0.7])
def test_most_requests_per_dollar(seed: int, part: float) -> None:
    if not best_rate(seed):
        return
    objective = ObjectiveSettings(kind=ObjectiveKind.PER_DOLLAR, target_rps=part * best_rate(seed))
    best = max(trial.rate / trial.cost for trial in every_trial(seed) if trial.rate >= objective.target_rps)
    answer = best_pools(instance(seed).offer, instance(seed).partitions, objective, EXACT)
    require_kept(instance(seed).offer, answer)
    assert answer.value == pytest.approx(best, rel=SLACK)
    assert answer.bound >= best * (1 - SLACK)
    assert answer.rate_rps >= objective.target_rps * (1 - SLACK)


@pytest.mark.parametrize("seed", [0, 1, MIXED[0]])
@pytest.mark.parametrize(("survive", "nodes"), [(0.8, 1), (0.3, 2)])
def test_most_requests_that_survive_a_loss(seed: int, survive: float, nodes: int) -> None:
    best = best_rate(seed, survive, nodes)
    if not best:
        with pytest.raises(InfeasibleError):
            most_served(seed, survive, nodes)
        return
    answer = most_served(seed, survive, nodes)
    assert answer.value == pytest.approx(best, rel=SLACK)
    assert answer.rate_rps == pytest.approx(best, rel=SLACK)
    assert answer.bound >= best * (1 - SLACK)


@pytest.mark.parametrize("seed", [0, 1, MIXED[0]])
def test_most_requests_that_survive_a_joint_loss(seed: int) -> None:
    example = instance(seed, 0.4)
    offer = replace(example.offer, jointly=True)
    rates = [trial.rate for trial in trials(offer, *example.partitions)]
    if not rates:
        with pytest.raises(InfeasibleError):
            best_pools(offer, example.partitions, RATE, EXACT)
        return
    assert best_pools(offer, example.partitions, RATE, EXACT).rate_rps == pytest.approx(max(rates), rel=SLACK)
    assert max(rates) <= best_rate(seed, 0.4) * (1 + SLACK)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("survive", [0.0, 0.4])
@pytest.mark.parametrize("within", [0.02, 0.3])
def test_the_fewest_kinds_then_pools(seed: int, survive: float, within: float) -> None:
    example = instance(seed, survive)
    if not best_rate(seed, survive):
        return
    best = most_served(seed, survive)
    every = counted_trials(seed, survive, example.partitions.index(best.partition))
    enough = [trial for trial in every if trial.rate >= best.rate_rps * (1 - within)]
    simple = simplest_pools(example.offer, best, RATE, EXACT, within=within)
    require_kept(example.offer, simple)
    assert simple.rate_rps >= best.rate_rps * (1 - within - SLACK)
    assert (simple.kinds, len(simple.pools)) == min((trial.kinds, trial.pools) for trial in enough)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", [0.5, 0.9])
def test_the_simplest_that_reach_a_target(seed: int, part: float) -> None:
    example, within = instance(seed), 0.15
    if not best_rate(seed):
        return
    objective = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=part * best_rate(seed))
    best = solved(example, objective)
    simple = simplest_pools(example.offer, best, objective, EXACT, within=within)
    enough = [
        trial
        for trial in counted_trials(seed, 0.0, example.partitions.index(best.partition))
        if trial.rate >= objective.target_rps * (1 - 1e-9) and trial.cost <= best.value * (1 + within)
    ]
    assert (simple.kinds, len(simple.pools)) == min((trial.kinds, trial.pools) for trial in enough)
    assert simple.rate_rps >= objective.target_rps * (1 - SLACK)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("survive", [0.0, 0.4])
def test_the_fastest_of_so_many_kinds(seed: int, survive: float) -> None:
    example = instance(seed, survive)
    partition, every = example.partitions[0], counted_trials(seed, survive, 0)
    for most in (1, 2, 3):
        best = max((trial.rate for trial in every if trial.kinds <= most), default=0.0)
        if not best:
            with pytest.raises(InfeasibleError):
                fastest_of_kinds(example.offer, partition, most, EXACT)
            continue
        answer = fastest_of_kinds(example.offer, partition, most, EXACT)
        assert answer.kinds <= most
        assert answer.rate_rps == pytest.approx(best, rel=SLACK)
        cheaper = 0.6 * max(trial.cost for trial in every)
        best = max((t.rate for t in every if t.kinds <= most and t.cost <= cheaper), default=0.0)
        if best:
            answer = fastest_of_kinds(example.offer, partition, most, EXACT, most_cost=cheaper)
            assert answer.rate_rps == pytest.approx(best, rel=SLACK)


@some_instances
def test_what_others_dominate_is_not_missed(seed: int) -> None:
    offer = instance(seed).offer
    fewer = replace(offer, options={place: undominated(mine) for place, mine in offer.options.items()})
    assert all(set(fewer.options[place]) <= set(mine) for place, mine in offer.options.items())
    rates = [trial.rate for trial in trials(fewer, *instance(seed).partitions)]
    assert max(rates, default=0.0) == pytest.approx(best_rate(seed), rel=SLACK)


def lone(*rows: tuple[int, int, float]) -> BucketOffer:
    """One stock of 6 units and one bucket a phase; (use, nodes, rate) of every server."""
    options = tuple(
        BucketOption(stock=0, use=use, server=n, kind=n, rate_rps=rate, nodes=nodes)
        for n, (use, nodes, rate) in enumerate(rows)
    )
    places = [(phase, 0) for phase in PHASES]
    return BucketOffer(
        counts=(6,), charges=(1.0,), options=dict.fromkeys(places, options), probabilities=dict.fromkeys(places, 1.0)
    )


servers = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 5).map(float)), min_size=1, max_size=3
)


@given(servers, st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_servers_of_whole_rates_are_counted_as_by_hand(rows: list[tuple[int, int, float]], survive: float) -> None:
    offer, partition = replace(lone(*rows), survive=survive), Partition((0,), (0,))
    best = max((trial.rate for trial in trials(offer, partition)), default=0.0)
    if not best:
        with pytest.raises(InfeasibleError):
            best_pools(offer, [partition], RATE, EXACT)
        return
    assert best_pools(offer, [partition], RATE, EXACT).rate_rps == pytest.approx(best, rel=SLACK)


@pytest.mark.parametrize("lost_nodes", [1, 2, 3])
def test_a_loss_takes_no_more_than_a_pool_has(lost_nodes: int) -> None:
    """Servers of two kinds on three nodes: losing all of them leaves nothing."""
    offer = replace(lone((1, 3, 4.0), (1, 2, 3.9)), counts=(6,), survive=0.4, lost_nodes=lost_nodes)
    if lost_nodes == 3:
        with pytest.raises(InfeasibleError):
            best_pools(offer, [Partition((0,), (0,))], RATE, EXACT)
        return
    best = max(trial.rate for trial in trials(offer, Partition((0,), (0,))))
    assert best_pools(offer, [Partition((0,), (0,))], RATE, EXACT).rate_rps == pytest.approx(best, rel=SLACK)


def test_prices_of_the_relaxation_are_of_one_more() -> None:
    """A stock's toll is the slope of the relaxed rate in its count, above where nothing changes."""
    for seed in (0, 1, 2, 3):
        example = instance(seed)
        for partition in example.partitions[:4]:
            relaxed = relaxed_buckets(example.offer, partition, RATE, EXACT)
            if relaxed is None:
                continue
            for stock, count in enumerate(example.offer.counts):
                counts = tuple(n + 1e-4 * (t == stock) for t, n in enumerate(example.offer.counts))
                more = relaxed_buckets(replace(example.offer, counts=counts), partition, RATE, EXACT)
                assert more.rate_rps - relaxed.rate_rps <= relaxed.toll[stock] * 1e-4 + 1e-6
                assert count > 0
