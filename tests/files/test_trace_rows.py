"""Which rows of a trace are taken: values of columns, stretches of time, rows left out and counted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.domain import RequestTrace
from planner.files import load_workload, read_trace

Refused = Callable[..., None]
Write = Callable[[str, str], Path]

BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,Conversation log
120,ChatGPT,1360,0,1360,API log
185,GPT-4,185,215,400,API log
"""


def reading(trace: RequestTrace) -> Any:
    assert trace.reading is not None
    return trace.reading


def test_failed_requests_stay_and_are_told(write: Write) -> None:
    trace = read_trace(write("t.csv", BURSTGPT))
    assert list(trace.output_tokens) == [18, 230, 276, 0, 215]
    assert (reading(trace).unanswered, reading(trace).dropped, reading(trace).rows) == (1, (), 5)


def test_failed_requests_may_be_left_out(write: Write) -> None:
    trace = read_trace(write("t.csv", BURSTGPT), drop=["unanswered"])
    assert list(trace.input_tokens) == [472, 1087, 417, 185]
    assert (reading(trace).unanswered, reading(trace).dropped) == (0, (("no answer", 1),))


def test_requests_that_no_context_takes_may_be_left_out(write: Write, refused: Refused) -> None:
    path = write("t.csv", BURSTGPT)
    trace = read_trace(path, drop=["over:1360", "over:1400"])
    assert list(trace.input_tokens) == [
        472,
        1087,
        417,
        185,
    ]  # by hand: 490, 1317, 693, 1361 (an answer has a token), 400
    assert reading(trace).dropped == (("over 1,360 tokens", 1),)
    assert list(read_trace(path, drop=["over:693", "unanswered"]).input_tokens) == [472, 417, 185]
    for word in ("over:", "over:-1", "over:1k", "over"):
        refused(
            lambda word=word: read_trace(path, drop=[word]), "drop must be one of", "over:TOKENS", hint="over:40960"
        )
    refused(lambda: read_trace(path, drop=["over:3"]), "at least one request")


@pytest.mark.parametrize(
    ("where", "prompts"),
    [
        ({"Model": "GPT-4"}, [417, 185]),
        ({"model": ["GPT-4", "ChatGPT"], "log_type": "API log"}, [1360, 185]),
        ({"Request tokens": 417}, [417]),
    ],
)
def test_only_rows_with_a_value(write: Write, where: dict[str, object], prompts: list[int]) -> None:
    trace = read_trace(write("t.csv", BURSTGPT), where=where)
    assert list(trace.input_tokens) == prompts
    assert trace.arrival_s[0] == 0
    assert reading(trace).dropped == (("where", 5 - len(prompts)),)


def test_a_value_that_no_row_has_names_those_that_there_are(write: Write, refused: Refused) -> None:
    path = write("t.csv", BURSTGPT)
    refused(
        lambda: read_trace(path, where={"Model": "gpt-5"}), "where must choose", "ChatGPT, GPT-4", hint="as the file"
    )
    refused(lambda: read_trace(path, where={"Engine": "x"}), "a column 'Engine'", "Log Type")


@pytest.mark.parametrize(
    ("stretch", "prompts"),
    [
        ({"first": "40s"}, [1087, 417, 1360, 185]),
        ({"first": "40s", "end": "115s"}, [1087, 417]),
        ({"end": "2m"}, [472, 1087, 417, 1360]),
        ({"last": "70s"}, [417, 1360, 185]),
    ],
)
def test_a_stretch_of_time(write: Write, stretch: dict[str, str], prompts: list[int]) -> None:
    trace = read_trace(write("t.csv", BURSTGPT), **stretch)  # type: ignore[arg-type]
    assert list(trace.input_tokens) == prompts
    assert trace.arrival_s[0] == 0
    assert dict(reading(trace).dropped) == {"outside the stretch of time": 5 - len(prompts)}


DATES = "created_at,prompt_tokens,completion_tokens\n" + "".join(
    f"2026-03-0{day}T{hour:02}:00:00+01:00,{day}{hour},5\n" for day in (1, 2) for hour in (0, 12)
)


@pytest.mark.parametrize("border", ["2026-03-02", "2026-03-02T00:00Z", "2026-03-02 01:00+01:00"])
def test_dates_are_in_utc_where_they_have_no_zone(write: Write, border: str) -> None:
    # the trace's days begin at 23:00 UTC: of the second only noon, 11:00 UTC, is behind the border
    trace = read_trace(write("t.csv", DATES), first=border)
    assert list(trace.input_tokens) == [212]
    assert reading(trace).began == "2026-03-02 11:00:00"


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        ({"first": "2026-03-02"}, "from must be a duration", "2h"),
        ({"first": "tomorrow"}, "from must be a time (ISO 8601) or a duration", "from: 2h"),
        ({"last": "0s"}, "last must be a duration above 0", "24h"),
        ({"last": "24"}, "last must be a duration above 0 with its unit", "24h"),
        ({"first": "2h", "end": "1h"}, "to must be later than from", "not empty"),
        ({"first": "1d"}, "must hold at least one request of the trace, which has 180 s", "Give another"),
        ({"last": "1h", "end": "1h"}, "last, or from and to, got both", "one of them"),
        ({"drop": ["failed"]}, "drop must be one of unanswered, faulty, over:TOKENS, got 'failed'", "Choose"),
        ({"time_unit": "minutes"}, "time_unit must be one of s, ms, us, ns", "Choose"),
    ],
)
def test_stretches_and_words_that_cannot_be(
    write: Write, refused: Refused, options: dict[str, Any], words: str, hint: str
) -> None:
    path = write("t.csv", BURSTGPT)
    refused(lambda: read_trace(path, **options), "t.csv", words, hint=hint)


FAULTY = """\
time,input_tokens,output_tokens
,10,5
1,0,5
2,10,5
3,10,many
4,11,5
5,12,5
6,13,5
"""


def test_faulty_rows_may_be_left_out_and_are_counted(write: Write, refused: Refused) -> None:
    path = write("t.csv", FAULTY)
    refused(lambda: read_trace(path), "row 1, column time", hint="ISO 8601")
    trace = read_trace(path, drop=["faulty"])
    assert list(trace.input_tokens) == [10, 11, 12, 13]
    assert reading(trace).dropped == (("faulty", 3),)


def test_a_trace_of_mostly_faulty_rows_is_refused(write: Write, refused: Refused) -> None:
    path = write("t.csv", FAULTY.replace("1", "x"))
    refused(
        lambda: read_trace(path, drop=["faulty"]), "most rows must be requests; 7 of 7", "row 1", hint="right columns"
    )


def test_rows_without_ids_keep_those_of_the_others(write: Write) -> None:
    rows = [
        {"time": k, "model": "ab"[k % 2], "input_tokens": 6, "output_tokens": 1, "hash_ids": [k, k + 1]}
        for k in range(6)
    ]
    path = write("t.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    trace = read_trace(path, block_tokens=4, where={"model": "b"})
    assert (list(trace.blocks.ids), list(trace.blocks.ends)) == ([1, 2, 3, 4, 5, 6], [2, 4, 6])


def test_parts_tell_how_often_they_came_before(write: Write) -> None:
    row = '{{"time": {0}, "input_tokens": 6, "output_tokens": 1, "hash_ids": {{"system": [1, 2], "user": [{0}]}}}}\n'
    trace = read_trace(write("t.jsonl", "".join(row.format(k) for k in (7, 8, 9))), time_unit="s")
    assert trace.blocks is None
    parts = {part.name: (part.ids, part.again) for part in reading(trace).parts}
    assert parts == {"system": (6, 4), "user": (3, 0)}


def test_a_workload_document_chooses_rows(write: Write, refused: Refused) -> None:
    write("t.csv", BURSTGPT)
    chosen = "where: {Model: [GPT-4, ChatGPT]}\ndrop: [unanswered]\nfrom: 40s\nto: 3m\ncolumns: {arrival: timestamp}\n"
    trace = load_workload(str(write("w.yaml", f"kind: trace\nfile: t.csv\n{chosen}")))
    assert isinstance(trace, RequestTrace)
    assert list(trace.input_tokens) == [1087, 417]
    for text, words in (
        ("where: {Request tokens: 417}\n", None),
        ("drop: unanswered\n", "drop must be"),
        ("last: 7 moons\n", "last must be a duration"),
        ("where: [Model]\n", "where must be"),
    ):
        path = write("w.yaml", f"kind: trace\nfile: t.csv\n{text}")
        if words is None:
            assert len(load_workload(str(path)).input_tokens) == 1
        else:
            refused(lambda path=path: load_workload(str(path)), "w.yaml", words)
