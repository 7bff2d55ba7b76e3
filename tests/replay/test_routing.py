"""Whom the router chooses: by weight, by least work, by prefixes; and what goes to longer buckets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import numpy as np
import pytest
from fleets import LENGTHS, LONGEST, answers, decode_pool, fleet, interval, mixed_pool, prefill_pool, run, table
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import Counted, Endpoints, RouterLayer, RouterPolicy, Rule, behaviour_of, one_layer
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import Interval, PoolShare, ReplayPool
from planner.domain.layout import Phase
from planner.domain.serving.routers import LEAST_WORK
from planner.domain.workload import PromptBlocks
from planner.replay.engine import Engine
from planner.replay.requests import RequestTable
from planner.replay.routing.choosers import Drawn, InTurn
from planner.replay.routing.layers import Choice, Endpoint
from planner.replay.routing.router import TakerGroup
from planner.replay.stations.prefill import PrefillServer

WEIGHTS = st.lists(st.floats(0.05, 10), min_size=2, max_size=7)


@dataclass(slots=True)
class Stub:
    """What a layer sees of a server."""

    work: float = 0.0
    speed: float = 1.0
    alive: bool = True


@dataclass(slots=True)
class Ranked(Stub):
    """One with ranks."""

    ranks: int = 2


def choice(layer: RouterLayer, servers: Sequence[Stub], counts: Sequence[int], weights: Sequence[float]) -> Choice:
    """Endpoints to each of which the router has sent `counts`."""
    endpoints = [Endpoint([server], weight, 1) for server, weight in zip(servers, weights, strict=True)]  # type: ignore[list-item]
    for endpoint, count in zip(endpoints, counts, strict=True):
        endpoint.counted[0] = count
    return Choice(layer, endpoints, Random(1))


def chosen_place(made: Choice) -> int:
    return made.endpoints.index(made.pick(0.0)[0])


@given(weights=WEIGHTS)
def test_in_turn_everybody_gets_his_share_at_every_moment(weights: list[float]) -> None:
    """After any number of turns nobody is as much as a turn of each of the others off his share."""
    chooser = InTurn(weights)
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

    chooser = InTurn(list(map(float, weights)))
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
        fleet(pools),
        table([0.0] * 4, [budget] * 4, [1] * 4),
        ReplaySettings(router=behaviour_of(RouterPolicy.ROUND_ROBIN)),
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
    chooser = InTurn([1.0] * 3)
    turns = [chooser.pick() for _ in range(9)]
    assert turns == turns[:3] * 3
    assert sorted(turns[:3]) == [0, 1, 2]


@given(weights=WEIGHTS)
def test_at_random_everybody_gets_his_share_within_chance(weights: list[float]) -> None:
    count = 4000
    chooser = Drawn(weights, Random(1))
    drawn = Counter(chooser.pick() for _ in range(count))
    for place, weight in enumerate(weights):
        share = weight / sum(weights)
        assert abs(drawn[place] - count * share) <= 5 * np.sqrt(count * share * (1 - share))


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50), st.floats(0.1, 10)), min_size=1, max_size=8))
def test_the_least_of_what_a_layer_counts(servers: list[tuple[float, int, float]]) -> None:
    """Work as engines tell it; tokens as they are, or for the weight; requests for the weight with the next counted."""
    stubs = [Stub(work=work) for work, _, _ in servers]
    counts, weights = [count for _, count, _ in servers], [weight for _, _, weight in servers]
    of_work, blind, weighed, connections = (
        [stub.work for stub in stubs],
        counts,
        [count / weight for count, weight in zip(counts, weights, strict=True)],
        [(count + 1) / weight if count else 0 for count, weight in zip(counts, weights, strict=True)],
    )
    cases = (
        (Counted.WORK, True, of_work),
        (Counted.TOKENS, False, blind),
        (Counted.TOKENS, True, weighed),
        (Counted.REQUESTS, True, connections),
    )
    for counted, by_speed, loads in cases:
        layer = RouterLayer(among=Endpoints.SERVER, rule=Rule.LEAST_LOADED, counts=counted, by_speed=by_speed)
        assert loads[chosen_place(choice(layer, stubs, counts, weights))] == min(loads)


def test_the_better_of_two() -> None:
    """Of n endpoints the one with the k-th smallest count is chosen with chance (2 (n - k) + 1) / n^2."""
    layer = RouterLayer(among=Endpoints.SERVER, rule=Rule.BETTER_OF_TWO, counts=Counted.REQUESTS, by_speed=False)
    made, count = choice(layer, [Stub() for _ in range(5)], range(5), [1.0] * 5), 20_000
    drawn = Counter(chosen_place(made) for _ in range(count))
    for place in range(5):
        assert drawn[place] / count == pytest.approx((2 * (5 - place) - 1) / 25, abs=0.015)


def test_equal_counts_are_taken_alike() -> None:
    layer = RouterLayer(among=Endpoints.RANK, rule=Rule.LEAST_LOADED, counts=Counted.TOKENS, by_speed=False)
    made = choice(layer, [Stub() for _ in range(4)], [7, 2, 2, 9], [1.0] * 4)
    drawn = Counter(chosen_place(made) for _ in range(4000))
    assert set(drawn) == {1, 2}
    assert drawn[1] / 4000 == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("counted", [Counted.TOKENS, Counted.REQUESTS])
@pytest.mark.parametrize("mixed", [False, True], ids=["split", "mixed"])
def test_what_a_router_counts_is_what_it_sent_and_has_not_back(counted: Counted, mixed: bool) -> None:
    """One server takes what it gets; counts go up with each request and come down with its first token, to nothing."""
    pools = [mixed_pool(ranks=2, batch=50)] if mixed else [prefill_pool(ranks=2), decode_pool(batch=50)]
    layer = (RouterLayer(among=Endpoints.RANK, rule=Rule.LEAST_LOADED, counts=counted, by_speed=False),)
    router = replace(LEAST_WORK, prefill=layer, mixed=layer)
    requests = table(list(np.arange(40) * 7.0), list(range(100, 140)), [5] * 40)
    engine = Engine(fleet(pools), requests, ReplaySettings(router=router), 0)
    (route,) = engine._router._routes
    ranks = route.groups[0].choice.endpoints
    for request, now in enumerate(requests.arrival_ms):
        engine._events.until(now)
        sent = [number for number in range(request) if not engine.log.prefilled[number] < now]
        due = sum(requests.prompt[number] if counted is Counted.TOKENS else 1 for number in sent)
        assert sum(rank.counted[0] for rank in ranks) == due
        engine._arrive(now, request)
    engine._events.until(float("inf"))
    assert [rank.counted[0] for rank in ranks] == [0, 0]


def test_pools_by_weight_then_servers_then_ranks() -> None:
    """Three layers: of 100 requests at once a pool of 3/4 of the share gets three of four, its servers alike."""
    pools = [
        prefill_pool(servers=2, ranks=2, island="large"),
        prefill_pool(servers=1, ranks=2, island="small"),
        decode_pool(batch=500),
    ]
    layers = (
        RouterLayer(among=Endpoints.POOL, rule=Rule.LEAST_LOADED, counts=Counted.TOKENS),
        RouterLayer(among=Endpoints.SERVER, rule=Rule.LEAST_LOADED, counts=Counted.REQUESTS, by_speed=False),
        RouterLayer(among=Endpoints.RANK, rule=Rule.LEAST_LOADED, counts=Counted.REQUESTS, by_speed=False),
    )
    rows = (PoolShare(pool=0, share=0.75), PoolShare(pool=1, share=0.25))
    every = Interval(start=0, end=LONGEST + 1, prefill=rows, decode=(PoolShare(pool=2, share=1.0),))
    requests = table([0.0] * 100, [100] * 100, [1] * 100)
    engine = Engine(fleet(pools, [every]), requests, ReplaySettings(router=replace(LEAST_WORK, prefill=layers)), 0)
    for request in range(100):
        engine._arrive(0.0, request)
    queued = [[sum(map(len, server.queues)) for server in servers] for servers in engine._servers[:2]]  # type: ignore[union-attr]
    assert sum(queued[0]) == pytest.approx(75, abs=1)
    assert abs(queued[0][0] - queued[0][1]) <= 1


def test_two_copies_of_a_router_count_apart() -> None:
    """Each knows half of what is sent, so the fullest of many servers is fuller than behind one copy."""
    pools = [prefill_pool(servers=20, island="many"), decode_pool(batch=500)]
    fullest = []
    for copies in (1, 2):
        layers = one_layer(Endpoints.SERVER, Rule.LEAST_LOADED, Counted.REQUESTS, copies=copies)
        settings = ReplaySettings(router=replace(LEAST_WORK, prefill=layers))
        engine = Engine(fleet(pools), table([0.0] * 200, [100] * 200, [1] * 200), settings, 0)
        for request in range(200):
            engine._arrive(0.0, request)
        fullest.append(max(len(server.queues[0]) for server in engine._servers[0]))  # type: ignore[union-attr]
    assert fullest[0] == 10
    assert fullest[1] > 10


def test_old_counts_send_all_of_a_moment_to_one_endpoint() -> None:
    """Counts that are a second old: everything of that second goes where least was before it."""
    pools = [prefill_pool(servers=4, ms_per_token=5.0), decode_pool(batch=500)]
    layers = one_layer(Endpoints.SERVER, Rule.LEAST_LOADED, Counted.TOKENS, age_ms=1000.0)
    requests = table([float(10 * k) for k in range(150)], [100 + k for k in range(150)], [1] * 150)
    engine = Engine(fleet(pools), requests, ReplaySettings(router=replace(LEAST_WORK, prefill=layers)), 0)
    taken = []
    for request, now in enumerate(requests.arrival_ms):
        engine._events.until(now)
        before = [server.queue for server in engine._servers[0]]  # type: ignore[union-attr]
        engine._arrive(now, request)
        taken += [k for k, server in enumerate(engine._servers[0]) if server.queue > before[k]]  # type: ignore[union-attr]
    assert len(set(taken[101:])) == 1


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
    return run(fleet(pools, intervals), requests, ReplaySettings(router=behaviour_of(policy), overflow_ms=100.0))


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
    counts = Counter(run(of, requests, ReplaySettings(router=behaviour_of(policy))).log.prefill)
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
    log = run(of, requests, ReplaySettings(router=behaviour_of(policy))).log
    exact = policy is RouterPolicy.ROUND_ROBIN
    for count in (Counter(log.prefill)[0], Counter(log.decode)[2]):
        assert abs(count - 1600) <= (2 if exact else 5 * np.sqrt(2000 * 0.16))


def test_who_counts_divides_by_weights_and_others_go_by_shares() -> None:
    """A hundred prompts at once, to two equal servers with equal shares, one of which weighs four times as much."""
    pools = [prefill_pool(), prefill_pool(island="other"), decode_pool(batch=500)]
    first = (PoolShare(pool=0, share=0.5, weight=1.0), PoolShare(pool=1, share=0.5, weight=0.25))
    of = fleet(pools, [Interval(start=0, end=LONGEST + 1, prefill=first, decode=(PoolShare(pool=2, share=1.0),))])
    requests = table([0.0] * 100, [100] * 100, [5] * 100)
    counting = one_layer(Endpoints.SERVER, Rule.LEAST_LOADED, Counted.REQUESTS, by_speed=True)
    by_weight = replace(behaviour_of(RouterPolicy.LEAST_WORK), prefill=counting)
    for router, part in ((by_weight, 80), (behaviour_of(RouterPolicy.ROUND_ROBIN), 50)):
        log = run(of, requests, ReplaySettings(router=router)).log
        assert abs(Counter(log.prefill)[0] - part) <= 1


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
    return run(fleet(pools, [interval(pools)]), requests, ReplaySettings(router=behaviour_of(policy)))


def sent(policy: RouterPolicy, *, told: bool) -> list[int]:
    """Pools that 400 sessions of ten requests each were with; the first has three times the weight."""
    pools = [prefill_pool(base_ms=50), prefill_pool(base_ms=50, island="other"), decode_pool(batch=1000)]
    shares = (PoolShare(pool=0, share=0.75), PoolShare(pool=1, share=0.25))
    requests = table(list(np.arange(4000) * 20.0), [10] * 4000, [2] * 4000)
    requests.sessions = [request % 400 for request in range(4000)] if told else None
    there = replace(interval(pools), prefill=shares)
    return list(run(fleet(pools, [there]), requests, ReplaySettings(router=behaviour_of(policy))).log.prefill)


def test_a_session_stays_with_its_server_and_servers_have_them_by_weight() -> None:
    pools = sent(RouterPolicy.SESSION, told=True)
    assert pools == pools[:400] * 10
    assert pools.count(0) / 4000 == pytest.approx(0.75, abs=0.06)


def test_without_sessions_the_server_with_the_least_work_is_chosen() -> None:
    pools = sent(RouterPolicy.SESSION, told=False)
    assert pools == sent(RouterPolicy.LEAST_WORK, told=True)
    assert set(pools) == {0, 1}


def test_only_sessions_of_a_server_that_dies_are_moved() -> None:
    servers = [Ranked() for _ in range(3)]
    group = TakerGroup(behaviour_of(RouterPolicy.SESSION).prefill, [[(server, 1.0) for server in servers]], Random(0))
    before = [group.of_session(session) for session in range(300)]
    servers[0].alive = False
    group.refresh()
    after = [group.of_session(session) for session in range(300)]
    assert all(server is not servers[0] for server, _ in after)
    assert all(was == now for was, now in zip(before, after, strict=True) if was[0] is not servers[0])
    assert len({(id(server), rank) for server, rank in before}) == 6


def test_a_system_prompt_does_not_bring_all_prompts_to_one_server() -> None:
    """All prompts begin with the same of their five blocks: that is too little to follow."""
    ids = [block for request in range(2000) for block in (1, *range(10 * request + 10, 10 * request + 14))]
    pools = [prefill_pool(servers=2, ranks=1, cache_tokens=64 * 100, ms_per_token=0.05), decode_pool(batch=1000)]
    requests = RequestTable(
        (np.arange(2000) * 10.0).tolist(),
        [64 * 5] * 2000,
        [2] * 2000,
        LENGTHS,
        PromptBlocks(block_tokens=64, ids=ids, ends=list(range(5, 10_001, 5))),
    )
    engine = run(
        fleet(pools, [interval(pools)]), requests, ReplaySettings(router=behaviour_of(RouterPolicy.PREFIX_AWARE))
    )
    found = [hits > 0 for hits in engine.log.hits]
    assert found.count(False) == 2


def test_a_router_that_knows_prefixes_finds_more_of_them() -> None:
    aware, plain = (
        sum(shared_prefixes(policy).log.hits) / (64 * 9 * 3000)
        for policy in (RouterPolicy.PREFIX_AWARE, RouterPolicy.LEAST_WORK)
    )
    assert aware > plain + 0.2
