"""Closed sessions: a turn comes its pause after the answer before it; what is told of first turns and later ones."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_fleets import Case, cases
from fleets import LENGTHS, decode_pool, fleet, prefill_pool
from hypothesis import given, settings
from hypothesis import strategies as st
from small_plans import small_plan, small_trace

from planner.domain import RequestTrace, RouterPolicy, SloSettings, behaviour_of
from planner.domain.arrivals import (
    ArrivalProcess,
    ArrivalSettings,
    Failure,
    ReplaySettings,
    SessionPace,
    StreamTurns,
)
from planner.domain.fleet import PoolTier
from planner.domain.replay import ReplayResult
from planner.domain.workload import PromptBlocks, SessionTurns
from planner.errors import InputError
from planner.evaluation.replay.replaying import served_part
from planner.pipeline import replay
from planner.replay import Promise, judge
from planner.replay.arrivals import requests_of
from planner.replay.engine import Engine
from planner.replay.requests import RequestTable
from planner.replay.simulate import played
from planner.replay.stations.serving import PlayedRun
from planner.report import page_text, replay_document, replay_frame, replay_page
from planner.runs.replays.replay_settings import arrival_settings
from planner.units import MS_PER_S

CLOSED = ArrivalSettings(process=ArrivalProcess.TRACE, sessions=SessionPace.CLOSED)
OPEN = ArrivalSettings(process=ArrivalProcess.TRACE)
CLOSE_MS = 1e-6


def turns_in(sessions: list[int]) -> list[tuple[int, int]]:
    """Pairs of requests that follow each other in a session."""
    return [
        (before, next(k for k in range(before + 1, len(sessions)) if sessions[k] == sessions[before]))
        for before in range(len(sessions))
        if sessions[before] in sessions[before + 1 :]
    ]


@given(
    case=cases(),
    policy=st.sampled_from(list(RouterPolicy)),
    count=st.integers(1, 30),
    seed=st.integers(0, 999),
    fails=st.booleans(),
)
@settings(max_examples=60)
def test_a_turn_comes_its_pause_after_the_answer_before(
    case: Case, policy: RouterPolicy, count: int, seed: int, fails: bool
) -> None:
    rng, many = np.random.default_rng(seed), len(case.prompt)
    sessions = rng.integers(0, count, many).tolist()
    pauses = np.where(rng.random(many) < 0.3, 0.0, rng.exponential(0.3, many)).tolist()
    turns = StreamTurns(sessions=sessions, later=[False] * many, pause_s=pauses)
    requests = RequestTable(case.arrival_ms, case.prompt, case.answer, LENGTHS, turns=turns)
    island = case.fleet.pools[0].island
    failure = Failure(island=island, at_s=0.2, servers=((island, 2),), back_after_s=0.5)
    asked = ReplaySettings(router=behaviour_of(policy), failures=(failure,) if fails else ())
    engine = Engine(case.fleet, requests, asked, 0)
    engine.run()
    assert engine.finished == many
    came, ended = requests.arrival_ms, engine.log.ended
    followed = turns_in(sessions)
    for before, after in followed:
        assert came[after] == pytest.approx(ended[before] + pauses[after] * MS_PER_S, rel=1e-12)
    firsts = set(range(many)) - {after for _, after in followed}
    assert len(firsts) == len(set(sessions))
    assert all(came[k] == case.arrival_ms[k] for k in firsts)
    assert all(engine.log.started[k] >= came[k] - CLOSE_MS for k in range(many))


def test_an_idle_server_answers_a_session_turn_by_turn() -> None:
    """A prompt of 100 tokens takes 5 ms and 0.1 ms a token, its answer of 3 tokens three passes of 10 ms."""
    of = fleet([prefill_pool(), decode_pool()])
    turns = StreamTurns(sessions=[5, 5, 5], later=[False, True, True], pause_s=[9.0, 2.0, 0.5])
    requests = RequestTable([1000.0, 1000.0, 1001.0], [100] * 3, [3] * 3, LENGTHS, turns=turns)
    engine = Engine(of, requests, ReplaySettings(), 0)
    engine.run()
    assert engine.log.ended.tolist() == pytest.approx([1045.0, 1045 + 2000 + 45, 1045 + 2000 + 45 + 500 + 45])


def test_turns_without_pauses_come_by_themselves() -> None:
    of = fleet([prefill_pool(), decode_pool()])
    moments = [0.0, 1.0, 2.0]
    turns = StreamTurns(sessions=[5, 5, 5], later=[False, True, True])
    plain = RequestTable(moments, [100] * 3, [3] * 3, LENGTHS)
    open_ones = RequestTable(moments, [100] * 3, [3] * 3, LENGTHS, turns=turns)
    engines = [Engine(of, requests, ReplaySettings(), 0) for requests in (plain, open_ones)]
    for engine in engines:
        engine.run()
    assert engines[0].log.ended == engines[1].log.ended
    assert open_ones.arrival_ms == moments


def sessions_trace(sessions: int = 60, most: int = 8, *, blocks: bool = False) -> RequestTrace:
    """Sessions that begin in 600 s, each of one to `most` turns, with pauses of about 20 s; rows in order of time."""
    rng = np.random.default_rng(3)
    rows = []
    for session in range(sessions):
        at = float(rng.uniform(0, 600))
        for turn in range(int(rng.integers(1, most + 1))):
            pause = float(rng.exponential(20.0)) if turn else 0.0
            at += pause + 1.0 * bool(turn)
            rows.append((at, session, turn, pause))
    rows.sort()
    ids = [[1000 * session + k for k in range(2 * turn + 2)] for _, session, turn, _ in rows]
    return RequestTrace(
        name="sessions",
        arrival_s=[row[0] - rows[0][0] for row in rows],
        input_tokens=[200 + 200 * turn for _, _, turn, _ in rows],
        output_tokens=[20 + session % 7 for _, session, _, _ in rows],
        blocks=PromptBlocks(
            block_tokens=100,
            ids=[block for prompt in ids for block in prompt],
            ends=np.cumsum([len(prompt) for prompt in ids]).tolist(),
        )
        if blocks
        else None,
        sessions=SessionTurns(ids=[row[1] for row in rows], pause_s=[row[3] for row in rows]),
    )


def rate_of(trace: RequestTrace) -> float:
    return (len(trace.arrival_s) - 1) / trace.arrival_s[-1]


def test_copies_of_a_trace_have_sessions_of_their_own_whose_turns_come_in_order() -> None:
    """A turn has as many tokens as its number says: each session of each copy has a run of turns, none twice."""
    trace = sessions_trace()
    requests = requests_of(trace, CLOSED, seed=4, rate_rps=2.5 * rate_of(trace), count=3 * len(trace.arrival_s))
    assert requests.turns is not None
    turns = [tokens // 200 - 1 for tokens in requests.prompt_tokens]
    seen: dict[int, list[int]] = {}
    for session, turn in zip(requests.turns.sessions, turns, strict=True):
        seen.setdefault(session, []).append(turn)
    assert len(seen) > 2 * 60
    for runs in seen.values():
        assert runs == list(range(runs[0], runs[0] + len(runs)))
    assert [turn > 0 for turn in turns] == list(requests.turns.later)
    by_rows = dict(zip(zip(trace.arrival_s, trace.input_tokens, strict=True), trace.sessions.pause_s, strict=True))
    assert sorted(set(requests.turns.pause_s)) == sorted(set(by_rows.values()))
    assert sum(requests.turns.pause_s) == pytest.approx(3 * sum(trace.sessions.pause_s), rel=0.1)


def test_a_thinned_stream_has_whole_sessions_where_they_are_closed() -> None:
    trace, half = sessions_trace(), 0.5
    whole = {}
    for session in trace.sessions.ids:
        whole[session] = whole.get(session, 0) + 1
    requests = requests_of(trace, CLOSED, seed=1, rate_rps=half * rate_of(trace), seconds=trace.arrival_s[-1] + 1e-3)
    assert len(requests) == pytest.approx(half * len(trace.arrival_s), abs=1)
    counts = {session: list(requests.turns.sessions).count(session) for session in requests.turns.sessions}
    cut = [session for session, count in counts.items() if count != whole[session]]
    assert len(cut) <= 1
    assert len(counts) < 0.75 * len(whole)
    opened = requests_of(trace, OPEN, seed=1, rate_rps=half * rate_of(trace), seconds=trace.arrival_s[-1] + 1e-3)
    assert len(set(opened.turns.sessions)) > 0.75 * len(whole)


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("process", [ArrivalProcess.TRACE, ArrivalProcess.POISSON])
@pytest.mark.parametrize("times", [0.4, 1.7])
def test_open_streams_are_what_they_were_without_sessions(blocks: bool, process: ArrivalProcess, times: float) -> None:
    trace = sessions_trace(blocks=blocks)
    asked = ArrivalSettings(process=process)
    with_them, without = (
        requests_of(of, asked, seed=2, rate_rps=times * rate_of(trace), count=200)
        for of in (trace, replace(trace, sessions=None))
    )
    assert without.turns is None
    assert with_them.turns is not None
    assert len(with_them.turns.pause_s) == 0
    assert (with_them.arrival_ms, with_them.prompt_tokens) == (without.arrival_ms, without.prompt_tokens)
    assert (with_them.answer_tokens, with_them.notes) == (without.answer_tokens, without.notes)
    if blocks:
        assert list(with_them.blocks.ids) == list(without.blocks.ids)


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (ArrivalSettings(process=ArrivalProcess.POISSON, sessions=SessionPace.CLOSED), "sessions: closed must be left"),
        (replace(CLOSED, compress=True), "compress must be left out where sessions are closed"),
    ],
)
def test_what_has_no_beginnings_of_sessions_is_refused(asked: ArrivalSettings, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        requests_of(sessions_trace(), asked, seed=0, count=10)


def test_a_trace_without_sessions_cannot_be_closed() -> None:
    with pytest.raises(InputError, match="must tell sessions and turns"):
        requests_of(replace(sessions_trace(), sessions=None), CLOSED, seed=0, count=10)


def test_closed_sessions_are_the_trace_s_own_arrivals() -> None:
    assert arrival_settings(sessions="closed") == CLOSED
    assert arrival_settings() == ArrivalSettings(process=ArrivalProcess.POISSON)
    with pytest.raises(InputError, match="sessions: must be one of open, closed"):
        arrival_settings(sessions="shut")


TIERS = (
    PoolTier(name="host", tokens=4000, ms_per_token=0.005),
    PoolTier(name="ssd", tokens=10**6, ms_per_token=0.01),
)
SEEDS = (0, 1)
SLO = SloSettings(ttft_ms=60.0, tpot_ms=100.0, percentile=90)


def judged(asked: ArrivalSettings, trace: RequestTrace) -> tuple[ReplayResult, list[PlayedRun]]:
    """A small fleet with tiers at twice the trace's rate, and its runs with both seeds."""
    pool = replace(prefill_pool(servers=2, cache_tokens=1000), tiers=TIERS)
    of, rate, two = (
        fleet([pool, decode_pool(batch=64)]),
        2 * rate_of(trace),
        ReplaySettings(arrivals=asked, seeds=SEEDS),
    )
    promise = Promise(plan="p", trace="t", arrivals="a", promise_rps=1.0, capacity_rps=1.0, slo=SLO)
    runs = played(of, two, rate, lambda rps, seed: requests_of(trace, asked, seed=seed, rate_rps=rps, count=600))
    return judge(of, promise, two, rate, runs), [run.engine for run in runs]


@pytest.mark.parametrize("asked", [CLOSED, OPEN], ids=["closed", "open"])
def test_first_and_later_turns_are_told_apart(asked: ArrivalSettings) -> None:
    trace = sessions_trace(blocks=True)
    result, runs = judged(asked, trace)
    first, later = result.turns
    assert (first.turn, later.turn) == ("first", "later")
    assert first.group.requests + later.group.requests == result.total.requests
    within, found, counted = [], [], 0
    for seed, run in zip(SEEDS, runs, strict=True):
        stream = requests_of(trace, asked, seed=seed, rate_rps=2 * rate_of(trace), count=600)
        since, until = stream.arrival_ms[60], stream.arrival_ms[-1]
        log, table = run.log, run.requests
        rows = [k for k in range(600) if since <= table.arrival_ms[k] <= until and stream.prompt_tokens[k] > 200]
        counted += len(rows)
        within.append(np.mean([log.first[k] - table.arrival_ms[k] <= SLO.ttft_ms for k in rows]))
        tokens = sum(table.prompt[k] for k in rows)
        parts = [sum(log.loads[name][k] for k in rows) for name in ("host", "ssd")]
        hits = sum(log.hits[k] for k in rows)
        found.append([(hits - sum(parts)) / tokens, *(part / tokens for part in parts), 1 - hits / tokens])
    assert later.group.requests == counted
    (ttft,) = (level for level in later.levels if level.name.startswith("TTFT"))
    assert ttft.requests == counted
    assert ttft.share.mean == pytest.approx(np.mean(within), abs=0.02)
    assert [of.place for of in later.group.found_at] == ["gpu", "host", "ssd", "computed"]
    assert [of.share.mean for of in later.group.found_at] == pytest.approx(np.mean(found, axis=0).tolist())
    assert all(of.share.mean > 0.01 for of in later.group.found_at)
    assert first.group.found_at[-1].share.mean == 1.0
    assert first.group.hit_share.mean == 0.0
    assert sum(of.share.mean for of in result.total.found_at) == pytest.approx(1.0)


def test_pages_tables_and_documents_tell_turns_and_places() -> None:
    result, _ = judged(OPEN, sessions_trace(blocks=True))
    document = replay_document(result)
    assert [turn["turn"] for turn in document["turns"]] == ["first", "later"]
    assert document["turns"][1]["ttft_ms"]["p99"] == result.turns[1].group.ttft_ms.p99.mean
    assert document["turns"][1]["levels"][0]["standing"] == result.turns[1].levels[0].standing
    assert list(document["found_at"]) == ["gpu", "host", "ssd", "computed"]
    assert document["found_at"]["ssd"]["share"] == result.total.found_at[2].share.mean
    page = page_text(replay_page(result))
    assert "## First and later turns" in page
    assert "| Prompts (tokens) | GPU | Host | SSD | Computed |" in page
    frame = replay_frame(result)
    assert list(frame["group"]) == ["all", "bucket", "first turns", "later turns"]
    assert frame["found_computed"].iloc[3] == result.turns[1].group.found_at[3].share.mean
    bare, _ = judged(OPEN, replace(sessions_trace(), sessions=None))
    assert "turns" not in replay_document(bare)
    assert "First and later turns" not in page_text(replay_page(bare))


def test_prompts_that_nobody_takes_go_with_their_turns() -> None:
    trace = sessions_trace()
    served, others = served_part(trace, 1000)
    assert isinstance(served, RequestTrace)
    rows = [row for row, tokens in enumerate(trace.input_tokens) if tokens < 1000]
    assert others == len(trace.input_tokens) - len(rows) > 0
    assert served.sessions == SessionTurns(
        ids=[trace.sessions.ids[row] for row in rows], pause_s=[trace.sessions.pause_s[row] for row in rows]
    )


def test_a_plan_s_requests_in_closed_sessions() -> None:
    """From a plan on: prompts that nobody serves go with their turns, and the rate stays the one that was asked for."""
    name = "dense, with levels"
    case, trace = small_plan(name), small_trace(name)
    rng, many = np.random.default_rng(0), len(trace.arrival_s)
    lengths = [*trace.input_tokens[:-1], 10**6]  # the last one is too long for anybody
    sessions = SessionTurns(ids=rng.integers(0, 1500, many).tolist(), pause_s=rng.exponential(300.0, many).tolist())
    told = replace(trace, input_tokens=lengths, sessions=sessions)
    asked = ReplaySettings(arrivals=CLOSED, seeds=(0,), requests=3000)
    result = replay(case, told, asked, 0.5 * case.throughput_rps)
    assert result.arrivals == "trace, turns after answers"
    assert dict(result.left_out) == {"with prompts longer than the plan serves": 1}
    assert any("their pause after the answer" in note for note in result.notes)
    assert {turn.turn for turn in result.turns} == {"first", "later"}
    assert result.total.requests <= 2700
    assert result.total.rate_rps == pytest.approx(0.5 * case.throughput_rps, rel=0.5)
