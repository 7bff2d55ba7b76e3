"""Whom the router chooses: by weight, by least work, by prefixes; and what goes to longer buckets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np
import pytest
from fleets import LENGTHS, LONGEST, answers, decode_pool, fleet, interval, mixed_pool, prefill_pool, run, table
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import RouterPolicy
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import Interval, PoolShare, ReplayPool
from planner.domain.layout import Phase
from planner.domain.workload import PromptBlocks
from planner.replay.engine import Engine
from planner.replay.requests import RequestTable
from planner.replay.routing import chooser_of
from planner.replay.stations.prefill import PrefillServer

WEIGHTS = st.lists(st.floats(0.05, 10), min_size=2, max_size=7)


@dataclass(slots=True)
class Stub:
    """What a router sees of a server."""

    work: float = 0.0
    queue: int = 0
    speed: float = 1.0
    alive: bool = True


def picks(policy: RouterPolicy, weights: list[float], count: int) -> Counter[int]:
    chooser = chooser_of(policy, [Stub() for _ in weights], weights, Random(1))
    return Counter(chooser.pick() for _ in range(count))


@given(weights=WEIGHTS)
def test_in_turn_everybody_gets_his_share_at_every_moment(weights: list[float]) -> None:
    """After any number of turns nobody is as much as a turn of each of the others off his share."""
    chooser = chooser_of(RouterPolicy.ROUND_ROBIN, [Stub() for _ in weights], weights, Random(1))
    counts, total = [0] * len(weights), sum(weights)
    for turn in range(1, 400):
        counts[chooser.pick()] += 1
        for count, weight in zip(counts, weights, strict=True):
            assert abs(count - turn * weight / total) <= max(1.0, len(weights) / 2)


@pytest.mark.parametrize("weights", [(3, 1), (5, 1, 1), (4, 3, 2), (9, 1), (7, 5, 3, 1)])
def test_turns_are_as_near_to_the_shares_as_whole_turns_can_be(weights: tuple[int, ...]) -> None:
    """Webster's apportionment: no other counts of so many turns have a smaller sum of (count - due)^2 / weight."""

    def off(counts: Sequence[int]) -> float:
        due = [sum(counts) * weight / sum(weights) for weight in weights]
        return sum((count - own) ** 2 / weight for count, own, weight in zip(counts, due, weights, strict=True))

    chooser = chooser_of(RouterPolicy.ROUND_ROBIN, [Stub() for _ in weights], list(map(float, weights)), Random(1))
    counts = [0] * len(weights)
    for turn in range(1, 13):
        counts[chooser.pick()] += 1
        others = (row for row in product(range(turn + 1), repeat=len(weights)) if sum(row) == turn)
        assert off(counts) == pytest.approx(min(map(off, others)), abs=1e-9)


@pytest.mark.parametrize("pool", [prefill_pool(ranks=3), mixed_pool(ranks=3, batch=100)], ids=["prefill", "mixed"])
def test_in_turn_the_ranks_of_a_server_take_every_third_request_each(pool: ReplayPool) -> None:
    """Three prompts at once are taken in together where each rank gets one; the fourth waits for a step."""
    pools = [pool] if pool.phase is Phase.MIXED else [pool, decode_pool(batch=100)]
    budget = pool.budget
    log = run(
        fleet(pools), table([0.0] * 4, [budget] * 4, [1] * 4), ReplaySettings(policy=RouterPolicy.RANKS_IN_TURN)
    ).log
    step_ms = log.prefilled[0]
    assert list(log.prefilled[:3]) == pytest.approx([step_ms] * 3)
    assert log.prefilled[3] > step_ms


@pytest.mark.parametrize(
    ("places", "prompts"),
    [
        (1, [100, 100]),  # the first one's rank has no place until it ends
        (9, [100, 50_000, 100]),  # the second one's rank has 50,000 tokens to take in before
    ],
)
def test_a_prompt_goes_to_the_rank_that_takes_it_in_at_once(places: int, prompts: list[int]) -> None:
    """Ranks of a server that does both phases: by tokens that wait, then by sequences in answer."""
    count = len(prompts)
    pools = [mixed_pool(ranks=2, budget=500, batch=places)]
    log = run(fleet(pools), table([200.0 * k for k in range(count)], prompts, [500] * count)).log
    assert log.prefilled[count - 1] - 200.0 * (count - 1) < 100.0


def test_in_turn_with_equal_weights_is_in_turn() -> None:
    chooser = chooser_of(RouterPolicy.ROUND_ROBIN, [Stub()] * 3, [1.0] * 3, Random(1))
    turns = [chooser.pick() for _ in range(9)]
    assert turns == turns[:3] * 3
    assert sorted(turns[:3]) == [0, 1, 2]


@given(weights=WEIGHTS)
def test_at_random_everybody_gets_his_share_within_chance(weights: list[float]) -> None:
    count = 4000
    drawn = picks(RouterPolicy.RANDOM, weights, count)
    for place, weight in enumerate(weights):
        share = weight / sum(weights)
        assert abs(drawn[place] - count * share) <= 5 * np.sqrt(count * share * (1 - share))


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50), st.floats(0.1, 10)), min_size=1, max_size=8))
def test_least_work_and_shortest_queue(servers: list[tuple[float, int, float]]) -> None:
    stubs = [Stub(work=work, queue=queue, speed=speed) for work, queue, speed in servers]
    weights = [1.0] * len(stubs)
    for policy in (RouterPolicy.RANKS_IN_TURN, RouterPolicy.LEAST_WORK):
        chosen = stubs[chooser_of(policy, stubs, weights, Random(1)).pick()]
        assert chosen.work == min(stub.work for stub in stubs)
    chosen = stubs[chooser_of(RouterPolicy.SHORTEST_QUEUE, stubs, weights, Random(1)).pick()]
    assert chosen.queue / chosen.speed == min(stub.queue / stub.speed for stub in stubs)


def test_the_better_of_two() -> None:
    """Of n servers the one with the k-th least work is chosen with chance (2 (n - k) + 1) / n^2."""
    stubs, count = [Stub(work=float(place)) for place in range(5)], 20_000
    chooser = chooser_of(RouterPolicy.POWER_OF_TWO, stubs, [1.0] * 5, Random(2))
    drawn = Counter(chooser.pick() for _ in range(count))
    for place in range(5):
        assert drawn[place] / count == pytest.approx((2 * (5 - place) - 1) / 25, abs=0.015)


def test_work_is_what_is_outstanding() -> None:
    """The work that the router sees of a server is the tokens that are there and not done, over its speed."""
    pools = [prefill_pool(servers=3, ranks=2, base_ms=4.0), decode_pool(batch=500)]
    rng = np.random.default_rng(3)
    requests = table(rng.exponential(20, 400).cumsum().tolist(), rng.integers(1, 3000, 400).tolist(), [1] * 400)
    engine = Engine(fleet(pools), requests, ReplaySettings(), 0)
    chosen: list[int] = []
    servers = [server for server in engine._servers[0] if isinstance(server, PrefillServer)]
    speed = 2 * 1000 / (4.0 + 0.1 * 1000)
    for request, now in enumerate(requests.arrival_ms):
        engine._events.until(now)
        mine = [[k for k, server in enumerate(chosen) if server == s] for s in range(3)]
        undone = [sum(requests.prompt[k] for k in row if not engine.log.prefilled[k] < now) / speed for row in mine]
        for server, tokens in zip(servers, undone, strict=True):
            assert server.work <= tokens + 1e-6  # parts of prompts that are taken in are done
        works = [server.work for server in servers]
        before = [server.queue for server in servers]
        engine._arrive(now, request)
        (taken,) = (s for s in range(3) if servers[s].queue > before[s])
        assert works[taken] == min(works)
        chosen.append(taken)


def two_buckets(policy: RouterPolicy) -> Engine:
    pools = [
        prefill_pool(servers=1, island="short"),
        prefill_pool(servers=2, island="long"),
        decode_pool(batch=500, servers=2),
    ]
    decode = (PoolShare(pool=2, share=1.0),)
    intervals = [
        Interval(start=0, end=500, prefill=(PoolShare(pool=0, share=1.0),), decode=decode),
        Interval(start=500, end=LONGEST + 1, prefill=(PoolShare(pool=1, share=1.0),), decode=decode),
    ]
    rng = np.random.default_rng(0)
    prompts = np.where(rng.random(3000) < 0.9, rng.integers(1, 500, 3000), rng.integers(500, 5000, 3000))
    requests = table(rng.exponential(14, 3000).cumsum().tolist(), prompts.tolist(), [2] * 3000)
    return run(fleet(pools, intervals), requests, ReplaySettings(policy=policy, overflow_ms=100.0))


@pytest.mark.parametrize("policy", list(RouterPolicy))
def test_prompts_go_to_their_bucket_or_to_a_longer_one(policy: RouterPolicy) -> None:
    engine = two_buckets(policy)
    for prompt, pool in zip(engine.requests.prompt, engine.log.prefill, strict=True):
        if prompt >= 500:
            assert pool == 1
        elif policy is not RouterPolicy.OVERFLOW:
            assert pool == 0


def test_overflow_takes_the_tail_off() -> None:
    plain, over = two_buckets(RouterPolicy.LEAST_WORK), two_buckets(RouterPolicy.OVERFLOW)
    longer = sum(p < 500 and pool == 1 for p, pool in zip(over.requests.prompt, over.log.prefill, strict=True))
    assert 0 < longer < 1500
    tails = [np.quantile(np.array(e.log.first) - e.requests.arrival_ms, 0.99) for e in (plain, over)]
    assert tails[1] < 0.8 * tails[0]


@pytest.mark.parametrize("policy", list(RouterPolicy))
def test_mixed_and_split_pools_of_an_interval_get_their_shares(policy: RouterPolicy) -> None:
    pools = [prefill_pool(servers=2), decode_pool(batch=100), mixed_pool(servers=3, batch=50)]
    shares = (PoolShare(pool=0, share=0.3), PoolShare(pool=2, share=0.7))
    of = fleet(pools, [Interval(start=0, end=LONGEST + 1, prefill=shares, decode=(PoolShare(pool=1, share=1.0),))])
    requests = table(list(np.arange(1000) * 30.0), [100] * 1000, [5] * 1000)
    counts = Counter(run(of, requests, ReplaySettings(policy=policy)).log.prefill)
    assert abs(counts[0] - 300) <= 1
    assert abs(counts[2] - 700) <= 1


@pytest.mark.parametrize("policy", [RouterPolicy.RANDOM, RouterPolicy.ROUND_ROBIN])
def test_pools_of_a_kind_are_chosen_by_their_shares(policy: RouterPolicy) -> None:
    """A pool's servers share its part: two take 80 %, one the rest."""
    pools = [
        prefill_pool(servers=2),
        prefill_pool(servers=1, island="other"),
        decode_pool(servers=2, batch=500),
        decode_pool(servers=1, batch=500, island="others"),
    ]
    first, after = ((PoolShare(pool=n, share=0.8), PoolShare(pool=n + 1, share=0.2)) for n in (0, 2))
    of = fleet(pools, [Interval(start=0, end=LONGEST + 1, prefill=first, decode=after)])
    requests = table(list(np.arange(2000) * 100.0), [100] * 2000, [5] * 2000)
    log = run(of, requests, ReplaySettings(policy=policy)).log
    exact = policy is RouterPolicy.ROUND_ROBIN
    for count in (Counter(log.prefill)[0], Counter(log.decode)[2]):
        assert abs(count - 1600) <= (2 if exact else 5 * np.sqrt(2000 * 0.16))


def test_caches_go_to_the_decode_server_with_the_least_load() -> None:
    """Of two servers one has three times the places: it gets three of four sequences, as long as none waits."""
    pools = [prefill_pool(), decode_pool(batch=100), decode_pool(batch=300, island="large")]
    requests = table(list(np.arange(2000) * 20.0), [10] * 2000, [200] * 2000)
    counts = Counter(run(fleet(pools), requests).log.decode)
    assert counts[2] / 2000 == pytest.approx(0.75, abs=0.02)


def shared_prefixes(policy: RouterPolicy) -> Engine:
    """100 conversations whose prompts begin alike, through four caches that hold half of them each."""
    rng = np.random.default_rng(4)
    conversations = rng.integers(0, 100, 3000)
    ids: list[int] = []
    ends: list[int] = []
    for request, conversation in enumerate(conversations.tolist()):
        ids += [100 * conversation + block for block in range(8)] + [10**6 + request]
        ends.append(len(ids))
    pools = [
        prefill_pool(servers=2, ranks=2, cache_tokens=64 * 9 * 50, ms_per_token=0.05),
        decode_pool(batch=1000, curve=answers(5.0)),
    ]
    requests = RequestTable(
        rng.exponential(60, 3000).cumsum().tolist(),
        [64 * 9] * 3000,
        [2] * 3000,
        LENGTHS,
        PromptBlocks(block_tokens=64, ids=ids, ends=ends),
    )
    return run(fleet(pools, [interval(pools)]), requests, ReplaySettings(policy=policy))


def test_a_router_that_knows_prefixes_finds_more_of_them() -> None:
    aware, plain = (
        sum(shared_prefixes(policy).log.hits) / (64 * 9 * 3000)
        for policy in (RouterPolicy.PREFIX_AWARE, RouterPolicy.LEAST_WORK)
    )
    assert aware > plain + 0.2
