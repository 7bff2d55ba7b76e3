"""Prefix caches of ranks against a naive one, and on Mooncake's trace against what the cost model says of one cache."""

from dataclasses import replace

import pytest
from fleets import LENGTHS, decode_pool, fleet, interval, prefill_pool, run
from hypothesis import given
from hypothesis import strategies as st
from reference_data import reference_path

from planner.files import read_trace
from planner.replay.requests import RequestTable
from planner.replay.stations.caches import PrefixCache
from planner.workload.prefix_reuse import prefix_reuse

BLOCK = 16


class NaiveCache:
    """A list of blocks, the last used ones last."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.blocks: list[int] = []

    def matched(self, blocks: list[int]) -> int:
        missing = [place for place, block in enumerate(blocks) if block not in self.blocks]
        return missing[0] if missing else len(blocks)

    def use(self, blocks: list[int]) -> None:
        self.blocks = [block for block in self.blocks if block not in blocks] + list(reversed(blocks))
        self.blocks = self.blocks[max(0, len(self.blocks) - self.places) :]


PROMPTS = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True), max_size=60)


@given(prompts=PROMPTS, places=st.integers(0, 14))
def test_against_a_naive_cache(prompts: list[list[int]], places: int) -> None:
    cache, naive = PrefixCache(places * BLOCK + BLOCK // 2), NaiveCache(places)
    for blocks in prompts:
        assert cache.matched(blocks) == naive.matched(blocks)
        cache.use(blocks, BLOCK)
        naive.use(blocks)


@pytest.mark.parametrize("cache_tokens", [2**18, 2**20, 2**23])
def test_mooncakes_trace_through_one_cache(cache_tokens: int) -> None:
    """What one cache finds of all tokens is what the workload's table of reuse says, which the cost model asks."""
    trace = read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms")
    assert trace.blocks is not None
    count = len(trace.input_tokens)
    requests = RequestTable(
        [1000 * moment for moment in trace.arrival_s], trace.input_tokens, [1] * count, LENGTHS, trace.blocks
    )
    pools = [prefill_pool(cache_tokens=cache_tokens, ms_per_token=1e-5, budget=10**6), decode_pool(batch=10**6)]
    log = run(fleet(pools, [interval(pools, end=10**7)]), requests).log
    reuse = prefix_reuse(trace, [cache_tokens])
    assert sum(log.hits) / sum(trace.input_tokens) == pytest.approx(reuse.mean_shares[0], abs=1e-5)
    assert reuse.mean_shares[0] > 0.01


def test_states_are_found_at_the_ends_of_their_blocks() -> None:
    """Where layers keep a state a hit is cut to whole blocks; what a cache finds is else the same."""
    trace = read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms")

    def hits(hit_tokens: int) -> list[int]:
        requests = RequestTable(
            [1000 * moment for moment in trace.arrival_s],
            trace.input_tokens,
            [1] * len(trace.input_tokens),
            LENGTHS,
            trace.blocks,
        )
        taking = replace(prefill_pool(cache_tokens=2**27, ms_per_token=1e-5, budget=10**6), hit_tokens=hit_tokens)
        pools = [taking, decode_pool(batch=10**6)]
        return list(run(fleet(pools, [interval(pools, end=10**7)]), requests).log.hits)

    plain = hits(1)
    assert hits(1056) == [found // 1056 * 1056 for found in plain]
    assert sum(hits(1056)) / sum(trace.input_tokens) == pytest.approx(0.231, abs=0.001)
