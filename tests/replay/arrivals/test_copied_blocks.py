"""Blocks of a stream: those of the trace's prompts, and nobody's prompts are found in another's."""

from itertools import pairwise

import numpy as np
import pytest
from arrival_traces import mooncake, trace_of, two_turns

from planner.domain import PromptBlocks, RequestTrace
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings
from planner.replay.arrivals import requests_of
from planner.replay.arrivals.parts import copied_blocks
from planner.workload import prefix_reuse

AS_IT_CAME = ArrivalSettings()
POISSON = ArrivalSettings(process=ArrivalProcess.POISSON)


def by_request(requests):
    return [list(requests.blocks.ids[start:end]) for start, end in pairwise([0, *requests.blocks.ends])]


def reuse(requests):
    """Share of the prompts' tokens that an unbounded cache finds."""
    trace = RequestTrace(
        name="stream",
        arrival_s=requests.arrival_ms,
        input_tokens=requests.prompt_tokens,
        output_tokens=requests.answer_tokens,
        blocks=requests.blocks,
    )
    return prefix_reuse(trace).mean_shares[-1]


@pytest.mark.parametrize("asked", [AS_IT_CAME, POISSON])
def test_one_pass_has_the_traces_blocks(asked) -> None:
    requests = requests_of(mooncake(), asked, count=1500, seed=0)
    assert list(requests.blocks.ids) == list(mooncake().blocks.ids)
    assert list(requests.blocks.ends) == list(mooncake().blocks.ends)
    assert requests.blocks.block_tokens == 512


@pytest.mark.parametrize("asked", [AS_IT_CAME, POISSON])
def test_the_next_pass_is_of_other_users(asked) -> None:
    requests = requests_of(two_turns(), asked, count=6, seed=0)
    assert list(requests.prompt_tokens) == [1000, 1500, 300] * 2
    assert by_request(requests) == [[0, 1], [0, 1, 2], [9], [10, 11], [10, 11, 12], [19]]


def test_copies_are_of_other_users_and_reuse_stays() -> None:
    single = requests_of(mooncake(), AS_IT_CAME, count=1500, seed=0)
    copies = requests_of(mooncake(), AS_IT_CAME, rate_rps=4 * single.rate_rps, count=6000, seed=1)
    prompts = dict(zip(map(tuple, by_request(single)), single.prompt_tokens, strict=True))
    largest = max(mooncake().blocks.ids) + 1
    users = set()
    for ids, tokens in zip(by_request(copies), copies.prompt_tokens, strict=True):
        user = ids[0] // largest
        users.add(user)
        assert prompts[tuple(i - user * largest for i in ids)] == tokens
    assert len(users) == 7  # four copies, three of them begun within the trace and gone on with from its start
    assert reuse(copies) == pytest.approx(reuse(single), abs=0.05)


def test_any_slice_is_that_of_the_list() -> None:
    requests = requests_of(mooncake(), AS_IT_CAME, rate_rps=20.0, count=300, seed=2)
    lazy = requests.blocks.ids
    ids = list(lazy)
    assert len(ids) == len(lazy) == requests.blocks.ends[-1]
    random = np.random.default_rng(0)
    for start, stop in random.integers(-len(ids) - 5, len(ids) + 5, (300, 2)).tolist():
        assert list(lazy[start:stop]) == ids[start:stop]
    assert list(lazy[::-7]) == ids[::-7]
    assert (lazy[-1], lazy[0]) == (ids[-1], ids[0])
    with pytest.raises(IndexError):
        lazy[len(ids)]


def test_ids_of_64_bits_are_numbered_anew_where_copies_would_meet() -> None:
    blocks = PromptBlocks(block_tokens=512, ids=[2**63 - 1, -(2**63), 2**63 - 1, 5], ends=[2, 4])
    copied = copied_blocks(blocks, np.array([0, 1, 0]), np.array([0, 0, 3]))
    assert list(copied.ids) == [2, 0, 2, 1, 11, 9]


def test_prompts_without_blocks_stay_so() -> None:
    blocks = PromptBlocks(block_tokens=512, ids=[7], ends=[0, 1, 1])
    requests = requests_of(trace_of([0.0, 1.0, 2.0], [3, 512, 4], blocks=blocks), AS_IT_CAME, count=5, seed=0)
    assert by_request(requests) == [[], [7], [], [], [15]]


def test_blocks_follow_requests_that_are_left_out_or_sorted() -> None:
    blocks = PromptBlocks(block_tokens=512, ids=[1, 2, 3], ends=[1, 2, 3])
    trace = trace_of([2.0, 0.0, 1.0], [10, 20, 900], blocks=blocks)
    requests = requests_of(trace, AS_IT_CAME, count=2, seed=0, most_tokens=100)
    assert (list(requests.prompt_tokens), by_request(requests)) == ([20, 10], [[2], [1]])
