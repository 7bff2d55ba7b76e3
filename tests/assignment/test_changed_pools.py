"""The programme of buckets from servers that run, held against every plan that there is on small inventories."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from planner.assignment import (
    BucketOffer,
    BucketOption,
    ChangeTerms,
    DeployedServers,
    Partition,
    Place,
    best_pools,
    least_changed_pools,
    relaxed_values,
)
from planner.domain import AssignmentSettings, ObjectiveKind, ObjectiveSettings, Phase
from planner.errors import InfeasibleError

EXACT = AssignmentSettings(gap=0.0, work_limit=20)
RATE = ObjectiveSettings()
PARTITIONS = (Partition((0,), (0,)), Partition((1, 2), (0,)))
CHANCES = {0: 1.0, 1: 0.6, 2: 0.4}
SEEDS = range(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to serve."""

    rate: float
    rent: float
    gpus: int
    running_on: int
    usd: float
    turns: bool


def offer_of(seed: int) -> BucketOffer:
    """Two stocks, a server or two of each, and what runs: up to two servers of a configuration in each phase."""
    rng = np.random.default_rng(seed)
    counts = (int(rng.integers(2, 5)), 2)
    places: list[Place] = [(Phase.PREFILL, 0), (Phase.PREFILL, 1), (Phase.PREFILL, 2), (Phase.DECODE, 0)]
    deployed = tuple(
        DeployedServers(stock=t, use=use, count=int(rng.integers(1, 3)), phase=phase, shape=use, stop_usd=float(usd))
        for t, use, phase, usd in (
            (0, 1, Phase.PREFILL, rng.uniform(0, 1)),
            (int(rng.integers(0, 2)), 1, Phase.DECODE, rng.uniform(0, 1)),
        )
    )
    fast = rng.uniform(1, 4, (2, 2))  # of a stock and phase, a unit
    options: dict[Place, tuple[BucketOption, ...]] = {}
    for place in places:
        phase = 0 if place[0] is Phase.PREFILL else 1
        ease = {0: 1.0, 1: 1.6, 2: 0.6}[place[1]]
        fresh = [
            BucketOption(
                stock=t,
                use=use,
                server=use,
                kind=use,
                shape=use,
                rate_rps=float(fast[t, phase] * use ** rng.uniform(0.8, 1.3) * ease),
                start_usd=float(rng.uniform(0.5, 2) * use),
            )
            for t, use in ((0, 1), (0, 2), (1, 1))
        ]
        running = [
            BucketOption(
                stock=group.stock,
                use=group.use,
                server=9,
                kind=9,
                shape=group.shape,
                rate_rps=float(fast[group.stock, phase] * 0.9 * ease),
                deployed=p,
            )
            for p, group in enumerate(deployed)
            if group.phase is place[0] and place[1] != 2  # engines do not take the longest prompts
        ]
        options[place] = (*fresh, *running)
    probabilities = {place: CHANCES[place[1]] for place in places}
    return BucketOffer(
        counts=counts, charges=(2.0, 1.0), options=options, probabilities=probabilities, deployed=deployed
    )


def trials(offer: BucketOffer) -> Iterator[Trial]:
    """Every plan of every partition."""
    for partition in PARTITIONS:
        places = [(Phase.PREFILL, b) for b in partition.prefill] + [(Phase.DECODE, b) for b in partition.decode]
        columns = [(place, option) for place in places for option in offer.options[place]]
        for counts in _counts(offer, [option for _, option in columns], list(offer.counts), [0, 0]):
            running = [o.deployed for (_, o), count in zip(columns, counts, strict=True) if count]
            if max(Counter(p for p in running if p is not None).values(), default=0) <= 1:  # one bucket an island
                yield _trial(offer, places, columns, counts)


def _counts(
    offer: BucketOffer, options: list[BucketOption], free: list[int], used: list[int]
) -> Iterator[tuple[int, ...]]:
    if not options:
        yield ()
        return
    option, others_after = options[0], options[1:]
    most = free[option.stock] // option.use
    if option.deployed is not None:
        most = min(most, offer.deployed[option.deployed].count - used[option.deployed])
    for count in range(most + 1):
        free[option.stock] -= count * option.use
        if option.deployed is not None:
            used[option.deployed] += count
        yield from ((count, *others) for others in _counts(offer, others_after, free, used))
        free[option.stock] += count * option.use
        if option.deployed is not None:
            used[option.deployed] -= count


def _trial(
    offer: BucketOffer, places: list[Place], columns: list[tuple[Place, BucketOption]], counts: tuple[int, ...]
) -> Trial:
    served, starts, stays = Counter[Place](), list[tuple[Phase, BucketOption]](), Counter[int]()
    rent = 0.0
    for (place, option), count in zip(columns, counts, strict=True):
        served[place] += count * option.rate_rps
        rent += count * option.use * offer.charges[option.stock]
        if option.deployed is None:
            starts += [(place[0], option)] * count
        else:
            stays[option.deployed] += count
    stops = [(p, group) for p, group in enumerate(offer.deployed) for _ in range(group.count - stays[p])]
    touched = 0
    for t in range(len(offer.counts)):
        begun = sum(option.use for _, option in starts if option.stock == t)
        ended = sum(group.use for _, group in stops if group.stock == t)
        touched += max(begun, ended)
    return Trial(
        rate=min(served[place] / offer.probabilities[place] for place in places),
        rent=rent,
        gpus=touched,
        running_on=sum(stays.values()),
        usd=sum(option.start_usd for _, option in starts) + sum(group.stop_usd for _, group in stops),
        turns=_paired(starts, [group for _, group in stops]),
    )


def _paired(starts: list[tuple[Phase, BucketOption]], stops: list[DeployedServers]) -> bool:
    """Whether every server that starts takes the place of one of its shape, tried one by one."""
    if not starts:
        return True
    (_, option), later_starts = starts[0], starts[1:]
    return any(
        _paired(later_starts, stops[:n] + stops[n + 1 :])
        for n, group in enumerate(stops)
        if (group.stock, group.shape) == (option.stock, option.shape)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_within_limits_is_the_best_there_is(seed: int) -> None:
    offer = offer_of(seed)
    every = list(trials(offer))
    servers = sum(group.count for group in offer.deployed)
    for most, least, turns in ((0, 0, False), (1, 0, False), (2, 1, False), (None, servers, False), (None, 0, True)):
        terms = ChangeTerms(most_gpus=most, least_running_on=least, turns_only=turns)
        fitting = [
            trial
            for trial in every
            if (most is None or trial.gpus <= most) and trial.running_on >= least and (trial.turns or not turns)
        ]
        best = max((trial.rate for trial in fitting), default=0.0)
        limited = replace(offer, terms=terms)
        if best < 1e-4:
            with pytest.raises(InfeasibleError):
                best_pools(limited, PARTITIONS, RATE, EXACT)
            continue
        answer = best_pools(limited, PARTITIONS, RATE, EXACT)
        assert answer.value == pytest.approx(best, rel=1e-5)
        assert answer.bound >= best * (1 - 1e-9)
        bounds = relaxed_values(limited, PARTITIONS, RATE, EXACT)
        assert max(bounds.values()) >= best * (1 - 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_fewest_gpus_near_the_best_are_the_fewest_there_are(seed: int) -> None:
    offer = offer_of(seed)
    every = list(trials(offer))
    best = max(trial.rate for trial in every)
    for within in (0.0, 0.05, 0.3):
        fewest = min(trial.gpus for trial in every if trial.rate >= best * (1 - within) * (1 - 1e-7))
        change = least_changed_pools(offer, PARTITIONS, RATE, EXACT, value=best * (1 - 1e-7), within=within)
        assert (change.gpus, change.proven) == (fewest, True)
        assert change.answer.rate_rps >= best * (1 - within) * (1 - 1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cheapest_with_its_change_counted_is_the_cheapest_there_is(seed: int) -> None:
    offer = offer_of(seed)
    every = list(trials(offer))
    target = 0.5 * max(trial.rate for trial in every)
    objective = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=target)
    for weight in (0.0, 0.4, 5.0):
        least = min(t.rent + weight * t.usd for t in every if t.rate >= target)
        answer = best_pools(replace(offer, terms=ChangeTerms(usd_weight=weight)), PARTITIONS, objective, EXACT)
        assert answer.value == pytest.approx(least, rel=1e-5)
        assert offer.charge_of(answer.pools) <= answer.value * (1 + 1e-6)
        assert answer.bound <= least * (1 + 1e-6)


@pytest.mark.parametrize("seed", [0, 5])
def test_requests_per_usd_count_the_change(seed: int) -> None:
    offer = replace(offer_of(seed), terms=ChangeTerms(usd_weight=0.5))
    best = max(trial.rate / (trial.rent + 0.5 * trial.usd) for trial in trials(offer) if trial.rent)
    answer = best_pools(offer, PARTITIONS, ObjectiveSettings(kind=ObjectiveKind.PER_DOLLAR), EXACT)
    assert answer.value == pytest.approx(best, rel=1e-4)
    assert answer.bound >= best * (1 - 1e-6)


def test_copies_of_an_island_run_on_behind_one_bucket() -> None:
    """Both buckets by two servers that run: one of them would be of another island, so it starts anew."""
    offer = offer_of(0)
    prefill, decode = (Phase.PREFILL, 1), (Phase.DECODE, 0)
    running = {place: next(o for o in offer.options[place] if o.deployed is not None) for place in (prefill, decode)}
    fresh = next(o for o in offer.options[prefill] if o.deployed is None and o.use == 1 and o.stock == 0)
    options = dict.fromkeys((prefill, (Phase.PREFILL, 2)), (running[prefill], fresh))
    groups = tuple(replace(group, count=2) for group in offer.deployed)
    offer = replace(offer, counts=(4, 4), options={**options, decode: (running[decode],)}, deployed=groups)
    with pytest.raises(InfeasibleError):
        best_pools(replace(offer, terms=ChangeTerms(most_gpus=0)), PARTITIONS[1:], RATE, EXACT)
    answer = best_pools(replace(offer, terms=ChangeTerms(most_gpus=1)), PARTITIONS[1:], RATE, EXACT)
    assert sum(pool.count for pool in answer.pools if pool.option.deployed is None) == 1


def test_more_change_is_never_worse() -> None:
    for seed in SEEDS:
        offer, rates = offer_of(seed), list[float]()
        for most in (0, 1, 2, 3, 6, None):
            try:
                rates.append(
                    best_pools(replace(offer, terms=ChangeTerms(most_gpus=most)), PARTITIONS, RATE, EXACT).value
                )
            except InfeasibleError:
                rates.append(0.0)
        assert all(after >= before * (1 - 1e-6) for before, after in pairwise(rates))


def test_some_instances_turn_servers_and_gain_by_it() -> None:
    """The limit is held against something."""
    gains = 0
    for seed in SEEDS:
        every = list(trials(offer_of(seed)))
        turned = max((t.rate for t in every if t.turns), default=0.0)
        gains += turned > max((t.rate for t in every if t.gpus == 0), default=0.0) + 1e-6
    assert gains >= 2
