"""Traces counted as they pass by: the same figures as in memory, whatever the order of rows and the blocks."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.domain import RequestTrace
from planner.errors import InputError
from planner.files.tables.traces import reader, streams
from planner.files.tables.traces.options import trace_options
from planner.files.tables.traces.streams import TraceStream, UnorderedError
from planner.runs.workloads import profile_of_trace, sample_of_trace
from planner.workload import describe, summarize, tally_requests

Refused = Callable[..., None]
NO_OPTIONS = trace_options("t")
HEADER = "time,input_tokens,output_tokens\n"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_BLOCK", 7)
    monkeypatch.setattr(streams, "ROWS_HELD", 11)
    monkeypatch.setattr("planner.workload.summary._BLOCK", 5)


def write(folder: Path, times: list[float]) -> Path:
    rows = "".join(f"{1_700_000_000 + t!r},{1 + k % 13},{k % 5}\n" for k, t in enumerate(times))
    path = folder / "t.csv"
    path.write_text(HEADER + rows)
    return path


def test_a_stream_is_what_memory_says(tmp_path: Path, small_blocks: None) -> None:
    draw = np.random.default_rng(3)
    path = write(tmp_path, draw.exponential(0.7, 200).cumsum().round(3).tolist())
    stream = TraceStream(path, NO_OPTIONS)
    tally = tally_requests(stream.blocks())
    trace = reader.read_trace(path)
    assert tally.profile(stream.name, clock=stream.clock) == summarize(trace)
    assert tally.summary(stream.name, reading=stream.reading) == describe(trace)


@given(late=st.lists(st.integers(0, 9), min_size=30, max_size=60), stretch=st.sampled_from(["", "9s", "3m"]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_that_come_a_little_late_are_put_in_order(
    tmp_path: Path, small_blocks: None, late: list[int], stretch: str
) -> None:
    path = write(tmp_path, [float(k - shift) for k, shift in enumerate(late)])
    options = trace_options("t", first=stretch)
    trace = reader.read_with(path, options) if stretch != "3m" else None
    if trace is None:
        with pytest.raises(InputError, match="at least one request"):
            tally_requests(TraceStream(path, options).blocks())
        return
    tally = tally_requests(TraceStream(path, options).blocks())
    assert tally.profile("t", clock=trace.clock) == summarize(trace)


def test_rows_in_no_order_are_sorted_in_memory_and_that_is_said(tmp_path: Path, small_blocks: None) -> None:
    times = [float(k) for k in range(60)]
    path = write(tmp_path, times[::-1])
    with pytest.raises(UnorderedError):
        list(TraceStream(path, NO_OPTIONS).blocks())
    profile, summary = profile_of_trace(path, NO_OPTIONS)
    assert profile == summarize(reader.read_trace(path))
    assert not summary.reading.in_order


def test_the_last_hours_are_those_of_memory(tmp_path: Path, small_blocks: None) -> None:
    path = write(tmp_path, [float(k) for k in range(90)])
    options = trace_options("t", last="25s", drop=["unanswered"])
    profile, summary = profile_of_trace(path, options)
    assert profile == summarize(reader.read_with(path, options))
    assert summary.reading == reader.read_with(path, options).reading


def test_a_clock_that_changes_its_size_is_refused(tmp_path: Path, small_blocks: None, refused: Refused) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{1_700_000_000 + k},5,5\n" for k in range(40)] + [f"{(1_700_000_100 + k) * 1000},5,5\n" for k in range(9)]
    path.write_text(HEADER + "".join(rows))
    refused(lambda: profile_of_trace(path, NO_OPTIONS), "column time", "epochs in none", hint="unit")


def trace_in(folder: Path, text: str) -> RequestTrace:
    path = folder / "sample.csv"
    path.write_text(text)
    return reader.read_trace(path)


def test_a_sample_keeps_rate_lengths_and_bunching(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    busy = np.where(np.arange(40_000) // 2_000 % 2, 0.02, 0.2)  # slow and busy stretches take turns
    path = write(tmp_path, draw.exponential(busy).cumsum().round(4).tolist())
    of_trace = describe(reader.read_trace(path))
    text, summary = sample_of_trace(path, NO_OPTIONS, 8_000, seed=5)
    sample = describe(trace_in(tmp_path, text))
    assert summary == of_trace
    assert sample.requests == pytest.approx(8_000, rel=0.25)
    assert sample.mean_rps == pytest.approx(of_trace.mean_rps, rel=0.25)
    assert sample.prompts.mean == pytest.approx(of_trace.prompts.mean, rel=0.03)
    assert sample.burstiness == pytest.approx(of_trace.burstiness, rel=0.15)
    assert sample_of_trace(path, NO_OPTIONS, 8_000, seed=5)[0] == text
    assert sample_of_trace(path, NO_OPTIONS, 8_000, seed=6)[0] != text


def test_the_rate_of_samples_is_right_on_average(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    path = write(tmp_path, draw.exponential(0.5, 3_000).cumsum().round(3).tolist())
    counts = [sample_of_trace(path, NO_OPTIONS, 300, seed=seed)[0].count("\n") - 1 for seed in range(30)]
    # 48 stretches of Poisson arrivals: a standard deviation of about sqrt(300), a fifth of that for the mean of 30
    assert np.mean(counts) == pytest.approx(300, abs=3 * 300**0.5 / 30**0.5)


def test_a_sample_as_long_as_the_trace_is_the_trace(tmp_path: Path, small_blocks: None) -> None:
    path = write(tmp_path, [0.0, 1.0, 2.5, 4.0])
    trace = trace_in(tmp_path, sample_of_trace(path, NO_OPTIONS, 4, seed=0)[0])
    assert (list(trace.arrival_s), list(trace.input_tokens)) == ([0.0, 1.0, 2.5, 4.0], [1, 2, 3, 4])
