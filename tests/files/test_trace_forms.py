"""Every form in which users have traces gives the workload of the plain one, byte for byte; others say what to do.

Headers: Azure LLM inference traces, BurstGPT, Mooncake and RAGPulse (facts of their files), LiteLLM's spend logs,
Langfuse's observations and blob exports, OpenTelemetry's gen_ai attributes, answers of OpenAI-like APIs.
"""

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from planner.files import read_trace, write_workload
from planner.workload import summarize

Refused = Callable[..., None]

START = 1_700_000_000
# seconds, tokens in, tokens out; times that a float of seconds holds to the microsecond
REQUESTS = [(0.0, 900, 30), (0.25, 12, 4), (1.5, 4000, 0), (3.75, 12, 6), (4.0, 77, 250), (9.5, 900, 31)]
HEADER = "arrival_s,input_tokens,output_tokens\n"


def table(row: Callable[[float, int, int], str], header: str = HEADER) -> str:
    return header + "".join(f"{row(*request)}\n" for request in REQUESTS)


def lines(row: Callable[[float, int, int], object]) -> str:
    return "".join(f"{json.dumps(row(*request))}\n" for request in REQUESTS)


def iso(time: float, form: str = "%Y-%m-%dT%H:%M:%S.%f", zone: str = "Z") -> str:
    return datetime.fromtimestamp(START + time, UTC).strftime(form) + zone


PLAIN = table(lambda t, n, m: f"{START + t},{n},{m}")
SPACED = "%Y-%m-%d %H:%M:%S.%f"
LITELLM = "request_id,call_type,spend,total_tokens,prompt_tokens,completion_tokens,startTime,endTime,model\n"
LANGFUSE = "id,type,startTime,endTime,model,inputUsage,outputUsage,totalUsage\n"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def zipped(text: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/trace.csv", text)
    return packed.getvalue()


FORMS: dict[str, str | bytes] = {
    "t.csv": PLAIN,
    "semicolons.csv": PLAIN.replace(",", ";"),
    "tabs.tsv": PLAIN.replace(",", "\t"),
    "tabs.txt": PLAIN.replace(",", "\t"),
    "bars.csv": PLAIN.replace(",", "|"),
    "commas.csv": PLAIN.replace(",", ";").replace(".", ","),
    "quoted.csv": table(lambda t, n, m: f'"{START + t}","{n}","{m}"', '"arrival_s","input_tokens","output_tokens"\n'),
    "notes.csv": table(lambda t, n, m: f'{START + t},"a, ""b"";;;;",{n},{m}', 'time,"a;b;c;d",n_in,n_out\n').replace(
        "n_in,n_out", "input_tokens,output_tokens"
    ),
    "mark.csv": b"\xef\xbb\xbf" + PLAIN.encode(),
    "windows.csv": PLAIN.replace("\n", "\r\n"),
    "CASE.CSV": PLAIN.replace(HEADER, "ARRIVAL_S,Input Tokens,OutputTokens\n"),
    "t.csv.gz": gzip.compress(PLAIN.encode()),
    "t.csv.bz2": bz2.compress(PLAIN.encode()),
    "t.csv.xz": lzma.compress(PLAIN.encode()),
    "t.csv.zip": zipped(PLAIN),
    "t.zip": zipped(PLAIN),
    "packed-unsaid.csv": gzip.compress(PLAIN.encode()),
    "strings.jsonl": lines(
        lambda t, n, m: {"created_at": str(START + t), "prompt_tokens": str(n), "completion_tokens": str(m)}
    ),
    "usage.jsonl": lines(
        lambda t, n, m: {
            "id": "x",
            "created": START + t,
            "messages": [{"role": "user"}],
            "usage": {"prompt_tokens": n, "completion_tokens": m, "prompt_tokens_details": {"cached_tokens": 3}},
        }
    ),
    "array.json": json.dumps([{"ts": START + t, "input_tokens": n, "output_tokens": m} for t, n, m in REQUESTS]),
    "indented.json": json.dumps(
        [{"ts": START + t, "input_tokens": n, "output_tokens": m} for t, n, m in REQUESTS], indent=4
    ),
    "array.json.gz": gzip.compress(
        json.dumps([{"ts": START + t, "input_tokens": n, "output_tokens": m} for t, n, m in REQUESTS]).encode()
    ),
    "lines.json": lines(lambda t, n, m: {"time": START + t, "input_tokens": n, "output_tokens": m}),
    "turned.csv": HEADER + "".join(reversed(PLAIN.splitlines(keepends=True)[1:])),
    "azure.csv": table(lambda t, n, m: f"{iso(t, SPACED, '0')},{n},{m}", "TIMESTAMP,ContextTokens,GeneratedTokens\n"),
    "api.csv": table(lambda t, n, m: f"{iso(t)},{n},{m}", "created_at,prompt_tokens,completion_tokens\n"),
    "offset.csv": table(lambda t, n, m: f"{iso(t, zone='+00:00')},{n},{m}"),
    "postgres.csv": table(lambda t, n, m: f"{iso(t, SPACED, '+00')},{n},{m}"),
    "bigquery.csv": table(lambda t, n, m: f"{iso(t, SPACED, ' UTC')},{n},{m}"),
    "slashes.csv": table(lambda t, n, m: f"{iso(t, '%Y/%m/%d %H:%M:%S.%f', '')},{n},{m}"),
    "comma-seconds.csv": table(
        lambda t, n, m: f"{iso(t, SPACED, '').replace('.', ',')};{n};{m}", HEADER.replace(",", ";")
    ),
    "litellm.csv": table(
        lambda t, n, m: f"x,acompletion,0.1,{n + m},{n},{m},{iso(t, SPACED, '+00')},{iso(t + 9, SPACED, '+00')},m",
        LITELLM,
    ),
    "langfuse.csv": table(lambda t, n, m: f"x,GENERATION,{iso(t)},{iso(t + 2)},m,{n},{m},{n + m}", LANGFUSE),
    "langfuse.jsonl": lines(
        lambda t, n, m: {"start_time": iso(t, SPACED, ""), "usage_details": {"input": n, "output": m, "total": n + m}}
    ),
    "otel.ndjson": lines(
        lambda t, n, m: {
            "start_time": iso(t),
            "attributes": {"gen_ai.usage.input_tokens": n, "gen_ai.usage.output_tokens": m},
        }
    ),
    "gemini.jsonl": lines(
        lambda t, n, m: {"ts": iso(t), "usageMetadata": {"promptTokenCount": n, "candidatesTokenCount": m}}
    ),
    "milliseconds.csv": table(lambda t, n, m: f"{int((START + t) * 1000)},{n},{m}", HEADER.replace("_s", "")),
    "microseconds.csv": table(lambda t, n, m: f"{int((START + t) * 10**6)},{n},{m}", HEADER.replace("_s", "")),
    "burstgpt.csv": table(lambda t, n, m: f"{t},GPT-4,{n},{m},{n + m},API log", BURSTGPT),
}


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def workload_bytes(path: Path) -> bytes:
    """The workload file, but for its name and for how the clock was told."""
    target = path.parent / "w.yaml"
    write_workload(replace(summarize(read_trace(path)), name="w", clock=""), target, force=True)
    return target.read_bytes()


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_workload_of_the_plain_one(name: str, tmp_path: Path) -> None:
    plain = workload_bytes(put(tmp_path, "t.csv", PLAIN))
    assert b"requests: 6" in plain
    assert workload_bytes(put(tmp_path, name, FORMS[name])) == plain


WRAPPED = json.dumps({"data": [{"created": START, "prompt_tokens": 1, "completion_tokens": 1}], "meta": {}})
REFUSED: dict[str, tuple[str | bytes, str, str]] = {
    "t.csv.zst": (b"\x28\xb5\x2f\xfd1234", "packed by zstd", "zstd -d"),
    "t.parquet": (b"PAR1" + b"\0" * 60, "is Parquet", "to_csv"),
    "t.xlsx": (b"PK\x03\x04", "whole zip file", "again"),
    "two.zip": (b"", "", ""),
    "utf16.csv": (PLAIN.encode("utf-16"), "must be UTF-8 text", "UTF-8"),
    "wrapped.json": (WRAPPED, "holds a list of 1 in its key data", "jq -c '.data[]'"),
    "months.csv": (HEADER + "11/14/2023 22:13,5,5\n", "row 1, column arrival_s must be a time", "ISO 8601"),
    "thousands.csv": (
        "time;input_tokens;output_tokens\n1700000000;5;5\n12,345;5;5\n",
        "row 2, column time must be a number",
        "ISO 8601",
    ),
    "lengths.csv": ("ts;prompt_tokens;output_tokens\n1,5;1,000;5\n", "row 1, column prompt_tokens", "faulty"),
    "sums.csv": (
        "start_time,input_tokens,output_tokens,num_model_requests\n1700000000,900,90,7\n",
        "column num_model_requests counts the requests of a row",
        "single requests",
    ),
    "cached.jsonl": (
        '{"ts": 1700000000, "usage": {"input_tokens": 5, "cache_read_input_tokens": 900, "output_tokens": 9}}\n',
        "usage.input_tokens leaves out tokens of the prompt",
        "column with their sum",
    ),
    "two-times.csv": (
        "created_at,start_time,prompt_tokens,completion_tokens\n2023-01-01,2023-01-01,5,5\n",
        "several do: created_at, start_time",
        "columns: {arrival: T",
    ),
    "two-inputs.csv": (
        "ts,prompt_tokens,input_tokens,completion_tokens\n1,5,5,5\n",
        "several do: prompt_tokens, input_tokens",
        "--columns arrival=T",
    ),
    "cut.json": ('[{"ts": 1700000000, "input_tokens": 5, "output_tokens": 5},', "row 2 of the array", "ends with ]"),
    "numbers.json": ("[1, 2]", "row 1 of the array must be a JSON object", "array of requests"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_says_what_to_do(name: str, tmp_path: Path, refused: Refused) -> None:
    content, words, hint = REFUSED[name]
    if name == "two.zip":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("a.csv", PLAIN)
            archive.writestr("b.csv", PLAIN)
        content, words, hint = packed.getvalue(), "must hold one file, holds 2: a.csv, b.csv", "right one"
    path = put(tmp_path, name, content)
    refused(lambda: read_trace(path), name, words, hint=hint)


def test_a_spreadsheet_is_refused_by_name(tmp_path: Path, refused: Refused) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    refused(lambda: read_trace(put(tmp_path, "t.xlsx", packed.getvalue())), "is a spreadsheet", hint="CSV")


@pytest.mark.parametrize("packing", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_that_was_cut_off_is_refused(
    packing: Callable[[bytes], bytes], tmp_path: Path, refused: Refused
) -> None:
    text = table(lambda t, n, m: f"{START + t},{n},{m}") + "".join(
        f"{START + k},{k % 977 + 1},5\n" for k in range(9999)
    )
    data = packing(text.encode())
    refused(lambda: read_trace(put(tmp_path, "t.csv", data[: len(data) // 2])), "must be a whole", hint="again")


def test_a_long_array_in_one_line_is_read_piece_by_piece(tmp_path: Path) -> None:
    rows = [{"ts": START + k, "input_tokens": 1 + k % 50, "output_tokens": 5, "text": "x" * 200} for k in range(8000)]
    trace = read_trace(put(tmp_path, "t.json", json.dumps(rows)))
    assert (len(trace.arrival_s), trace.input_tokens[60]) == (8000, 11)


def test_nanoseconds_keep_their_microseconds(tmp_path: Path) -> None:
    text = table(lambda t, n, m: f"{int((START + t) * 10**9)},{n},{m}", HEADER.replace("_s", ""))
    arrivals = read_trace(put(tmp_path, "t.csv", text)).arrival_s
    assert list(arrivals) == pytest.approx([t for t, _, _ in REQUESTS], abs=1e-6)


def test_columns_that_early_requests_lack_are_seen(tmp_path: Path) -> None:
    failed = {"created": START, "error": "timeout", "usage": None}
    answered = {"created": START + 1, "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    path = put(tmp_path, "t.jsonl", f"{json.dumps(failed)}\n{json.dumps(answered)}\n")
    trace = read_trace(path, drop=["faulty"])
    assert list(trace.input_tokens) == [5]
    assert trace.reading.dropped == (("faulty", 1),)
    assert dict(trace.reading.columns)["input_tokens"] == "usage.prompt_tokens"


NAMED = [
    {"arrival": "t", "input_tokens": "n_in", "output_tokens": "n_out"},
    {"arrival_s": "T", "input_tokens": "N in", "output_tokens": "nout"},
]


@pytest.mark.parametrize("columns", NAMED)
def test_named_columns_need_not_be_spelt_as_in_the_file(columns: dict[str, str], tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", "t,n_in,n_out\n1,5,6\n2,5,6\n")
    assert list(read_trace(path, columns).output_tokens) == [6, 6]
