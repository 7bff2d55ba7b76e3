"""The unit of a trace's times: told by their size or name, stated, or asked for; never a thousand times off."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.domain import LengthProfile, RequestTrace
from planner.errors import InputError
from planner.files import load_workload, read_trace
from planner.files.tables.traces.clocks import TimeUnit, named_unit
from planner.workload import summarize

Refused = Callable[..., None]
Write = Callable[[str, str], Path]

HEAD = "timestamp,input_length,output_length\n"
NOVEMBER_2023_S = 1_700_000_000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

# timestamps of kvcache-ai/Mooncake @3b5a5941 (conversation trace, Apache-2.0): the first requests, one of every
# thousand after them and the last of 12 031, in milliseconds
MOONCAKE_MS = (0, 0, 3000, 3000, 3_536_999)


def _rows(times: "list[int] | list[float]", head: str = HEAD) -> str:
    return head + "".join(f"{time},10,2\n" for time in times)


@pytest.mark.parametrize("unit", PER_SECOND)
def test_an_epoch_is_told_by_its_size(write: Write, unit: str) -> None:
    times = [(NOVEMBER_2023_S + second) * PER_SECOND[unit] for second in range(5)]
    trace = read_trace(write("t.csv", _rows(times)))
    assert list(trace.arrival_s) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert trace.clock == (
        f"epoch in {TimeUnit(unit).name.lower()}, by the size of the numbers: the first is 2023-11-14 22:13 UTC"
    )
    assert summarize(trace).arrival_rps == 1.0


@given(
    unit=st.sampled_from(sorted(PER_SECOND)),
    start=st.integers(1_000_000_000, 2_400_000_000),
    gaps=st.lists(st.integers(1, 60), min_size=1, max_size=20),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_rate_is_the_same_in_every_unit(write: Write, unit: str, start: int, gaps: list[int]) -> None:
    times = [start + sum(gaps[:k]) for k in range(len(gaps) + 1)]
    profile = summarize(read_trace(write("t.csv", _rows([time * PER_SECOND[unit] for time in times]))))
    assert profile.arrival_rps == pytest.approx(len(gaps) / sum(gaps), rel=1e-6)


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("arrival_s", "s"),
        ("timestamp_ms", "ms"),
        ("Timestamp (us)", "us"),
        ("arrivalTimeNs", "ns"),
        ("time [milliseconds]", None),
        ("seconds", "s"),
        ("arrival microseconds", "us"),
        ("timestamps", None),
        ("TIMESTAMP", None),
        ("status", None),
    ],
)
def test_a_column_may_name_its_unit(column: str, unit: str | None) -> None:
    assert named_unit(column) == unit


def test_a_named_unit_is_taken_and_a_start_is_assumed_in_seconds_aloud(write: Write) -> None:
    named = read_trace(write("named.csv", _rows([0, 500, 1000], "timestamp_ms,input_length,output_length\n")))
    assert list(named.arrival_s) == [0.0, 0.5, 1.0]
    assert named.clock == "milliseconds, as column timestamp_ms is named"
    plain = read_trace(write("plain.csv", _rows([0, 1, 2])))
    assert list(plain.arrival_s) == [0.0, 1.0, 2.0]
    assert plain.clock == "seconds since a start, assumed: column timestamp does not tell its unit"


def test_milliseconds_since_a_start_are_asked_for(write: Write, refused: Refused) -> None:
    path = write("mooncake.csv", _rows(list(MOONCAKE_MS)))
    words = ("column timestamp", "unit of its times", "5 requests in 3.537e+06 s", "a second")
    refused(lambda: read_trace(path), *words, hint="--time-unit ms")
    refused(lambda: read_trace(path), hint="time_unit: ms")
    trace = read_trace(path, time_unit="ms")
    assert (max(trace.arrival_s), trace.clock) == (3536.999, "milliseconds, as stated")
    assert read_trace(path, time_unit="s").arrival_s[-1] == 3_536_999  # who says so is believed


@pytest.mark.parametrize(
    ("times", "head", "words"),
    [
        ([0.0] + [k * 1e-6 for k in range(1, 90)], HEAD, ("unit of its times", "a second")),
        ([5e10, 5e10 + 1], HEAD, ("unit of its times", "epochs in none of s, ms, us, ns")),
        ([1.7e12, 1.7e12 + 9], "arrival_s,input_tokens,output_tokens\n", ("its name tells s", "epoch in ms")),
        ([0, 1_700_000_000, 1_700_000_001], HEAD, ("at most 10 years", "row 1 and row 3", "54 years")),
        ([1_700_000_000, 1_700_000_000_500], HEAD, ("1700000000 (row 1) to 1700000000500 (row 2)", "epochs in none")),
        (["1970-01-01", "2023-11-16"], HEAD, ("at most 10 years", "row 1 and row 2", "54 years")),
    ],
)
def test_what_no_trace_can_be_is_refused(
    write: Write, refused: Refused, times: list[float], head: str, words: tuple[str, ...]
) -> None:
    path = write("t.csv", _rows(times, head))
    refused(lambda: read_trace(path), str(path), *words, hint="unit")


def test_a_unit_beside_iso_times_is_refused(write: Write, refused: Refused) -> None:
    path = write("t.csv", _rows(["2023-11-16 18:17:03", "2023-11-16 18:17:04"]))  # type: ignore[list-item]
    refused(lambda: read_trace(path, time_unit="ms"), "ISO 8601", hint="Leave the time unit out")
    assert read_trace(path).clock == ""


def test_a_workload_document_states_the_unit_and_the_columns(write: Write, refused: Refused) -> None:
    write("t.csv", "when,in,out\n0,10,2\n500,20,4\n")
    columns = "columns: {arrival_s: when, input_tokens: in, output_tokens: out}\n"
    path = write("w.yaml", f"name: mine\nkind: trace\nfile: t.csv\ntime_unit: ms\n{columns}")
    trace = load_workload(str(path))
    assert isinstance(trace, RequestTrace)
    assert (trace.name, list(trace.arrival_s)) == ("mine", [0.0, 0.5])
    path = write("w.yaml", f"kind: trace\nfile: t.csv\ntime_unit: minutes\n{columns}")
    refused(lambda: load_workload(str(path)), "time_unit must be one of s, ms, us, ns", "'minutes'")
    path = write("w.yaml", "kind: trace\nfile: gone.csv\n")
    refused(lambda: load_workload(str(path)), "w.yaml: file", "gone.csv", "no such file")


def test_what_was_assumed_stays_with_the_workload(write: Write, tmp_path: Path) -> None:
    from planner.files import write_workload

    profile = summarize(read_trace(write("t.csv", _rows([0, 1, 2]))))
    write_workload(profile, tmp_path / "w.yaml")
    assert "seconds since a start, assumed" in (tmp_path / "w.yaml").read_text()
    again = load_workload(str(tmp_path / "w.yaml"))
    assert isinstance(again, LengthProfile)
    assert again == profile


def test_blocks_read_as_rows_do(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [7, 3, 5, 1, 2, 9, 4]
    text = HEAD + "".join(f"{time},{10 + time},{time}\n" for time in times)
    whole = read_trace(write("t.csv", text))
    monkeypatch.setattr("planner.files.tables.traces.reader._BLOCK", 2)
    monkeypatch.setattr("planner.workload.summary._BLOCK", 2)
    assert read_trace(write("t.csv", text)) == whole
    assert list(whole.input_tokens) == [10 + time for time in sorted(times)]
    assert summarize(whole) == summarize(read_trace(write("t.csv", text)))
    path = write("bad.csv", text + "1,0,1\n")
    with pytest.raises(InputError, match="row 8, column input_length"):
        read_trace(path)


@pytest.mark.parametrize("cell", ["1_0", "0x1", "1e400", "٣٫"])
def test_numbers_are_those_of_csv_not_of_python(write: Write, refused: Refused, cell: str) -> None:
    path = write("t.csv", HEAD + f"0,{cell},2\n")
    refused(lambda: read_trace(path), "row 1, column input_length", "whole number of tokens")
