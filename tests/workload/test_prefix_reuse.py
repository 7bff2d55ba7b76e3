"""What a prefix cache finds of a trace, against caches that are replayed one by one."""

import random
from collections import OrderedDict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import reference_path

from planner.domain import PrefixReuse, PromptBlocks, RequestTrace
from planner.files import load_workload, read_trace
from planner.workload import describe, prefix_reuse, summarize
from planner.workload.prefix_reuse import CACHE_TOKENS, TIMEOUTS_S, reuse_curves

BLOCK = 4
SIZES = (4, 8, 12, 16, 24, 40, 64)


def trace_of(
    prompts: Sequence[tuple[Sequence[int], int]], block_tokens: int = BLOCK, gap_s: float = 1.0
) -> RequestTrace:
    """Requests of ids of blocks, and the tokens of the last block; one each `gap_s`."""
    ids, ends = [block for blocks, _ in prompts for block in blocks], []
    for blocks, _ in prompts:
        ends.append((ends[-1] if ends else 0) + len(blocks))
    return RequestTrace(
        name="t",
        arrival_s=[k * gap_s for k in range(len(prompts))],
        input_tokens=[(len(blocks) - 1) * block_tokens + last for blocks, last in prompts],
        output_tokens=[1] * len(prompts),
        blocks=PromptBlocks(block_tokens=block_tokens, ids=ids, ends=ends),
    )


def replayed(trace: RequestTrace, cache_tokens: float, caches: int = 1, seed: int = 0) -> dict[int, float]:
    """Hit share by power of two of the prompt, found by caches that keep the last blocks used, prompts dealt out."""
    blocks, dealt = trace.blocks, random.Random(seed)
    kept: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(caches)]
    tokens: dict[int, int] = {}
    hits: dict[int, int] = {}
    start = 0
    for prompt, end in zip(trace.input_tokens, blocks.ends, strict=True):
        cache, mine, start = kept[dealt.randrange(caches)], list(blocks.ids[start:end]), end
        matched = 0
        while matched < len(mine) and mine[matched] in cache:
            matched += 1
        row = prompt.bit_length() - 1
        tokens[row] = tokens.get(row, 0) + prompt
        hits[row] = hits.get(row, 0) + min(matched * blocks.block_tokens, prompt - 1)
        for block in reversed(mine):
            cache.pop(block, None)
            cache[block] = None
        while len(cache) * blocks.block_tokens > cache_tokens:
            cache.popitem(last=False)
    return {2**row: hits[row] / tokens[row] for row in sorted(tokens)}


def reuse_of(trace: RequestTrace, sizes: Sequence[int] = SIZES) -> PrefixReuse:
    reuse = prefix_reuse(trace, sizes)
    assert reuse is not None
    return reuse


prompts = st.lists(
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, BLOCK)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(prompts)
def test_the_table_is_what_a_cache_of_each_size_finds(rows: list[tuple[list[int], int]]) -> None:
    trace = trace_of(rows)
    reuse = reuse_of(trace)
    for column, size in enumerate((*SIZES, float("inf"))):
        truth = replayed(trace, size)
        assert list(truth) == list(reuse.starts)
        assert [shares[column] for shares in reuse.shares] == pytest.approx(list(truth.values()), abs=1.1e-6)


@settings(deadline=None)
@given(prompts)
def test_a_larger_cache_finds_no_less_and_never_a_whole_prompt(rows: list[tuple[list[int], int]]) -> None:
    for shares in (*reuse_of(trace_of(rows)).shares, reuse_of(trace_of(rows)).mean_shares):
        assert list(shares) == sorted(shares)
        assert shares[0] >= 0
        assert shares[-1] < 1


def test_only_a_leading_run_of_blocks_is_found() -> None:
    reuse = reuse_of(trace_of([([1, 2, 3, 4], 4), ([9, 2, 3, 4], 4), ([1, 2, 8, 4], 4)]))
    assert reuse.starts == (16,)
    assert reuse.prompt_tokens == (48,)
    assert reuse.shares[0][-1] == pytest.approx(8 / 48, abs=1e-6)


def test_the_end_of_a_prompt_goes_before_its_beginning() -> None:
    trace = trace_of([([1, 2, 3, 4], 4), ([1, 2, 3, 4], 4)])
    shares = reuse_of(trace, (8, 12, 16)).shares[0]
    assert shares == pytest.approx((8 / 32, 12 / 32, 15 / 32, 15 / 32), abs=1e-6)


def test_nothing_is_forgotten_without_bounds() -> None:
    """A prompt that comes again behind 50,000 others' blocks."""
    others = [([100 + 10 * k + place for place in range(10)], 4) for k in range(5000)]
    shares = reuse_of(trace_of([([1, 2, 3, 4], 4), *others, ([1, 2, 3, 4], 4)]), (4 * 50_000, 4 * 50_004)).shares
    assert shares[0] == pytest.approx((0, 15 / 32, 15 / 32), abs=1e-6)


def left_in_time(trace: RequestTrace, timeout_s: float) -> float:
    """Hit share of a cache that drops blocks after so long unused, replayed prompt by prompt."""
    last_used: dict[int, float] = {}
    found = start = 0
    for arrival, prompt, end in zip(trace.arrival_s, trace.input_tokens, trace.blocks.ends, strict=True):
        mine, start = list(trace.blocks.ids[start:end]), end
        matched = 0
        while matched < len(mine) and arrival - last_used.get(mine[matched], float("-inf")) <= timeout_s:
            matched += 1
        found += min(matched * trace.blocks.block_tokens, prompt - 1)
        last_used |= dict.fromkeys(mine, arrival)
    return found / sum(trace.input_tokens)


@settings(deadline=None)
@given(prompts, st.sampled_from([0.1, 4.0, 10.0, 25.0, 150.0]))
def test_timeouts_find_what_caches_find_that_drop_blocks_unused(
    rows: list[tuple[list[int], int]], gap_s: float
) -> None:
    trace = trace_of(rows, gap_s=gap_s)
    timed = reuse_curves(trace)[1]
    if len(rows) == 1:
        assert timed is None
        return
    assert timed.timeouts_s == TIMEOUTS_S
    assert timed.shares == pytest.approx([left_in_time(trace, timeout) for timeout in TIMEOUTS_S], abs=1.1e-6)


def test_published_counts_of_mooncakes_hour_stand_in_its_table() -> None:
    """The shipped table, which the full trace gives to the digit: 5.6, 18.5 and 34.2 (34.15) % at 2^20, 2^22 and 2^24
    tokens, 37.4 % without bounds."""
    prefix = load_workload("mooncake-conversation").prefix
    shares = dict(zip((*prefix.cache_tokens, None), prefix.mean_shares, strict=True))
    found = [100 * shares[size] for size in (2**20, 2**22, 2**24, None)]
    assert found == pytest.approx([5.6, 18.5, 34.15, 37.4], abs=0.05)


def test_asked_sizes_are_told_beside_the_usual_ones_and_leave_the_workload_alone() -> None:
    trace = trace_of([([1, 2, 3, 4], 4), ([5, 6], 4), ([1, 2, 3, 4], 4)])
    summary = describe(trace, (20, 24))
    assert summary.asked_tokens == (20, 24)
    shares = dict(zip(summary.prefix.cache_tokens, summary.prefix.mean_shares, strict=False))
    assert (shares[20], shares[24]) == pytest.approx((12 / 40, 15 / 40), abs=1e-6)
    assert summarize(trace).prefix.cache_tokens == CACHE_TOKENS


def test_a_trace_without_ids_tells_nothing() -> None:
    trace = RequestTrace(name="t", arrival_s=[0, 1], input_tokens=[5, 5], output_tokens=[1, 1])
    assert prefix_reuse(trace) is None
    assert summarize(trace).prefix is None


def test_mooncakes_requests_find_what_replayed_caches_find() -> None:
    """The full hour: 37.4 % without bounds, 4.3, 9.0 and 34.2 % at 16 thousand, 2.1 and 16.8 million tokens."""
    trace = read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms")
    reuse = summarize(trace).prefix
    assert reuse.cache_tokens == CACHE_TOKENS
    assert sum(reuse.prompt_tokens) == sum(trace.input_tokens)
    for column in (0, 6, 8, 13):
        truth = replayed(trace, (*CACHE_TOKENS, float("inf"))[column])
        assert [shares[column] for shares in reuse.shares] == pytest.approx(list(truth.values()), abs=1.1e-6)


@pytest.mark.parametrize(("caches", "cache_tokens"), [(2, 524_288), (4, 262_144), (4, 1_048_576), (8, 524_288)])
def test_prompts_dealt_at_random_find_a_part_of_what_one_cache_finds(caches: int, cache_tokens: int) -> None:
    """H0 + (H(n C) - H0) / n, as `cost.prefix_hits` has it."""
    trace = read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms")
    reuse = summarize(trace).prefix
    mean = dict(zip(reuse.cache_tokens, reuse.mean_shares, strict=False))
    dealt = replayed(trace, cache_tokens, caches)
    weights = dict(zip(reuse.starts, reuse.prompt_tokens, strict=True))
    measured = sum(weights[start] * share for start, share in dealt.items()) / sum(weights.values())
    least = reuse.mean_shares[0]
    said = least + (mean[caches * cache_tokens] - least) / caches
    assert said == pytest.approx(measured, abs=0.015)
