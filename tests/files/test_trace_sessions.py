"""Sessions of traces: the same whatever form they came in, pauses as they were told, and what is refused."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest

from planner.domain import RequestTrace
from planner.domain.workload import SessionTurns
from planner.files import load_workload, read_trace
from planner.files.tables.traces.options import trace_options
from planner.files.tables.traces.reader import read_frame
from planner.runs.workloads import profile_of_trace

Refused = Callable[..., None]
Write = Callable[[str, str], Path]

START = 1_700_000_000
# session, seconds, tokens in, tokens out, seconds of the answer
ROWS = [
    ("a", 0.0, 600, 20, 2.0),
    ("b", 1.0, 700, 30, 1.5),
    ("a", 5.0, 900, 10, 4.0),
    ("", 6.0, 100, 5, 1.0),
    ("b", 7.5, 1000, 10, 0.5),
    ("a", 9.5, 1200, 40, 1.0),
]
IDS = (0, 1, 0, 2, 1, 0)
BETWEEN_ARRIVALS = (0.0, 0.0, 5.0, 0.0, 6.5, 4.5)
BETWEEN_ANSWERS = (0.0, 0.0, 3.0, 0.0, 5.0, 0.5)


def lines(*rows: Mapping[str, object]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def turns_of(trace: RequestTrace) -> tuple[tuple[int, ...], tuple[float, ...]]:
    assert isinstance(trace.sessions, SessionTurns)
    return tuple(trace.sessions.ids), tuple(pytest.approx(pause, abs=1e-6) for pause in trace.sessions.pause_s)


def mooncake(*, duration: bool) -> str:
    rows = (
        {"session_id": s, "timestamp": 1000 * t, "input_length": n, "output_length": m}
        | ({"duration": 1000 * took} if duration else {})
        for s, t, n, m, took in ROWS
    )
    return lines(*rows)


def spans(*, flat: bool) -> str:
    """OpenTelemetry's attributes, by names with dots or as objects in objects; times in nanoseconds as texts."""
    rows = []
    for session, time, prompt, answer, took in ROWS:
        row: dict[str, object] = {
            "startTimeUnixNano": str(int((START + time) * 10**9)),
            "endTimeUnixNano": str(int((START + time + took) * 10**9)),
        }
        usage = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": answer}
        if flat:
            row["attributes"] = {"gen_ai.conversation.id": session or None} | usage
        else:
            row["gen_ai"] = {
                "conversation": {"id": session or None},
                "usage": {"input_tokens": prompt, "output_tokens": answer},
            }
        rows.append(row)
    return lines(*rows)


def csv(header: str, row: Callable[[str, float, int, int, float], str]) -> str:
    return f"{header}\n" + "".join(f"{row(*one)}\n" for one in ROWS)


def iso(time: float) -> str:
    return pd.Timestamp(START + time, unit="s", tz="UTC").isoformat()


FORMS = {
    "mooncake.jsonl": (mooncake(duration=True), "ms"),
    "flat.jsonl": (spans(flat=True), None),
    "nested.jsonl": (spans(flat=False), None),
    "burstgpt.csv": (
        csv(
            "Timestamp,Session ID,Elapsed time,Request tokens,Response tokens",
            lambda s, t, n, m, took: f"{t},{s},{took},{n},{m}",
        ),
        "s",
    ),
    "langfuse.csv": (
        csv(
            "startTime,endTime,sessionId,inputUsage,outputUsage",
            lambda s, t, n, m, took: f"{iso(t)},{iso(t + took)},{s},{n},{m}",
        ),
        None,
    ),
    "latency.csv": (
        csv(
            "created_at;latency_ms;conversation_id;input_tokens;output_tokens",
            lambda s, t, n, m, took: f"{iso(t)};{1000 * took};{s};{n};{m}",
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_sessions_are_the_same_whatever_form_they_came_in(write: Write, name: str) -> None:
    text, unit = FORMS[name]
    trace = read_trace(write(name, text), time_unit=unit)
    assert turns_of(trace) == (IDS, BETWEEN_ANSWERS)
    assert list(trace.arrival_s) == pytest.approx([time for _, time, *_ in ROWS], abs=1e-6)
    assert "from the end of the answer before" in trace.reading.pauses
    assert dict(trace.reading.columns)["session"]


def test_a_data_frame_tells_them_too() -> None:
    frame = pd.DataFrame(
        {
            "session_id": [session or None for session, *_ in ROWS],
            "input_tokens": [n for _, _, n, _, _ in ROWS],
            "output_tokens": [m for _, _, _, m, _ in ROWS],
            "duration": pd.to_timedelta([took for *_, took in ROWS], unit="s"),
        },
        index=pd.to_datetime([START + time for _, time, *_ in ROWS], unit="s"),
    )
    assert turns_of(read_frame(frame, trace_options("frame"))) == (IDS, BETWEEN_ANSWERS)


def test_arrivals_alone_give_pauses_that_hold_the_answers(write: Write) -> None:
    trace = read_trace(write("t.jsonl", mooncake(duration=False)), time_unit="ms")
    assert turns_of(trace) == (IDS, BETWEEN_ARRIVALS)
    assert trace.reading.pauses == "from arrival to arrival, what answers took in it"


def test_rows_in_any_order_and_a_stretch_of_time(write: Write) -> None:
    text = mooncake(duration=True).splitlines(keepends=True)
    path = write("t.jsonl", "".join(reversed(text)))
    assert turns_of(read_trace(path, time_unit="ms")) == (IDS, BETWEEN_ANSWERS)
    # without the first three turns b is the second session that comes, and begins anew
    cut = read_trace(path, time_unit="ms", first="6s")
    assert cut.sessions is None
    cut = read_trace(path, time_unit="ms", first="1s")
    assert turns_of(cut) == ((0, 1, 2, 0, 1), (0.0, 0.0, 0.0, 5.0, 0.5))


def delays(*, tell: bool) -> str:
    """AIPerf's form: the first turn has a time, later ones how long after the answer before they come; ms."""
    rows: list[dict[str, object]] = [
        {"session_id": "x", "timestamp": 1000, "input_length": 10, "output_length": 5},
        {"session_id": "x", "delay": 2500, "input_length": 20, "output_length": 5},
        {"session_id": "y", "timestamp": 2000, "input_length": 30, "output_length": 5},
        {"session_id": "x", "delay": 500, "input_length": 40, "output_length": 5},
    ]
    return lines(*(row | ({"duration": 250} if tell else {}) for row in rows))


def test_turns_without_a_time_come_after_the_answer_before(write: Write) -> None:
    trace = read_trace(write("t.jsonl", delays(tell=False)), time_unit="ms")
    assert list(trace.arrival_s) == [0.0, 1.0, 2.5, 3.0]
    assert list(trace.input_tokens) == [10, 30, 20, 40]
    assert turns_of(trace) == ((0, 1, 0, 0), (0.0, 0.0, 2.5, 0.5))
    told = read_trace(write("t.jsonl", delays(tell=True)), time_unit="ms")
    assert list(told.arrival_s) == [0.0, 1.0, 2.75, 3.5]
    assert turns_of(told) == ((0, 1, 0, 0), (0.0, 0.0, 2.5, 0.5))


def test_turns_without_a_time_come_after_the_told_end_of_the_answer_before(write: Write) -> None:
    text = delays(tell=False).replace('"timestamp": 1000', '"timestamp": 1000, "end_time": 1900')
    trace = read_trace(write("t.jsonl", text), time_unit="ms")
    assert list(trace.arrival_s) == [0.0, 1.0, 3.4, 3.9]
    assert turns_of(trace) == ((0, 1, 0, 0), (0.0, 0.0, 2.5, 0.5))


def test_a_unit_in_a_name_counts(write: Write, refused: Refused) -> None:
    text = delays(tell=True).replace('"delay"', '"delay_ms"').replace('"duration"', '"duration_ms"')
    seconds = text.replace("1000", "1.0").replace("2000", "2.0")
    trace = read_trace(write("t.jsonl", seconds), time_unit="s")
    assert list(trace.arrival_s) == [0.0, 1.0, 2.75, 3.5]
    assert turns_of(trace) == ((0, 1, 0, 0), (0.0, 0.0, 2.5, 0.5))
    # row 1 tells how long the answer took, after which row 2 comes
    refused(lambda: read_trace(write("u.jsonl", seconds)), "row 1, column timestamp", "the unit", hint="--time-unit")
    timed = seconds.replace('"delay_ms"', '"timestamp": 3, "delay_ms"')
    assert turns_of(read_trace(write("v.jsonl", timed))) == ((0, 1, 0, 0), (0.0, 0.0, 2.5, 0.5))


def test_ids_alone_are_no_sessions(write: Write) -> None:
    rows = ({"session_id": k, "timestamp": k, "input_length": 9, "output_length": 1} for k in range(3))
    assert read_trace(write("t.jsonl", lines(*rows)), time_unit="s").sessions is None


def test_columns_may_be_named_or_passed_over(write: Write) -> None:
    path = write("t.jsonl", mooncake(duration=True).replace("session_id", "run"))
    assert read_trace(path, time_unit="ms").sessions is None
    assert turns_of(read_trace(path, {"session": "run"}, time_unit="ms")) == (IDS, BETWEEN_ANSWERS)
    alone = read_trace(path, {"session": "run", "duration": "none"}, time_unit="ms")
    assert turns_of(alone) == (IDS, BETWEEN_ARRIVALS)
    usual = write("u.jsonl", mooncake(duration=True))
    assert read_trace(usual, {"session": "none"}, time_unit="ms").sessions is None
    document = write("w.yaml", f"kind: trace\nfile: {path}\ntime_unit: ms\ncolumns: {{session: run}}\n")
    assert turns_of(load_workload(str(document))) == (IDS, BETWEEN_ANSWERS)


def test_what_is_shown_knows_them_though_traces_pass_by(write: Write) -> None:
    summary = profile_of_trace(write("t.jsonl", mooncake(duration=True)), trace_options("t", time_unit="ms"))[1]
    facts = summary.sessions
    assert (facts.sessions, facts.mean_turns, facts.most_turns) == (3, 2.0, 3)
    assert facts.mean_pause_s == pytest.approx((3.0 + 5.0 + 0.5) / 3)
    assert facts.p50_pause_s == pytest.approx(3.0)


def turn(session: str, time: float, **more: object) -> dict[str, object]:
    return {"session_id": session, "timestamp": time, "input_length": 600, "output_length": 5} | more


BLOCKS = {"hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [turn("a", 0, duration=9), turn("b", 1, duration=1), turn("a", 5, duration=1)],
            ("row 3, column session_id", "(row 1)", "4 s earlier", "overlaps itself"),
        ),
        (
            [turn("a", 0, end_time=9), turn("a", 5, end_time=6)],
            ("row 2, column session_id", "(row 1)", "4 s earlier", "overlaps itself"),
        ),
        (
            [turn("a", 0, turn=1), turn("b", 1, turn=1), turn("a", 2, turn=1)],
            ("row 3, column session_id", "turn of its own", "row 1 of the session is turn 1"),
        ),
        (
            [turn("a", 0, turn=1), turn("a", 5, turn=3), turn("a", 9, turn=2)],
            ("row 3, column session_id", "turn 2 comes after turn 3", "(row 2)", "overlaps itself"),
        ),
        ([turn("a", 0, turn=1), turn("a", 5, turn="x")], ("row 2, column turn", "a number", "'x'")),
        ([turn("a", 0), turn("a", 5, delay=-1)], ("row 2, column delay", "at least 0", "'-1'")),
        (
            [turn("a", 0), {"session_id": "b", "delay": 5, "input_length": 9, "output_length": 1}],
            ("row 2, column time",),
        ),
        (
            [turn("a", 0, block_size=512, **BLOCKS), turn("a", 9, block_size=64, **BLOCKS)],
            ("row 2, key block_tokens (or block_size)", "512 as in row 1", "got 64"),
        ),
        (
            [turn("a", 0, block_size=64, **BLOCKS)],
            ("row 1, key hash_ids", "blocks of 600 tokens", "got 2 ids."),
        ),
        ([turn("a", 0, block_size="x", **BLOCKS)], ("row 1, key block_tokens", "'x'")),
        ([turn("a", 0, hash_ids=[1, 2, 3])], ("row 1, key hash_ids", "got 3 ids: more reuse than there are tokens.")),
    ],
)
def test_what_cannot_be_is_refused(
    write: Write, refused: Refused, rows: list[dict[str, object]], words: tuple[str, ...]
) -> None:
    refused(lambda: read_trace(write("t.jsonl", lines(*rows)), time_unit="s"), *words)


def test_overlaps_may_be_passed_over_and_rounded_clocks_overlap_a_little(write: Write) -> None:
    rows = [turn("a", 0, duration=9), turn("a", 5, duration=1)]
    assert read_trace(write("t.jsonl", lines(*rows)), {"session": "none"}, time_unit="s").sessions is None
    rounded = [turn("a", 0, duration=5.7), turn("a", 5, duration=1)]
    assert turns_of(read_trace(write("t.jsonl", lines(*rounded)), time_unit="s")) == ((0, 0), (0.0, 0.0))


def test_rows_tell_the_tokens_of_their_blocks(write: Write, refused: Refused) -> None:
    rows = [turn("a", 0, block_size=300, **BLOCKS), turn("b", 9, block_size=300, **BLOCKS)]
    path = write("t.jsonl", lines(*rows))
    assert read_trace(path, time_unit="s").blocks.block_tokens == 300
    assert read_trace(path, time_unit="s", block_tokens=300).blocks.block_tokens == 300
    refused(lambda: read_trace(path, time_unit="s", block_tokens=400), "row 1", "400 as stated", "got 300")


MARGINALS = """kind: sessions
name: mine
sessions_per_s: 0.2
span_s: 600
turns: {mean: 4}
message_tokens: {mean: 300, cv: 1}
answer_tokens: {mean: 50}
pause_s: {mean: 5, cv: 1}
"""


def test_marginals_in_a_file_become_a_trace(write: Write) -> None:
    trace = load_workload(str(write("w.yaml", MARGINALS)))
    assert isinstance(trace, RequestTrace)
    assert trace.name == "mine"
    assert trace.blocks.block_tokens == 512
    assert set(trace.output_tokens) == {50}
    assert trace == load_workload(str(write("v.yaml", MARGINALS + "seed: 0\n")))
    assert trace != load_workload(str(write("v.yaml", MARGINALS + "seed: 1\n")))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("mean: 4", "mean: 0.5"), ("turns.mean", "at least 1")),
        (("mean: 4", "mean: 4.5, spread: none"), ("turns.mean", "whole")),
        (("mean: 4", "mean: 4, spread: some"), ("turns.spread",)),
        (("pause_s", "pauses"), ("pause_s",)),
        (("cv: 1", "cv: -1"), ("message_tokens.cv", "at least 0")),
        (("kind: sessions", "kind: sessions\ntool_share: 0.5"), ("tool_pause_s",)),
        (("kind: sessions", "kind: sessions\nmost_tokens: 5\nsystem_prompt: {tokens: 9}"), ("most_tokens", "11")),
        (("span_s: 600", "span_s: 0"), ("span_s", "more than 0")),
    ],
)
def test_marginals_that_cannot_be_are_refused(
    write: Write, refused: Refused, changed: tuple[str, str], words: tuple[str, ...]
) -> None:
    refused(lambda: load_workload(str(write("w.yaml", MARGINALS.replace(*changed)))), *words)
