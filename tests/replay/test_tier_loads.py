"""Tiers below the caches of ranks: what is found where against one stack of blocks, and what loading it takes."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_fleets import Case, cases
from fleets import LENGTHS, decode_pool, fleet, mixed_pool, prefill_pool, run, table
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost import CostContext
from planner.cost.grid import Degrees
from planner.cost.prefix_hits import cache_tokens
from planner.domain import CachedPrefixes, CacheRate, CostSettings, ParallelConfig, Phase, RouterPolicy, behaviour_of
from planner.domain.arrivals import Failure, ReplaySettings
from planner.domain.fleet import PoolTier, ReplayFleet
from planner.domain.serving.caches.tiers import RemoteStore, TierSettings
from planner.domain.workload import LengthRange, PrefixReuse, PromptBlocks, Workload
from planner.evaluation.replay.curves import ServerCurves
from planner.files import load_gpu_spec, load_model
from planner.replay.engine import Engine
from planner.replay.requests import Events, RequestLog, RequestTable
from planner.replay.stations.caches import RankCaches, stores_of
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.serving import server_of

BLOCK = 16
CLOSE_MS = 1e-6
IN_TURN = ReplaySettings(router=behaviour_of(RouterPolicy.ROUND_ROBIN))


def tier(name: str, blocks: int, ms_per_token: float = 0.01, **changes: object) -> PoolTier:
    plain = PoolTier(name=name, tokens=blocks * BLOCK, ms_per_token=ms_per_token)
    return replace(plain, **changes)  # type: ignore[arg-type]


class OneStack:
    """All blocks ever used, the last ones first: a level of k blocks has the first k of them."""

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def use(self, prompt: list[int]) -> None:
        self.blocks = prompt + [block for block in self.blocks if block not in prompt]

    def depth(self, block: int) -> float:
        return self.blocks.index(block) if block in self.blocks else float("inf")


STREAM = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.integers(0, 15), min_size=1, max_size=6, unique=True)), max_size=60
)


@given(stream=STREAM, sizes=st.tuples(*[st.integers(0, 9)] * 3), store=st.integers(0, 16))
def test_levels_against_one_stack(stream: list[tuple[int, list[int]]], sizes: tuple[int, int, int], store: int) -> None:
    """Two ranks with caches, host memories and SSDs of their own and one store, against positions in stacks."""
    own, host, ssd = sizes
    tiers = (tier("host", host), tier("ssd", ssd), tier("remote", store, shared=True))
    pool = replace(prefill_pool(ranks=2, cache_tokens=own * BLOCK), tiers=tiers)
    stores = stores_of(fleet([pool, decode_pool()]))
    caches = [RankCaches(pool, stores) for _ in range(2)]
    stacks, common = [OneStack(), OneStack()], OneStack()
    for rank, prompt in stream:
        expected, of_own = [], 0
        for block in prompt:
            levels = [stacks[rank].depth(block) < size for size in sizes]
            levels.append(common.depth(block) < store)
            if not any(levels):
                break
            of_own += any(levels[:3]) and of_own == len(expected)
            expected.append(levels.index(True))
        assert caches[rank].levels_of(prompt) == expected
        assert caches[rank].matched(prompt) == of_own
        caches[rank].use(prompt, BLOCK)
        stacks[rank].use(prompt)
        common.use(prompt)


def test_a_server_that_dies_loses_its_own_tiers_and_not_the_store() -> None:
    pool = replace(prefill_pool(cache_tokens=BLOCK), tiers=(tier("host", 2), tier("remote", 9, shared=True)))
    stores = stores_of(fleet([pool, decode_pool()]))
    caches = RankCaches(pool, stores)
    caches.use([1, 2, 3, 4], BLOCK)
    assert caches.levels_of([1, 2, 3, 4]) == [0, 1, 2, 2]
    caches.clear()
    assert caches.levels_of([1, 2, 3, 4]) == [2] * 4
    assert caches.matched([1, 2, 3, 4]) == 0


def test_the_store_is_as_large_as_it_is_for_those_that_fit_the_least() -> None:
    pools = [
        replace(prefill_pool(), tiers=(tier("remote", 5, shared=True),)),
        replace(prefill_pool(), tiers=(tier("remote", 3, shared=True),)),
    ]
    store = stores_of(fleet([*pools, decode_pool()]))["remote"]
    store.use(list(range(9)), BLOCK)
    assert store.matched(range(9)) == 3


def two_prompts(of: ReplayFleet, second: int) -> Engine:
    """A prompt of 1,000 tokens, and `second` ms after it one of which it has the first half."""
    first, other = list(range(10)), [*range(5), *range(20, 25)]
    blocks = PromptBlocks(block_tokens=100, ids=[*first, *other], ends=[10, 20])
    return run(of, RequestTable([0.0, float(second)], [1000, 1000], [2, 2], LENGTHS, blocks))


def loading(ms_per_token: float, layers: int, *, latency_ms: float = 0.0, second: bool = False) -> ReplayFleet:
    """One rank that computes 0.1 ms a token, its host memory, and an SSD behind that."""
    host = PoolTier(name="host", tokens=0 if second else 10**6, ms_per_token=0.05 if second else ms_per_token)
    ssd = PoolTier(name="ssd", tokens=10**6, ms_per_token=ms_per_token)
    tiers = (host, replace(ssd, latency_ms=latency_ms)) if second else (replace(host, latency_ms=latency_ms),)
    pool = replace(prefill_pool(base_ms=0.0, ms_per_token=0.1, budget=2000), tiers=tiers, layers=layers)
    return fleet([pool, decode_pool()])


@pytest.mark.parametrize("ms_per_token", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("layers", [1, 10])
@pytest.mark.parametrize("latency_ms", [0.0, 3.0])
def test_a_load_is_overlapped_layer_by_layer(ms_per_token: float, layers: int, latency_ms: float) -> None:
    """A pipeline of two stages and n equal parts: the first part of both, and the longer one's rest."""
    log = two_prompts(loading(ms_per_token, layers, latency_ms=latency_ms), 1000).log
    load, compute = 500 * ms_per_token, 500 * 0.1
    done = loaded = 0.0
    for _ in range(layers):
        loaded += load / layers
        done = max(done, loaded) + compute / layers
    assert log.hits.tolist() == [0, 500]
    assert log.loads["host"].tolist() == [0, 500]
    assert log.prefilled[1] == pytest.approx(1000 + latency_ms + done)


def test_what_lies_on_a_disk_is_there_before_layers_overlap() -> None:
    """Only the way from host memory to the GPU goes by layers: 25 ms of it, behind 200 ms from the SSD."""
    log = two_prompts(loading(0.4, 10, second=True), 1000).log
    assert log.loads["ssd"].tolist() == [0, 500]
    assert log.started[1] == pytest.approx(1000 + 200 - 25 * 0.9)


def test_loads_begin_in_the_queue() -> None:
    """The prompt waits 90 ms for the one before it: a load of 50 ms is there by then, and costs nothing."""
    log = two_prompts(loading(0.1, 1), 10).log
    assert log.started[1] == pytest.approx(log.prefilled[0]) == pytest.approx(100.0)


def test_others_pass_a_prompt_that_loads_and_it_takes_its_place_again() -> None:
    """The second prompt loads for 250 ms: the third, of 200 ms, goes first; the second then goes before the fourth."""
    pool = replace(
        prefill_pool(base_ms=0.0, ms_per_token=0.1, budget=2000, cache_tokens=0),
        tiers=(PoolTier(name="host", tokens=10**6, ms_per_token=0.5),),
    )
    ids = [*range(10), *range(5), *range(20, 25), *range(100, 120), *range(200, 220)]
    blocks = PromptBlocks(block_tokens=100, ids=ids, ends=[10, 20, 40, 60])
    requests = RequestTable([0.0, 1000.0, 1150.0, 1200.0], [1000, 1000, 2000, 2000], [1] * 4, LENGTHS, blocks)
    log = run(fleet([pool, decode_pool()]), requests).log
    assert log.started.tolist() == pytest.approx([0.0, 1350.0, 1150.0, 1350.0])
    assert log.prefilled[1] < log.prefilled[3]


@pytest.mark.parametrize("mixed", [False, True])
def test_what_loads_is_waited_for_by_routers(mixed: bool) -> None:
    """A prompt of 400 fresh tokens loads for 500 ms; another one of its rank is taken in meanwhile."""
    plain = mixed_pool(ranks=2) if mixed else prefill_pool(ranks=2)
    pool = replace(plain, tiers=(PoolTier(name="host", tokens=10**6, ms_per_token=1.0),))
    of = fleet([pool] if mixed else [pool, decode_pool()])
    requests = table([0.0, 0.0], [900, 100], [2, 2])
    log, events = RequestLog(2, of.tiers), Events()
    server = server_of(of, 0, (requests, log, events), 500, lambda *_: None, lambda *_: None)
    assert not isinstance(server, DecodeServer)
    log.loads["host"][0] = 500
    server.add(0.0, 0, 0, 400.0)
    server.add(0.0, 1, 0, 100.0)
    events.until(300.0)
    assert np.isfinite(log.prefilled[1])
    assert server.emptiest_rank() == 1
    assert server.queue == 1
    assert server.work == pytest.approx(400 / server.speed)
    assert server.lose(300.0) == [0]


def test_who_begins_anew_has_loaded_nothing() -> None:
    log = RequestLog(1, ("host",))
    log.hits[0], log.loads["host"][0] = 500, 400
    log.begin_anew(0)
    assert (log.hits[0], log.loads["host"][0]) == (0, 0)


@st.composite
def with_tiers(draw: st.DrawFn) -> tuple[Case, RequestTable]:
    """A drawn fleet whose ranks have tiers, and prompts that begin alike."""
    case = draw(cases())
    layers, speeds = draw(st.sampled_from([1, 4])), st.sampled_from([0.001, 0.05, 1.0])
    tiers = (
        tier("host", draw(st.integers(0, 60)), draw(speeds)),
        tier(
            "remote", draw(st.integers(0, 200)), draw(speeds), latency_ms=draw(st.sampled_from([0, 7.0])), shared=True
        ),
    )
    own = draw(st.sampled_from([0, 20 * BLOCK]))
    pools = tuple(
        pool if pool.phase is Phase.DECODE else replace(pool, tiers=tiers, layers=layers, cache_tokens=own)
        for pool in case.fleet.pools
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    ids: list[int] = []
    ends: list[int] = []
    for tokens in case.prompt:
        shared, family = int(rng.integers(0, 38)), int(rng.integers(0, 3))
        count = -(-tokens // BLOCK)
        ids += [1000 * family + k if k < shared else 10_000 + len(ids) + k for k in range(count)]
        ends.append(len(ids))
    case = replace(case, fleet=replace(case.fleet, pools=pools))
    blocks = PromptBlocks(block_tokens=BLOCK, ids=ids, ends=ends)
    return case, RequestTable(case.arrival_ms, case.prompt, case.answer, LENGTHS, blocks)


@given(drawn=with_tiers(), policy=st.sampled_from(list(RouterPolicy)), fails=st.booleans())
@settings(max_examples=60)
def test_every_request_is_answered_and_work_is_what_was_not_found(
    drawn: tuple[Case, RequestTable], policy: RouterPolicy, fails: bool
) -> None:
    case, requests = drawn
    island = case.fleet.pools[0].island
    failure = Failure(island=island, at_s=0.4, servers=((island, 1),), back_after_s=0.1)
    engine = Engine(
        case.fleet, requests, ReplaySettings(router=behaviour_of(policy), failures=(failure,) if fails else ()), 0
    )
    engine.run()
    log = engine.log
    assert engine.finished == len(requests)
    assert np.isfinite(np.array(log.ended)).all()
    loaded = np.sum([*log.loads.values()], axis=0)
    assert (loaded <= np.array(log.hits)).all()
    assert (np.array(log.hits) < np.array(case.prompt)).all()
    for number, (pool, usages) in enumerate(zip(case.fleet.pools, engine.usages, strict=True)):
        if pool.phase is Phase.DECODE or fails or sum(usage.preempted for usage in usages):
            continue
        fresh = sum(case.prompt[k] - log.hits[k] for k, of in enumerate(log.prefill) if of == number)
        assert sum(usage.tokens for usage in usages) * pool.ranks == pytest.approx(fresh)


@given(drawn=with_tiers(), mixed=st.booleans())
@settings(max_examples=60)
def test_no_load_is_faster_than_its_link(drawn: tuple[Case, RequestTable], mixed: bool) -> None:
    """One rank: of the prompts that come and are taken in within any span of time, what is loaded takes no longer over
    the way of each tier, and all of it over the GPU's own link, than that span."""
    case, requests = drawn
    tiers, layers = case.fleet.pools[0].tiers, case.fleet.pools[0].layers
    plain = mixed_pool(batch=99, chunk_base_ms=0.0) if mixed else prefill_pool(base_ms=0.0)
    pool = replace(plain, tiers=tiers, layers=layers)
    engine = run(fleet([pool] if mixed else [pool, decode_pool()]), requests, IN_TURN)
    came = np.array(case.arrival_ms)
    taken = np.array(engine.log.started if layers == 1 else engine.log.prefilled)
    loads = {of.name: np.array(engine.log.loads[of.name]) for of in tiers}
    over = {of.name: loads[of.name] * of.ms_per_token for of in tiers}
    over["link"] = sum(loads.values()) * tiers[0].ms_per_token
    assert (taken >= came + np.max([of.latency_ms * (loads[of.name] > 0) for of in tiers], axis=0) - CLOSE_MS).all()
    for length_ms in over.values():
        for since in came[::5]:
            late = taken[came >= since]
            order = np.argsort(late, kind="stable")
            spent = np.cumsum(length_ms[came >= since][order])
            assert (spent <= late[order] - since + CLOSE_MS).all()


def test_tiers_of_a_real_rank() -> None:
    """A rank of four H100 holds and reads its host's share by 320 KiB a token (Llama 3.1 70B: 80 layers of 8 heads of
    128, keys and values of two bytes each), a quarter of them on each GPU; a store is whole, once."""
    settings_of = CostSettings(
        kv_cache_rate=CacheRate.AUTO,
        prefixes=CachedPrefixes(
            reuse=PrefixReuse(
                block_tokens=512, cache_tokens=(1024,), starts=(0,), prompt_tokens=(100,), shares=((0.1, 0.4),)
            ),
            mean_prompt=1500.0,
            arrival_rps=1.0,
            tiers=TierSettings(
                host_gb_per_node=800,
                host_gb_per_s_per_gpu=50,
                ssd_gb_per_node=8000,
                ssd_gb_per_s_per_node=16,
                remote=RemoteStore(gb=3200, gb_per_s_per_node=8),
            ),
            fleet_gpus=64,
        ),
    )
    context = CostContext(gpu=load_gpu_spec("H100"), model=load_model("llama-3.1-70b"), settings=settings_of)
    span = LengthRange(
        start=0, end=2000, midpoint=1000, probability=1.0, mean_input_tokens=1500.0, longest_input_tokens=2000
    )
    workload = Workload(
        name="one", ranges=(span,), mean_input_tokens=1500.0, mean_output_tokens=300.0, max_output_tokens=300
    )
    shape = ParallelConfig(tp=4, dp=1)
    curves = ServerCurves(context=context, shape=shape, overlapped=False, workload=workload, replay_prefixes=True)
    of_gpu = 80 * 8 * 128 * 2 * 2 / 4 / 1e9  # GB a token
    host, ssd, remote = curves.pool(Phase.PREFILL, 8192, 0).tiers
    assert [of.name for of in (host, ssd, remote)] == ["host", "ssd", "remote"]
    assert host.tokens == pytest.approx(100 / of_gpu, rel=0.02)
    assert ssd.tokens == pytest.approx(1000 / of_gpu, rel=0.02)
    assert remote.tokens == pytest.approx(3200 / (4 * of_gpu), rel=0.02)
    assert [of.ms_per_token for of in (host, ssd, remote)] == pytest.approx(
        [of_gpu / 50 * 1000, of_gpu / 2 * 1000, of_gpu / 1 * 1000], rel=0.02
    )
    assert (ssd.latency_ms, remote.shared) == (0.1, True)
    degrees = Degrees.of([shape])
    assert curves.pool(Phase.PREFILL, 8192, 0).cache_tokens == pytest.approx(
        float(cache_tokens(context, 1500.0, degrees).max()), rel=0.3
    )
    mixed = curves.pool(Phase.MIXED, 8192, 64)
    assert (mixed.cache_tokens, mixed.tiers, mixed.layers) == (0, (host, ssd, remote), 80)
    plain = replace(curves, context=replace(context, settings=replace(settings_of, kv_cache_rate=0.3)))
    assert plain.pool(Phase.PREFILL, 8192, 0).tiers == ()
