"""Sessions drawn from marginals: they meet what was told, and prompts share what was said before."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from planner.domain import RequestTrace
from planner.errors import InputError
from planner.workload import prefix_reuse
from planner.workload.sessions import SessionMarginals, Spread, SystemPrompts, draw_sessions

PLAIN = SessionMarginals(
    name="drawn",
    sessions_per_s=0.5,
    span_s=6000.0,
    mean_turns=5.0,
    first_message=Spread(mean=300.0, cv=1.0),
    message=Spread(mean=200.0, cv=1.5),
    answer=Spread(mean=100.0, cv=0.8),
    pause=Spread(mean=4.0, cv=1.0),
    tool_pause=Spread(mean=1.0, cv=2.0),
    tool_share=0.75,
    system=SystemPrompts(tokens=1000, distinct=4, zipf=1.0),
    answer_s_per_token=0.01,
    most_tokens=10_000_000,
    block_tokens=16,
    seed=3,
)


@pytest.fixture(scope="module")
def trace() -> RequestTrace:
    return draw_sessions(PLAIN)


def turns_of(trace: RequestTrace) -> dict[int, list[int]]:
    rows: defaultdict[int, list[int]] = defaultdict(list)
    for row, session in enumerate(trace.sessions.ids):
        rows[session].append(row)
    return rows


def whole_sessions(trace: RequestTrace) -> list[list[int]]:
    """Of sessions in the middle, of which no turn is outside."""
    middle = [rows for rows in turns_of(trace).values() if 1500 < trace.arrival_s[rows[0]] < 4500]
    assert len(middle) > 1000
    return middle


def test_turns_prompts_and_answers_have_the_means_that_were_told(trace: RequestTrace) -> None:
    sessions = whole_sessions(trace)
    assert len(sessions) == pytest.approx(0.5 * 3000, rel=4 / math.sqrt(1500))
    turns = [len(rows) for rows in sessions]
    # a geometric distribution from 1 on: mean m, variance m (m - 1), none at all in a share of 1 / m
    assert np.mean(turns) == pytest.approx(5, abs=4 * math.sqrt(20 / len(turns)))
    assert turns.count(1) / len(turns) == pytest.approx(1 / 5, abs=0.04)
    prompts, answers = np.array(trace.input_tokens), np.array(trace.output_tokens)
    first = [prompts[rows[0]] for rows in sessions]
    assert np.mean(first) == pytest.approx(1000 + 300, abs=4 * 300 / math.sqrt(len(first)))
    growth = [prompts[b] - prompts[a] for rows in sessions for a, b in pairwise(rows)]
    deviation = math.hypot(1.5 * 200, 0.8 * 100)
    assert np.mean(growth) == pytest.approx(200 + 100, abs=4 * deviation / math.sqrt(len(growth)))
    assert np.std(answers) / answers.mean() == pytest.approx(0.8, abs=0.05)
    assert answers.mean() == pytest.approx(100, rel=0.02)


def test_prompts_hold_what_was_said_before(trace: RequestTrace) -> None:
    for rows in turns_of(trace).values():
        for before, row in pairwise(rows):
            assert trace.input_tokens[row] > trace.input_tokens[before] + trace.output_tokens[before]


def test_pauses_begin_where_answers_end(trace: RequestTrace) -> None:
    pauses = []
    for rows in turns_of(trace).values():
        assert trace.sessions.pause_s[rows[0]] == 0
        for before, row in pairwise(rows):
            pause = trace.arrival_s[row] - trace.arrival_s[before] - 0.01 * trace.output_tokens[before]
            assert trace.sessions.pause_s[row] == pytest.approx(pause, abs=1e-6)
            pauses.append(pause)
    variance = 0.25 * (16 + 16) + 0.75 * (1 + 4) - 1.75**2  # of a mixture: mean squares less the square of the mean
    mean = 0.25 * 4 + 0.75 * 1
    assert np.mean(pauses) == pytest.approx(mean, abs=4 * math.sqrt(variance / len(pauses)))


def test_it_is_as_busy_at_its_beginning_as_at_its_end(trace: RequestTrace) -> None:
    counts, _ = np.histogram(trace.arrival_s, bins=4, range=(0, 6000))
    assert counts.sum() / 6000 == pytest.approx(0.5 * 5, rel=0.08)
    # sessions of 5 turns: sums of geometric numbers vary 3 times as sums of single requests
    assert counts == pytest.approx(counts.mean(), abs=4 * math.sqrt(9 * counts.mean()))
    assert trace.arrival_s[0] == 0


def test_sessions_longer_than_the_trace_were_there_before_it() -> None:
    drawn = draw_sessions(replace(PLAIN, span_s=2000.0, tool_share=0.0, pause=Spread(mean=600.0)))
    counts, _ = np.histogram(drawn.arrival_s, bins=4, range=(0, 2000))
    assert counts / 500 == pytest.approx(0.5 * 5, rel=0.15)


def test_system_prompts_come_as_often_as_zipf_says(trace: RequestTrace) -> None:
    starts = [trace.blocks.ends[rows[0]] - trace.input_tokens[rows[0]] // 16 for rows in turns_of(trace).values()]
    seen = Counter(trace.blocks.ids[start] for start in starts)
    shares = np.array(sorted(seen.values(), reverse=True)) / len(starts)
    expected = np.array([1, 1 / 2, 1 / 3, 1 / 4]) / (25 / 12)
    assert shares == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(len(starts)))


def test_blocks_are_those_of_the_texts_that_were_said() -> None:
    """Against texts of single tokens: a block's id stands for its tokens and all before them."""
    drawn = draw_sessions(replace(PLAIN, span_s=60.0, system=SystemPrompts(tokens=90, distinct=2, zipf=0.5)))
    texts: dict[int, tuple[int, ...]] = {}
    start = 0
    for session, prompt, end in zip(drawn.sessions.ids, drawn.input_tokens, drawn.blocks.ends, strict=True):
        ids, start = list(drawn.blocks.ids[start:end]), end
        assert len(ids) == prompt // 16
        for place, block in enumerate(ids):
            # of the system prompt: the same for all that begin alike; else what this session said
            whose = (-1, ids[0]) if 16 * (place + 1) <= 90 else (session, ids[0])
            assert texts.setdefault(block, (*whose, place)) == (*whose, place)
    assert len(set(texts.values())) == len(texts)


def test_what_a_cache_without_bounds_finds_follows_from_the_turns() -> None:
    """Every turn but a session's first finds all whole blocks of the prompt before; a first one its system prompt."""
    marginals = replace(PLAIN, first_message=Spread(mean=300.0), message=Spread(mean=200.0), answer=Spread(mean=100.0))
    drawn = draw_sessions(replace(marginals, span_s=20_000.0, sessions_per_s=0.2, block_tokens=100))
    # the mean of j - 1 over all turns is E N (N - 1) / 2 over E N: m - 1; a turn has 300 tokens that nobody said before
    mean_prompt = 1000 + 300 + 4 * 300
    assert np.mean(drawn.input_tokens) == pytest.approx(mean_prompt, rel=0.04)
    assert prefix_reuse(drawn).mean_shares[-1] == pytest.approx(1 - 300 / mean_prompt, abs=0.006)


def test_sessions_end_before_the_context_is_full() -> None:
    drawn = draw_sessions(replace(PLAIN, most_tokens=2500))
    assert max(np.add(drawn.input_tokens, drawn.output_tokens)) <= 2500
    assert np.mean([len(rows) for rows in turns_of(drawn).values()]) < 4


def test_all_sessions_may_have_as_many_turns() -> None:
    drawn = draw_sessions(replace(PLAIN, is_geometric=False))
    assert {len(rows) for rows in whole_sessions(drawn)} == {5}


def test_the_seed_decides(trace: RequestTrace) -> None:
    assert draw_sessions(PLAIN) == trace
    assert draw_sessions(replace(PLAIN, seed=4)) != trace


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"span_s": 0.001, "sessions_per_s": 1e-6}, "at least one turn"),
        ({"most_tokens": 1001}, "at least one turn"),
        ({"sessions_per_s": 1e5}, "at most 5,000,000 turns"),
        ({"block_tokens": 1, "sessions_per_s": 20.0}, "100,000,000 blocks"),
    ],
)
def test_too_little_and_too_much_are_refused(changed: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        draw_sessions(replace(PLAIN, **changed))
