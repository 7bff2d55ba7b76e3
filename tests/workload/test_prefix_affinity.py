"""How often blocks were used before, and by whom, against counts block by block."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain import PromptBlocks, RequestTrace
from planner.domain.workload import SessionTurns
from planner.workload.prefix_affinity import TIMES, WINDOWS, prefix_affinity, sessions_of

BLOCK = 4
PLACES = (8, 16, 32, 64, 128)


def trace_of(prompts: Sequence[Sequence[int]], sessions: Sequence[int] | None = None) -> RequestTrace:
    """Prompts of ids of blocks, the last of which is one token short."""
    return RequestTrace(
        name="t",
        arrival_s=[float(k) for k in range(len(prompts))],
        input_tokens=[len(ids) * BLOCK - 1 for ids in prompts],
        output_tokens=[1] * len(prompts),
        blocks=PromptBlocks(
            block_tokens=BLOCK,
            ids=[block for ids in prompts for block in ids],
            ends=np.cumsum([len(ids) for ids in prompts]).tolist(),
        ),
        sessions=None if sessions is None else SessionTurns(ids=sessions, pause_s=[0.0] * len(prompts)),
    )


# A path in a tree of two branches each: ids of blocks stand for all before them, too.
PATHS = st.lists(st.integers(0, 1), min_size=1, max_size=4)
CASES = st.lists(st.tuples(PATHS, st.integers(0, 3)), min_size=1, max_size=25)


@settings(deadline=None)
@given(CASES)
def test_rows_without_bounds_are_counts_of_earlier_uses(case: list[tuple[list[int], int]]) -> None:
    prompts = [[int("1" + "".join(map(str, path[: n + 1])), 2) for n in range(len(path))] for path, _ in case]
    sessions = [session for _, session in case]
    affinity = prefix_affinity(trace_of(prompts, sessions), PLACES)
    assert affinity is not None
    tokens = sum(len(ids) * BLOCK - 1 for ids in prompts)
    uses, others, own, loose = ([0] * len(TIMES) for _ in range(4))
    for number, ids in enumerate(prompts):
        known = [[k for k in range(number) if block in prompts[k]] for block in ids]
        matched = sum(map(bool, known))
        whole = min(matched * BLOCK, len(ids) * BLOCK - 2)
        for place, users in enumerate(known[:matched]):
            part = min((place + 1) * BLOCK, whole) - place * BLOCK
            mine = any(sessions[k] == sessions[number] for k in users)
            own[0] += part * mine
            for row, times in enumerate(TIMES):
                uses[row] += part * (len(users) >= times)
                others[row] += part * (not mine and len({sessions[k] for k in users}) >= times)
                loose[row] += part * (len(users) >= times and 2 * whole < len(ids) * BLOCK - 1)
    for rows, counts in (
        (affinity.uses, uses),
        (affinity.others, others),
        ([affinity.own], own),
        (affinity.loose, loose),
    ):
        assert [row[-1] for row in rows] == pytest.approx([count / tokens for count in counts[: len(rows)]], abs=2e-6)


@settings(deadline=None)
@given(CASES)
def test_longer_windows_have_no_fewer_uses(case: list[tuple[list[int], int]]) -> None:
    prompts = [[int("1" + "".join(map(str, path[: n + 1])), 2) for n in range(len(path))] for path, _ in case]
    affinity = prefix_affinity(trace_of(prompts, [session for _, session in case]), PLACES)
    assert affinity is not None
    for row in (*affinity.uses, affinity.own):
        assert list(row) == sorted(row)
    for more, fewer in zip(affinity.uses, affinity.uses[1:], strict=False):
        assert all(a >= b for a, b in zip(more, fewer, strict=True))
    assert all(a >= b - 1e-9 for a, b in zip(affinity.uses[0], affinity.loose[0], strict=True))
    own_or_other = [a + b for a, b in zip(affinity.own, affinity.others[0], strict=True)]
    assert own_or_other == pytest.approx(affinity.uses[0], abs=3e-6)


def test_a_window_ends_where_as_many_tokens_were_taken_in() -> None:
    """The prompt of one block comes again after one of five: 20 tokens lie between."""
    affinity = prefix_affinity(trace_of([[1], [2, 3, 4, 5, 6], [1]]), (20, 22, 40))
    assert affinity is not None
    assert affinity.uses[0] == pytest.approx((0, 2 / 25, 2 / 25, 2 / 25), abs=1e-6)


def test_prompts_of_equal_weight_are_as_many_as_there_are() -> None:
    affinity = prefix_affinity(trace_of([[1, 2], [3, 4], [5, 6], [7, 8]], [0, 0, 1, 1]), PLACES)
    assert affinity is not None
    assert (affinity.prompts.equal, affinity.sessions.equal, affinity.fresh.equal) == (4, 2, 2)
    assert affinity.prompts.skew == pytest.approx(4 * (1 / 4) ** 3 / (1 / 4) ** 1.5, abs=1e-4)
    assert affinity.families == (0.25,) * 4


def test_sessions_are_told_or_inferred_beyond_what_many_share() -> None:
    """Twelve sessions of two turns behind one system prompt of two blocks."""
    first = [[1, 2, 10 + n] for n in range(12)]
    second = [[1, 2, 10 + n, 100 + n] for n in range(12)]
    trace = trace_of([*first, *second])
    assert sessions_of(trace) == [*range(12), *range(12)]
    told = trace_of([*first, *second], [7] * 24)
    assert list(sessions_of(told)) == [7] * 24


def test_without_hashes_nothing_is_told() -> None:
    trace = trace_of([[1], [1]])
    assert prefix_affinity(replace(trace, blocks=None)) is None


def test_long_traces_are_counted_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of([[n % 40, 1000 + n % 40, 2000 + n] for n in range(4000)])
    every = prefix_affinity(trace, WINDOWS)
    monkeypatch.setattr("planner.workload.prefix_affinity._COUNTED", 3000)
    some = prefix_affinity(trace, WINDOWS)
    assert every is not None
    assert some is not None
    assert some != every
    assert some.uses[0] == pytest.approx(every.uses[0], abs=0.01)
