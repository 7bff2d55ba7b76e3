"""What prompts of a length find is uneven: waits follow the mean square of what is left to compute."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload

from planner.cost import CostContext
from planner.cost.grid import mean_prompts
from planner.cost.prefix_hits import uneven
from planner.cost.serving import Buckets, Levels, MixedServers, PrefillServers
from planner.domain import (
    CachedPrefixes,
    CacheRate,
    CostSettings,
    ParallelConfig,
    PrefixReuse,
    PromptBlocks,
    SloSettings,
)
from planner.domain.serving.caches.tiers import TierSettings
from planner.domain.workload import RequestTrace
from planner.workload import prefix_reuse

LOAD = workload((1024, 4096, 7000), (0.5, 0.3, 0.2), mean_output_tokens=200, max_output_tokens=1000)
PROMPTS = mean_prompts(LOAD)
SHAPE = ParallelConfig(tp=8, dp=1)
LEVELS = Levels.of(SloSettings(ttft_ms=3000, tpot_ms=80, percentile=95), LOAD)


def context(*unevenness: float) -> CostContext:
    reuse = PrefixReuse(
        block_tokens=512,
        cache_tokens=(2**14, 2**26),
        starts=(64,),
        prompt_tokens=(1,),
        shares=((0.2, 0.8, 0.9),),
        unevenness=(unevenness,) if unevenness else (),
    )
    prefixes = CachedPrefixes(
        reuse=reuse, mean_prompt=3000.0, arrival_rps=None, tiers=TierSettings(host_gb_per_node=900), fleet_gpus=8
    )
    cost = CostSettings(kv_cache_rate=CacheRate.AUTO, prefixes=prefixes)
    return CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=cost)


def test_half_found_whole_and_half_not_at_all_by_hand() -> None:
    """Prompts of two blocks, every second one told before: shares not found are 1/1024 and 1, a mean square of 1/2."""
    ids = [n for pair in range(50) for n in (2 * pair, 2 * pair + 1, 2 * pair, 2 * pair + 1)]
    trace = RequestTrace(
        name="pairs",
        arrival_s=[float(n) for n in range(100)],
        input_tokens=[1024] * 100,
        output_tokens=[1] * 100,
        blocks=PromptBlocks(block_tokens=512, ids=ids, ends=[2 * n for n in range(1, 101)]),
    )
    reuse = prefix_reuse(trace)
    assert reuse is not None
    least, most = 1 / 1024, 1.0
    ratio = (least**2 + most**2) / 2 / ((least + most) / 2) ** 2
    assert reuse.unevenness[0][-1] == pytest.approx(ratio, abs=1e-3)
    assert reuse.unevenness[0][-1] >= ratio


def test_ratios_lie_between_those_of_the_table() -> None:
    hits = np.array([[0.1, 0.2, 0.5, 0.8, 0.95]])
    assert uneven(context(1.0, 4.0, 9.0), np.full((1, 5), 1024.0), hits)[0] == pytest.approx([1, 1, 2.5, 4, 9])
    assert uneven(context(), np.full((1, 5), 1024.0), hits) == 1


def test_uneven_prompts_wait_longer_and_mean_work_stays() -> None:
    """At equal means the rate within a bound on TTFT falls with the unevenness; the full rate does not."""
    buckets = Buckets.of(LOAD, [(0, 3)])
    capped, full, both = [], [], []
    for ratio in (1.0, 3.0, 9.0):
        there = context(ratio, ratio, ratio)
        servers = PrefillServers.of(there, [(SHAPE, 8192, False)], buckets)
        full.append(servers.full_rps(buckets)[0, 0])
        capped.append(servers.capped_rps(buckets, LEVELS, servers.full_rps(buckets)[0])[0, 0])
        mixed = MixedServers.of(there, [(SHAPE, 4096)], buckets, 1000)
        both.append(mixed.capped_rps(buckets, LEVELS, np.array([5.0]))[1][0, 0])
    assert full[0] == full[1] == full[2]
    assert capped[0] > capped[1] > capped[2] > 0
    assert both[0] > both[1] > both[2] > 0
    without = PrefillServers.of(context(), [(SHAPE, 8192, False)], buckets)
    assert without.capped_rps(buckets, LEVELS, without.full_rps(buckets)[0])[0, 0] == capped[0]


def test_a_number_is_even() -> None:
    there = context(4.0, 4.0, 4.0)
    number = replace(there, settings=replace(there.settings, kv_cache_rate=0.5))
    assert uneven(number, PROMPTS, 0.5) == 1
