"""Uplinks between GPU types in the programme of buckets: by hand, and against every choice of servers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from enumerated_buckets import numbers_of

from planner.assignment import (
    BucketAnswer,
    BucketOffer,
    BucketOption,
    Partition,
    PoolCount,
    Uplinks,
    best_pools,
    relaxed_values,
)
from planner.assignment.buckets.offer import Place, places_of
from planner.domain import PHASES, AssignmentSettings, ObjectiveKind, ObjectiveSettings, Phase
from planner.errors import InfeasibleError

EXACT = AssignmentSettings(gap=0.0)
RATE = ObjectiveSettings()
SPLIT = (0, 1, 2)
MIXED = (100, 101)
WIDTHS = (0.2, 1.0, 4.0)
each_case = pytest.mark.parametrize(("seed", "width"), [(seed, width) for seed in (*SPLIT, *MIXED) for width in WIDTHS])
SLACK = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An offer with all its partitions."""

    offer: BucketOffer
    partitions: tuple[Partition, ...]


SPANS = ((0, 2), (0, 1), (1, 2))
"""Buckets of two ranges: all, the first, the second; by their numbers."""


@cache
def instance(seed: int, width: float | None) -> Instance:
    """Two stocks of 2 or 3 GPUs, a server a GPU and phase, under an uplink of `width` GB/s over the first; a request of
    the second range hands over twice as much."""
    rng = np.random.default_rng(seed)
    mixed = seed in MIXED
    phases = tuple(Phase) if mixed else PHASES
    chances = rng.dirichlet((2.0, 2.0))
    options: dict[Place, tuple[BucketOption, ...]] = {}
    for phase in phases:
        rates = rng.uniform(1, 9, (2, 2)) * (0.6 if phase is Phase.MIXED else 1.0)
        for number, (first, after) in enumerate(SPANS):
            mix = chances[first:after] / chances[first:after].sum()
            options[phase, number] = tuple(
                BucketOption(stock=t, use=1, server=t, kind=t, rate_rps=float(1 / (mix / rates[t, first:after]).sum()))
                for t in range(2)
            )
    gb = {
        (i, k): sum(float(chances[j]) * (j + 1) for j in {*range(*SPANS[i])} & {*range(*SPANS[k])})
        for i, k in product(range(3), repeat=2)
    }
    uplinks = Uplinks(groups=(0, 1), gb_s=(width or 0.0,), gb={pair: amount for pair, amount in gb.items() if amount})
    offer = BucketOffer(
        counts=(2, 2) if mixed else (3, int(rng.integers(2, 4))),
        charges=(1.0, 3.0),
        options=options,
        probabilities={place: float(chances[slice(*SPANS[place[1]])].sum()) for place in options},
        halves={(Phase.MIXED, n): ((Phase.PREFILL, n), (Phase.DECODE, n)) for n in range(3) if mixed},
        uplinks=None if width is None else uplinks,
    )
    cuts = ((0,), (1, 2))
    partitions = tuple(
        Partition(prefill, decode, prefill if mixed and prefill == decode else ())
        for prefill, decode in product(cuts, cuts)
    )
    return Instance(offer=offer, partitions=partitions)


def every_choice(offer: BucketOffer, partition: Partition) -> Iterator[tuple[PoolCount, ...]]:
    """All servers that serve every bucket of a partition."""
    pairs = [
        (place, option)
        for place, options in offer.options.items()
        if place[1] in partition.of(place[0])
        for option in options
        if option.rate_rps > 0
    ]
    for numbers in numbers_of([option for _, option in pairs], offer.counts):
        pools = tuple(
            PoolCount(place=place, option=option, count=n)
            for (place, option), n in zip(pairs, numbers, strict=True)
            if n
        )
        if all(any(place in offer.served_by(pool.place) for pool in pools) for place in places_of(partition)):
            yield pools


def served(offer: BucketOffer, partition: Partition, pools: tuple[PoolCount, ...]) -> float:
    """The rate of the whole by what a router does: it takes servers of each phase by what they can do, whatever their
    type."""

    def capacity(place: Place, stock: int | None = None) -> float:
        mine = (p for p in pools if p.place == place and stock in (None, p.option.stock))
        return sum(p.count * p.option.rate_rps for p in mine)

    def both(place: Place) -> float:
        return capacity((Phase.MIXED, place[1]))

    most = min((capacity(place) + both(place)) / offer.probabilities[place] for place in places_of(partition))
    crossing = np.zeros(2)  # GB out of stock 0 of a request of the whole mix, and into it
    uplinks = offer.uplinks
    if uplinks is None:
        return most
    for i, k in product(partition.prefill, partition.decode):
        prefill, decode = (Phase.PREFILL, i), (Phase.DECODE, k)
        mine, other = capacity(prefill), capacity(decode)
        if mine and other and (gb := uplinks.gb.get((i, k), 0.0)):
            apart = min(mine / offer.probabilities[prefill], other / offer.probabilities[decode])
            together = both(prefill) / offer.probabilities[prefill] if i == k else 0.0
            each = gb * apart / (apart + together) / (mine * other)
            crossing += [
                each * capacity(prefill, 0) * capacity(decode, 1),
                each * capacity(prefill, 1) * capacity(decode, 0),
            ]
    return min(most, uplinks.gb_s[0] / crossing.max()) if crossing.any() else most


@cache
def best(seed: int, width: float | None) -> float:
    example = instance(seed, width)
    rates = (
        served(example.offer, partition, pools)
        for partition in example.partitions
        for pools in every_choice(example.offer, partition)
    )
    return max(rates, default=0.0)


def solved(offer: BucketOffer, example: Instance, objective: ObjectiveSettings = RATE) -> BucketAnswer | None:
    try:
        return best_pools(offer, example.partitions, objective, EXACT)
    except InfeasibleError:
        return None


def test_the_examples_are_worth_enumerating() -> None:
    """The uplink costs something in most, and leaves something in most."""
    cases = list(product((*SPLIT, *MIXED), WIDTHS))
    assert sum(best(seed, width) < best(seed, None) * (1 - 1e-3) for seed, width in cases) >= len(cases) // 3
    assert sum(best(seed, width) > 0 for seed, width in cases) >= 2 * len(cases) // 3


@each_case
def test_no_servers_pass_the_bound(seed: int, width: float) -> None:
    example, most = instance(seed, width), best(seed, width)
    answer = solved(example.offer, example)
    if answer is None:
        assert not most
        return
    assert answer.bound >= most * (1 - SLACK)
    assert answer.rate_rps == pytest.approx(served(example.offer, answer.partition, answer.pools), rel=1e-6)
    relaxed = relaxed_values(example.offer, example.partitions, RATE, EXACT)
    assert max(relaxed.values()) >= answer.value * (1 - SLACK)


@each_case
def test_what_surely_fits_does(seed: int, width: float) -> None:
    example, most = instance(seed, width), best(seed, width)
    answer = solved(example.offer.surely, example)
    if answer is None:
        assert not most or all(option.rate_rps == 0 for row in example.offer.options.values() for option in row)
        return
    rate = served(example.offer, answer.partition, answer.pools)
    assert rate >= answer.value * (1 - SLACK)
    assert rate <= most * (1 + SLACK)


@pytest.mark.parametrize("seed", [*SPLIT, *MIXED])
def test_a_wide_uplink_changes_nothing_and_a_narrower_one_never_serves_more(seed: int) -> None:
    plain = solved(instance(seed, None).offer, instance(seed, None))
    wide = instance(seed, 1e6)
    for offer in (wide.offer, wide.offer.surely):
        answer = solved(offer, wide)
        assert (answer is None) == (plain is None)
        if answer is not None and plain is not None:
            assert answer.value == pytest.approx(plain.value, rel=1e-6)
    for surely in (False, True):
        values = []
        for width in (1e6, 4.0, 1.0, 0.2):
            example = instance(seed, width)
            answer = solved(example.offer.surely if surely else example.offer, example)
            values.append(0.0 if answer is None else answer.value)
        assert all(after <= before * (1 + SLACK) for before, after in pairwise(values))


def hand(*, prefill: tuple[float, float], decode: tuple[float, float], width: float) -> BucketOffer:
    """Two stocks of two GPUs each, with one server a GPU that does so much of the one bucket of a phase."""

    def options(rates: tuple[float, float]) -> tuple[BucketOption, ...]:
        return tuple(
            BucketOption(stock=t, use=1, server=t, kind=t, rate_rps=rate) for t, rate in enumerate(rates) if rate
        )

    return BucketOffer(
        counts=(2, 2),
        charges=(1.0, 3.0),
        options={(Phase.PREFILL, 0): options(prefill), (Phase.DECODE, 0): options(decode)},
        probabilities={(Phase.PREFILL, 0): 1.0, (Phase.DECODE, 0): 1.0},
        uplinks=Uplinks(groups=(0, 1), gb_s=(width,), gb={(0, 0): 0.5}),
    )


ONE = (Partition((0,), (0,)),)


def test_one_type_prefills_and_the_other_decodes_through_the_uplink() -> None:
    """All of 6 requests/s cross at 0.5 GB each: through 2 GB/s go 4."""
    offer = hand(prefill=(3.0, 0.0), decode=(0.0, 4.0), width=2.0)
    for each in (offer, offer.surely):
        answer = best_pools(each, ONE, RATE, EXACT)
        assert (answer.value, answer.rate_rps) == pytest.approx((4.0, 4.0))


def test_each_type_keeps_to_itself_where_nothing_passes() -> None:
    """Of two of each, one prefills and one decodes: 2 and 5 requests/s, not together, as a router would mix them."""
    offer = hand(prefill=(2.0, 5.0), decode=(2.0, 5.0), width=1e-9)
    answer = best_pools(offer.surely, ONE, RATE, EXACT)
    assert answer.value == pytest.approx(5.0, rel=1e-3)
    assert {pool.option.stock for pool in answer.pools} == {1}
    paired_best = best_pools(offer, ONE, RATE, EXACT)
    assert paired_best.value == pytest.approx(7.0, rel=1e-3)
    assert paired_best.rate_rps < 1e-6  # a router pairs them whatever their type


def test_a_target_is_met_by_what_surely_fits() -> None:
    """4 requests/s cost 3 servers of the first type and the uplink; 2 of the second without it."""
    objective = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=4.0)
    offer = hand(prefill=(2.0, 5.0), decode=(2.0, 5.0), width=0.1)
    answer = best_pools(offer.surely, ONE, objective, EXACT)
    assert answer.value == pytest.approx(6.0)
    assert {pool.option.stock for pool in answer.pools} == {1}
    assert answer.rate_rps >= 4.0
