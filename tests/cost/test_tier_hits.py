"""What prompts find in tiers below device memory, how long it is read, and that no link carries more than it can."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost import CostContext
from planner.cost.grid import Degrees, mean_prompts
from planner.cost.prefix_hits import hit_shares, tier_load_ms, tier_shares
from planner.cost.serving import Buckets, Levels, MixedServers, PrefillServers
from planner.cost.serving.cache_reads import CacheReads
from planner.domain import CachedPrefixes, CacheRate, CostSettings, ParallelConfig, Phase, PrefixReuse, SloSettings
from planner.domain.serving.caches.tiers import REMOTE, RemoteStore, TierSettings

LOAD = workload((128, 1024, 4096, 7000), (0.4, 0.3, 0.2, 0.1), mean_output_tokens=200, max_output_tokens=1000)
PROMPTS = mean_prompts(LOAD)
SIZES = tuple(2**k for k in range(14, 27))
SHAPES = [ParallelConfig(tp=1, dp=8), ParallelConfig(tp=8, dp=1), ParallelConfig(tp=2, dp=8)]
DEGREES = Degrees.of(SHAPES)
SHARES = tuple(0.6 * k / len(SIZES) for k in range(len(SIZES) + 1))
REUSE = PrefixReuse(block_tokens=512, cache_tokens=SIZES, starts=(64,), prompt_tokens=(1,), shares=(SHARES,))
HALF = TierSettings(host_gb_per_node=500)
FAST = RemoteStore(gb=1e5, gb_per_s_per_node=100, latency_ms=3)


def context(tiers: TierSettings | None, *, arrival_rps: float | None = None, blind: int = 0) -> CostContext:
    prefixes = CachedPrefixes(
        reuse=REUSE,
        mean_prompt=1500.0,
        arrival_rps=arrival_rps,
        gpus=(("H200", blind),) if blind else (),
        tiers=tiers,
        fleet_gpus=64,
        mean_answer=200.0,
    )
    cost = CostSettings(kv_cache_rate=CacheRate.AUTO, prefixes=prefixes)
    return CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=cost)


def by_name(there: CostContext) -> dict[str, np.ndarray]:
    return {tier.name: share for tier, share in tier_shares(there, PROMPTS, DEGREES, Phase.MIXED)}


def hits(tiers: TierSettings | None, phase: Phase = Phase.PREFILL, **how: float) -> np.ndarray:
    return np.asarray(hit_shares(context(tiers, **how), PROMPTS, DEGREES, phase))


def test_a_tier_holds_its_gigabytes_over_the_bytes_of_a_token() -> None:
    """By hand: 500 GB a node are 62.5 a GPU; a token of DeepSeek-V3 has 576 values in each of 61 layers."""
    spec = model("deepseek-v3")
    tokens = 62.5e9 / (61 * 576 * spec.kv_bytes)
    place = np.log2(tokens / SIZES[0])
    expected = SHARES[int(place)] + (place % 1) * (SHARES[1] - SHARES[0])
    found = by_name(context(HALF))
    assert found["host"][0] == pytest.approx([expected] * 4, rel=1e-3)
    assert hits(HALF, Phase.MIXED)[0] == pytest.approx([expected] * 4, rel=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 4000), st.floats(0, 30000), st.booleans(), st.floats(0.5, 50))
def test_more_room_finds_no_less_and_shares_add_up(host: float, ssd: float, blind: bool, rate: float) -> None:
    how = {"arrival_rps": rate, "blind": 64 * blind}
    tiers = TierSettings(host_gb_per_node=host, ssd_gb_per_node=ssd, ssd_gb_per_s_per_node=20)
    for phase in (Phase.PREFILL, Phase.MIXED):
        found = hits(tiers, phase, **how)
        larger = hits(replace(tiers, host_gb_per_node=2 * host + 1), phase, **how)
        assert (found <= larger + 1e-3).all()
        parts = [share for _, share in tier_shares(context(tiers, **how), PROMPTS, DEGREES, phase)]
        assert all((part >= 0).all() for part in parts)
        assert (sum(parts, np.zeros(found.shape)) <= found + 1e-12).all()
    assert (hits(None, **how) <= hits(tiers, **how) + 1e-3).all()


def test_a_store_that_servers_share_knows_no_ranks() -> None:
    store = TierSettings(remote=FAST)
    blind, aware = (by_name(context(store, blind=count)) for count in (64, 0))
    assert blind[REMOTE] == pytest.approx(aware[REMOTE])
    alone = hits(HALF, Phase.MIXED, blind=64)
    assert (alone < hits(HALF, Phase.MIXED)).all()  # 64 GPUs are at least 8 ranks


def test_reads_take_their_bytes_over_the_link() -> None:
    """Independent of how shares come about: bytes of what is read, over the GB/s of the tier."""
    there = context(replace(HALF, host_gb_per_s_per_gpu=10.0))
    (tier, share), *_ = tier_shares(there, PROMPTS, DEGREES, Phase.MIXED)
    read_ms, begins_ms = tier_load_ms(there, PROMPTS, DEGREES, Phase.MIXED)
    bytes_of_gpu = 61 * 576 * there.model.kv_bytes * PROMPTS  # every GPU of a group keeps the latents whole
    assert tier.gb_per_s_per_gpu == 10.0
    assert read_ms == pytest.approx(share * bytes_of_gpu / 10e9 * 1e3, rel=1e-2)
    assert not begins_ms.any()
    assert (tier_load_ms(context(TierSettings(remote=FAST)), PROMPTS, DEGREES, Phase.MIXED)[1] == 3).all()


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_reads_are_hidden_but_for_a_layer_and_what_a_slow_link_leaves(read: float, computing: float) -> None:
    reads = CacheReads(read_ms=np.array([read]), begins_ms=np.array([0.5]), link_ms=np.array([read]), layers=50)
    whole = 0.5 + reads.exposed_ms(np.array([computing]))[0] - 0.5 + computing
    pipeline = 0.5 + max(read / 50 + computing, read + computing / 50)
    # layer by layer: the last one is computed after all is read, the first one is read before any is computed
    assert whole == pytest.approx(pipeline, rel=0.021)
    assert whole >= 0.5 + max(read, computing)


@pytest.mark.parametrize("rate", [0.05, 0.5, 50.0])
def test_no_link_carries_more_than_it_can(rate: float) -> None:
    """Requests/s of a server times what each reads and writes of every GPU's link, in a second."""
    tiers = replace(HALF, host_gb_per_s_per_gpu=rate)
    there, buckets = context(tiers), Buckets.of(LOAD, [(0, 4)])
    levels = Levels.of(SloSettings(tpot_ms=500), LOAD)
    options = [(shape, 8192) for shape in SHAPES]
    mixed = MixedServers.of(there, options, buckets, 1000)
    _, full = mixed.full_rps(buckets, levels)
    prefill = PrefillServers.of(there, [(shape, 8192, False) for shape in SHAPES], buckets)
    capped = prefill.capped_rps(buckets, levels, prefill.full_rps(buckets)[0])
    for phase, rps in ((Phase.MIXED, full), (Phase.PREFILL, capped)):
        found = np.broadcast_to(hits(tiers, phase), (3, 4))
        reads = CacheReads.of(there, PROMPTS, DEGREES, found, phase)
        assert reads is not None
        busy = (rps[:, 0] / DEGREES.dp[:, 0]) * (reads.read_ms @ buckets.weights[0]) / 1e3
        assert (busy <= 1 + 1e-6).all()
        if rate == 0.05:
            unbound = replace(HALF, host_gb_per_s_per_gpu=1e6)
            free = MixedServers.of(context(unbound), options, buckets, 1000).full_rps(buckets, levels)[1]
            assert (full < free).all()
