"""Traces from CSV: column names, times, and every way a row can be wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.files import read_trace

Refused = Callable[..., None]
Write = Callable[[str, str], Path]

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_rows_are_sorted_by_arrival_and_count_from_the_first(write: Write) -> None:
    text = AZURE + "2023-11-16 18:17:05.5000000,30,3\n2023-11-16 18:17:03.9799600,10,1\n2023-11-16 18:17:04,20,0\n"
    trace = read_trace(write("my trace.csv", text))
    assert trace.name == "my-trace"
    assert list(trace.arrival_s) == [0.0, 0.02004, 1.52004]
    assert list(trace.input_tokens) == [10, 20, 30]
    assert list(trace.output_tokens) == [1, 0, 3]


def test_zones_are_respected_and_a_time_without_one_is_utc(write: Write) -> None:
    text = AZURE + "2024-03-31T02:00:00+02:00,1,1\n2024-03-31T00:00:01Z,2,1\n2024-03-31T00:00:02,3,1\n"
    assert list(read_trace(write("t.csv", text)).arrival_s) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "header",
    [
        "arrival_s,input_tokens,output_tokens",
        "Arrival Time,Prompt Tokens,Completion Tokens",
        "Timestamp,Request tokens,Response tokens",
        "arrived_at,num_prefill_tokens,num_decode_tokens",
        "timestamp,input_length,output_length",
    ],
)
def test_usual_column_names_are_recognised(write: Write, header: str) -> None:
    trace = read_trace(write("t.csv", f"{header}\n1.5,10,2\n0.5,20,4.0\n"))
    assert [list(c) for c in (trace.arrival_s, trace.input_tokens, trace.output_tokens)] == [
        [0.0, 1.0],
        [20, 10],
        [4, 2],
    ]


def test_columns_may_be_named(write: Write) -> None:
    path = write("t.csv", "when,in,out,model\n0,10,2,x\n")
    columns = {"arrival_s": "when", "input_tokens": "in", "output_tokens": "out"}
    assert list(read_trace(path, columns).input_tokens) == [10]


def test_blank_lines_and_windows_ends_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf" + b"arrival_s,input_tokens,output_tokens\r\n0,10,2\r\n\r\n1,11,2\r\n")
    assert list(read_trace(path).input_tokens) == [10, 11]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("is empty",)),
        (AZURE, ("at least one request", "only a header")),
        ("TIMESTAMP,ContextTokens\n1,2\n", ("output_tokens", "none does", "TIMESTAMP, ContextTokens")),
        ("time,arrival,input_tokens,output_tokens\n1,1,1,1\n", ("arrival_s", "several do: time, arrival")),
        (AZURE + "0,abc,1\n", ("row 1, column ContextTokens", "'abc'")),
        (AZURE + "0,10,1\n1,10,\n", ("row 2, column GeneratedTokens", "''")),
        (AZURE + "0,10,1\n1,10\n", ("row 2, column GeneratedTokens", "''")),
        (AZURE + "0,-1,1\n", ("row 1, column ContextTokens", "'-1'")),
        (AZURE + "0,10,-1\n", ("row 1, column GeneratedTokens", "at least 0", "'-1'")),
        (AZURE + "0,1.5,1\n", ("row 1, column ContextTokens", "whole number", "'1.5'")),
        (AZURE + "0,NaN,1\n", ("row 1, column ContextTokens", "'NaN'")),
        (AZURE + "0,inf,1\n", ("row 1, column ContextTokens", "'inf'")),
        (AZURE + "0,1e9,1\n", ("row 1, column ContextTokens", "at most 100000000")),
        (AZURE + "0,0,1\n", ("row 1, column ContextTokens", "at least 1", "no request")),
        (AZURE + "0,10,0\n1,10,0\n", ("column GeneratedTokens", "decode tokens", "every row is 0")),
        (AZURE + "0,10,1\nsoon,10,1\n", ("row 2, column TIMESTAMP", "seconds", "'soon'")),
        (AZURE + "2023-11-16,10,1\n5,10,1\n", ("row 2, column TIMESTAMP", "a time", "'5'")),
        (AZURE + "nan,10,1\n", ("row 1, column TIMESTAMP", "'nan'")),
        (AZURE + "0,10,1,9\n", ("row 1", "3 cells", "it has 4")),
    ],
)
def test_a_faulty_trace_names_file_row_and_column(
    write: Write, refused: Refused, text: str, words: tuple[str, ...]
) -> None:
    path = write("t.csv", text)
    refused(lambda: read_trace(path), str(path), *words)


def test_an_unreadable_encoding_names_the_line(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes((AZURE + "0,10,1\n").encode("utf-16"))
    refused(lambda: read_trace(path), str(path), "UTF-8", "line 1", hint="UTF-8")


def test_named_columns_must_exist(write: Write, refused: Refused) -> None:
    path = write("t.csv", AZURE + "0,10,1\n")
    refused(lambda: read_trace(path, {"arrival_s": "when"}), "a column 'when'", "TIMESTAMP, ContextTokens")
    refused(lambda: read_trace(path, {"arriving": "TIMESTAMP"}), "'arriving'", hint="arrival_s, input_tokens")


def test_a_missing_trace_is_named(tmp_path: Path, refused: Refused) -> None:
    refused(lambda: read_trace(tmp_path / "none.csv"), "none.csv", "no such file")
