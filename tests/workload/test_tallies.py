"""What is counted of requests as they pass by, against counts by hand and against numpy on all of them at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_data import reference_path

from planner.domain import RequestTrace
from planner.files import load_workload, read_trace
from planner.workload import count_dispersion, describe, profile_and_summary, summarize
from planner.workload.tallies import MOST_POINTS, RequestTally, length_facts


def trace_of(arrivals: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> RequestTrace:
    n = len(arrivals)
    return RequestTrace(name="t", arrival_s=arrivals.tolist(), input_tokens=[5] * n, output_tokens=[1] * n)


@given(
    gaps=st.lists(st.floats(0, 400, allow_subnormal=False), min_size=1, max_size=300),
    blocks=st.lists(st.integers(1, 60), min_size=1, max_size=9),
)
def test_blocks_count_as_one(gaps: list[float], blocks: list[int]) -> None:
    arrivals = np.concatenate(([0.0], np.cumsum(gaps)))
    prompts, answers = np.arange(len(arrivals)) % 7 + 1, np.arange(len(arrivals)) % 3
    tally, start, turn = RequestTally(), 0, 0
    while start < len(arrivals):
        part = slice(start, start + blocks[turn % len(blocks)])
        tally.take(arrivals[part], prompts[part], answers[part])
        start, turn = part.stop, turn + 1
    summary = tally.summary("t")
    assert summary.requests == len(arrivals)
    assert sum(summary.series.requests) == len(arrivals)
    assert len(summary.series.requests) <= MOST_POINTS
    for window, value in summary.dispersion:
        assert value == pytest.approx(count_dispersion(arrivals, [window])[0], rel=1e-12)
    for peak in summary.peaks:
        most = np.bincount(np.floor(arrivals / peak.window_s).astype(int)).max()
        assert peak.rps == pytest.approx(most / peak.window_s)
    if summary.burstiness is not None:
        differences = np.diff(arrivals)
        assert summary.burstiness == pytest.approx(differences.std() / differences.mean(), rel=1e-9, abs=1e-7)
    assert summary.simultaneous == pytest.approx((np.diff(arrivals) == 0).mean())


def test_regular_arrivals_have_no_burstiness() -> None:
    summary = describe(trace_of(np.arange(5000) * 0.1))
    assert summary.burstiness == pytest.approx(0, abs=1e-6)
    assert [peak.rps for peak in summary.peaks] == pytest.approx([10, 10, 10], rel=0.1)


def test_the_series_widens_to_whole_multiples() -> None:
    arrivals = np.array([0.0, 0.5, 1.5, 959.0, 960.0, 86_400.0 * 3])
    series = describe(trace_of(arrivals)).series
    assert (series.width_s, series.requests[0], series.requests[1], series.requests[-1]) == (600.0, 3, 2, 1)
    assert len(series.requests) == 3 * 144 + 1


def test_percentiles_by_hand() -> None:
    facts = length_facts({1: 50, 8: 40, 100: 9, 1000: 1})
    assert (facts.p50, facts.p90, facts.p99, facts.most) == (1, 8, 100, 1000)
    assert facts.mean == pytest.approx((50 + 320 + 900 + 1000) / 100)
    assert facts.bins[0] == (1, 2, 0.5)
    assert facts.bins[1] == (2, 4, 0.0)
    assert facts.bins[-1] == (512, 1024, 0.01)
    assert length_facts({0: 3, 1: 1}).bins == ((0, 1, 0.75), (1, 2, 0.25))
    assert length_facts(dict.fromkeys((1, 2, 3), 1 / 3)).p99 == 3


def test_mooncake_has_the_published_figures() -> None:
    """12 031 requests in 59 minutes, prompts to 120K tokens (of 1024: 123); its clock has steps of 3 s."""
    profile = load_workload("mooncake-conversation")
    summary = describe(profile)
    assert (summary.requests, round((summary.span_s or 0) / 60)) == (12_031, 59)
    assert summary.prompts.most // 1024 == 123
    part = describe(read_trace(reference_path("mooncake/conversation_1500.jsonl.gz"), time_unit="ms"))
    assert part.simultaneous > 0.85


def test_ragpulse_has_the_published_figures() -> None:
    """7 106 requests of a week."""
    summary = describe(load_workload("ragpulse-week"))
    assert (summary.requests, round((summary.span_s or 0) / 86_400)) == (7_106, 7)
    assert summary.prefix is None


@pytest.mark.parametrize(("stem", "peak"), [("code", 632), ("conv", 507)])
def test_azure_peaks_are_those_of_their_rows(stem: str, peak: int) -> None:
    trace = read_trace(reference_path(f"azure_llm_2023/{stem}.csv"))
    profile, summary = profile_and_summary(trace)
    assert profile == summarize(trace)
    assert summary == describe(trace)
    minutes = np.bincount((np.array(trace.arrival_s) // 60).astype(int))
    assert minutes.max() == peak
    assert {p.window_s: p.rps for p in summary.peaks}[60.0] == peak / 60
