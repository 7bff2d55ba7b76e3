"""Hit shares of a prefix cache: a number, rows by length, and what a trace's prompts find in the cache of a rank."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost import CostContext, explain, pool_share, tabulate
from planner.cost.grid import Degrees, mean_prompts
from planner.cost.prefix_hits import cache_tokens, fresh_tokens, hit_shares, shape_hits
from planner.cost.serving import Buckets, Levels, PrefillServers
from planner.cost.step import Steps, step_ms
from planner.domain import (
    CachedPrefixes,
    CacheRate,
    CostMode,
    CostSettings,
    ParallelConfig,
    Phase,
    PrefixReuse,
    RangeHits,
    SloSettings,
)
from planner.errors import InputError

LOAD = workload((128, 1024, 4096, 7000), (0.4, 0.3, 0.2, 0.1), mean_output_tokens=200, max_output_tokens=1000)
PROMPTS = mean_prompts(LOAD)
SIZES = tuple(2**k for k in range(14, 27))
SHAPES = [ParallelConfig(tp=1, dp=8), ParallelConfig(tp=8, dp=1), ParallelConfig(tp=2, dp=8)]
DEGREES = Degrees.of(SHAPES)


def context(settings: CostSettings) -> CostContext:
    return CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=settings)


def reuse(
    *shares: tuple[float, ...], starts: tuple[int, ...] = (64, 2048), weights: tuple[int, ...] = (1, 3)
) -> PrefixReuse:
    return PrefixReuse(block_tokens=512, cache_tokens=SIZES, starts=starts, prompt_tokens=weights, shares=shares)


def rising(top: float, low: float = 0.0) -> tuple[float, ...]:
    return tuple(low + (top - low) * k / len(SIZES) for k in range(len(SIZES) + 1))


RISING = reuse(rising(0.3, 0.05), rising(0.6, 0.02))


def auto(found: PrefixReuse = RISING, arrival_rps: float | None = 5.0, h200s: int | None = None) -> CostSettings:
    return CostSettings(
        kv_cache_rate=CacheRate.AUTO,
        prefixes=CachedPrefixes(
            reuse=found,
            mean_prompt=1500.0,
            arrival_rps=arrival_rps,
            gpus=() if h200s is None else (("H200", h200s),),
        ),
    )


def rows(share: float) -> CostSettings:
    return CostSettings(kv_cache_rate=(RangeHits(share=share),))


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 0.95))
def test_one_row_for_all_prompts_is_a_number(share: float) -> None:
    number, by_rows = context(CostSettings(kv_cache_rate=share)), context(rows(share))
    assert hit_shares(number, PROMPTS, DEGREES) == share
    for priced in (number, by_rows):
        fresh = fresh_tokens(PROMPTS, hit_shares(priced, PROMPTS, DEGREES))
        assert np.array_equal(fresh, np.round(PROMPTS * (1 - share), 6))


def test_a_table_of_rows_and_of_one_number_are_the_same() -> None:
    first, second = (
        tabulate(gpu("H200"), 16, model=model("deepseek-v3"), workload=LOAD, settings=chosen)
        for chosen in (CostSettings(kv_cache_rate=0.3), rows(0.3))
    )
    assert first == second


def test_servers_of_rows_and_of_one_number_are_the_same() -> None:
    buckets = Buckets.of(LOAD, [(0, 4), (0, 2), (2, 4)])
    options = [(shape, budget, False) for shape in SHAPES for budget in (4096, 16384)]
    levels = Levels.of(SloSettings(ttft_ms=3000, tpot_ms=50, percentile=99), LOAD)
    first, second = (
        PrefillServers.of(context(s), options, buckets) for s in (CostSettings(kv_cache_rate=0.5), rows(0.5))
    )
    assert first.configs == second.configs
    together = first.full_rps(buckets)[0] * 6
    assert np.array_equal(first.capped_rps(buckets, levels, together), second.capped_rps(buckets, levels, together))


def test_servers_with_caches_of_their_own_are_what_each_is_alone() -> None:
    buckets = Buckets.of(LOAD, [(0, 4), (0, 2), (2, 4)])
    options = [(shape, budget, False) for shape in SHAPES for budget in (4096, 16384)]
    levels = Levels.of(SloSettings(ttft_ms=3000, tpot_ms=50, percentile=99), LOAD)
    there = context(auto())
    servers = PrefillServers.of(there, options, buckets)
    together = servers.full_rps(buckets)[0] * 6
    caps = servers.capped_rps(buckets, levels, together)
    assert servers.fresh.shape == (len(options), 4)
    for number, config in enumerate(servers.configs):
        option = (config.parallel, config.tokens_per_step, config.overlapped)
        alone = PrefillServers.of(there, [option], buckets)
        assert alone.configs[0] == config
        assert alone.full_rps(buckets)[0] == pytest.approx(servers.full_rps(buckets)[number])
        assert alone.capped_rps(buckets, levels, together)[0] == pytest.approx(caps[number])
        assert servers.among([number]).capped_rps(buckets, levels, together)[0] == pytest.approx(caps[number])


def test_the_last_row_counts_and_where_there_is_none_nothing_is_cached() -> None:
    given_rows = (RangeHits(start=1000, end=5000, share=0.2), RangeHits(start=4096, end=6000, share=0.7))
    hits = hit_shares(context(CostSettings(kv_cache_rate=given_rows)), [999, 1000, 4095, 4096, 5999, 6000], DEGREES)
    assert np.asarray(hits).tolist() == [0, 0.2, 0.2, 0.7, 0.7, 0]


@pytest.mark.parametrize("column", [0, 3, 12])
def test_shares_are_the_tables_at_its_sizes(column: int) -> None:
    """The trace's rate is made so that a rank keeps just so many tokens."""
    there, shape = context(auto(arrival_rps=None)), Degrees.of(SHAPES[:1])
    tokens = float(cache_tokens(there, 1024.0, shape)[0, 0])
    table = replace(RISING, cache_tokens=tuple(size * tokens / SIZES[column] for size in SIZES))
    hits = np.asarray(hit_shares(context(auto(table, arrival_rps=None)), [[128.0, 1024.0, 4096.0]], shape))
    expected = [RISING.shares[0][column], RISING.shares[0][column], RISING.shares[1][column]]
    assert hits[0] == pytest.approx(expected, rel=1e-9)


def test_a_rank_keeps_what_its_own_rate_leaves_it() -> None:
    """x is the rate of a rank that has the hits which its cache gives at this rate."""
    settings_of = auto(reuse(rising(0.6), rising(0.6)))
    there = context(settings_of)
    for shape in SHAPES:
        hits = float(np.asarray(shape_hits(there, 1500.0, shape)))
        degrees = Degrees.of([shape])
        # as the planner rounds: a rounding error would cost a second pass
        prompts = settings_of.max_tokens_per_step / round(1500 * (1 - hits), 6)
        steps = Steps(
            phase=Phase.PREFILL,
            tp=degrees.tp,
            dp=degrees.dp,
            pp=degrees.pp,
            length=np.array([[1500.0]]),
            batch=np.array([[prompts]]),
            cached=hits,
        )
        own_rps = pool_share(there) * prompts * 1000 / float(step_ms(there, steps)[0, 0])
        kept = float(cache_tokens(there, 1500.0, degrees)[0, 0]) * 5.0 / own_rps
        place = np.log2(kept / SIZES[0])
        assert hits == pytest.approx(0.6 / len(SIZES) * np.clip(place, 0, len(SIZES) - 1), abs=0.06 / len(SIZES))


@given(st.floats(0.01, 1000), st.floats(1.01, 50))
def test_a_faster_trace_and_more_memory_find_no_less(arrival_rps: float, factor: float) -> None:
    shares = [
        np.asarray(hit_shares(context(auto(arrival_rps=rate)), PROMPTS, DEGREES))
        for rate in (arrival_rps, arrival_rps * factor)
    ]
    assert (shares[0] <= shares[1] + 1e-3).all()
    large = replace(context(auto(arrival_rps=None)), gpu=replace(gpu("H200"), memory_gb=282, memory_mib=0))
    small = context(auto(arrival_rps=None))
    assert (np.asarray(hit_shares(small, PROMPTS, DEGREES)) <= np.asarray(hit_shares(large, PROMPTS, DEGREES))).all()


def test_by_least_work_a_prompt_comes_to_its_prefix_as_often_as_to_any_rank() -> None:
    aware, blind = (
        np.asarray(hit_shares(context(auto(arrival_rps=None, h200s=count)), PROMPTS, DEGREES)) for count in (None, 64)
    )
    least = np.array([[0.05, 0.05, 0.02, 0.02]])
    ranks = np.array([[64.0], [8.0], [32.0]])
    assert blind == pytest.approx(least + (aware - least) / ranks)
    other = replace(context(auto(arrival_rps=None, h200s=64)), gpu=replace(gpu("H200"), name="another"))
    assert np.asarray(hit_shares(other, PROMPTS, DEGREES)) == pytest.approx(aware)


def test_where_weights_do_not_fit_nothing_is_cached() -> None:
    hits = np.asarray(hit_shares(context(auto()), PROMPTS, Degrees.of([ParallelConfig(tp=1, dp=2)])))
    assert not hits.any()


def test_a_step_is_explained_with_the_hits_of_its_length() -> None:
    given_rows = (RangeHits(end=2000, share=0.2), RangeHits(start=2000, share=0.6))
    for length, share in ((1000, 0.2), (4000, 0.6)):
        by_rows, by_number = (
            explain("H200", "deepseek-v3", "prefill", tp=1, devices=16, length=length, settings=chosen)
            for chosen in (CostSettings(kv_cache_rate=given_rows), CostSettings(kv_cache_rate=share))
        )
        assert by_rows == by_number


@pytest.mark.parametrize("rate", [CacheRate.AUTO, (RangeHits(share=0.5),)])
def test_reference_mode_takes_numbers_alone(rate: CacheRate | tuple[RangeHits, ...]) -> None:
    chosen = CostSettings(mode=CostMode.REFERENCE, kv_cache_rate=rate)
    with pytest.raises(InputError, match=r"cost\.kv_cache_rate: must be a number in reference mode") as caught:
        tabulate(gpu("H200"), 16, model=model("deepseek-v3"), workload=LOAD, settings=chosen)
    assert caught.value.hint


def test_auto_without_a_trace_is_refused() -> None:
    with pytest.raises(InputError, match=r"cost\.kv_cache_rate: auto needs a workload") as caught:
        hit_shares(context(CostSettings(kv_cache_rate=CacheRate.AUTO)), PROMPTS, DEGREES)
    assert "hash_ids" in caught.value.hint
