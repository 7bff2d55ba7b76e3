"""Figures of the paper before any search: divisions by skew (4.8), what islands can do (5.1), tokens (5.13)."""

import csv
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest
from reference_data import reference_path
from study_outcomes import study
from test_given_islands import CASE, scenario

from planner.domain import PHASES
from planner.files import read_trace
from planner.studies.chapter5.inner_loop import CONTEXT, GENERATED, divisions, profile_tokens, run_islands, trace_tokens
from planner.studies.chapter5.records import TokenCounts
from planner.studies.chapter5.report.frames import study_frame
from planner.studies.chapter5.report.plots import render_study
from planner.workload import summarize


def test_sizes_of_figure_4_8_by_hand() -> None:
    """100 GPUs, five islands of at least 2: 90 left, in proportion to k ** skew, by largest remainders."""
    sizes = {division.skew: division.sizes for division in divisions()}
    assert sizes[0] == (20, 20, 20, 20, 20)
    assert sizes[1] == (8, 14, 20, 26, 32)  # 90 k / 15 and 2
    assert sizes[2] == (4, 8, 17, 28, 43)  # 90 k² / 55: 1.64, 6.55, 14.73, 26.18, 40.91
    spreads = [statistics.pstdev(sizes[skew]) for skew in (0, 1, 2, 5)]
    assert spreads == sorted(spreads)  # the caption: the higher the skew, the wider the sizes
    assert all(sum(row) == 100 and min(row) >= 2 for row in sizes.values())


def test_benchmarks_are_what_the_shares_are_of() -> None:
    outcome = run_islands(CASE, scenario())
    rates = {(row.island, row.phase): row.rates_rps for row in outcome.benchmarks}
    assert len(rates) == 2 * len(CASE.layout.counts)
    for shares in outcome.shares:
        for share, rate, b in zip(
            shares.time_shares, shares.rates_rps, rates[shares.island, shares.phase], strict=True
        ):
            assert rate == pytest.approx(shares.count * share * b)
    for phase in PHASES:  # larger islands of a type do more at every length
        by_size = [rates[island, phase] for island, _ in sorted(CASE.layout.counts, key=lambda row: row[0].size)]
        assert all(small <= large for a, b in pairwise(by_size) for small, large in zip(a, b, strict=True))


def test_tokens_of_the_published_traces() -> None:
    """Azure's trace of 2023: 8,819 code requests, answers of 28 tokens on average and at most 1,899."""
    trace = read_trace(reference_path("azure_llm_2023/code.csv"))
    counts = {row.side: row for row in trace_tokens([trace])}
    assert sum(counts[GENERATED].shares) == pytest.approx(1)
    assert counts[GENERATED].mean == pytest.approx(sum(trace.output_tokens) / 8819)
    assert counts[GENERATED].starts[-1] == 1899 // 32 * 32
    assert counts[GENERATED].shares[0] * 8819 == pytest.approx(sum(tokens < 32 for tokens in trace.output_tokens))
    (profiled,) = profile_tokens([summarize(trace)])
    assert profiled.shares == pytest.approx(counts[CONTEXT].shares)


def test_each_figure_has_its_table() -> None:
    tokens = TokenCounts(trace="t_$1$", side=CONTEXT, width=256, starts=(0, 256), shares=(0.25, 0.75), mean=300.0)
    made = replace(study(("4.8", "5.13")), divisions=divisions(), tokens=(tokens,))
    pages = render_study(made)
    assert sorted(pages) == sorted(
        ["study.md", *(f"figure_{k}.{kind}" for k in ("4_8", "5_13") for kind in ("csv", "png", "svg"))]
    )
    rows = list(csv.DictReader(pages["figure_5_13.csv"].decode().splitlines()))
    assert [(row["bin_start"], row["bin_end"], row["share_of_requests"]) for row in rows] == [
        ("0", "256", "0.25"),
        ("256", "512", "0.75"),
    ]
    assert len(study_frame(made, "4.8")) == 7 * 5
    assert b"`--trace` shows a trace's own" in pages["study.md"]


def test_rates_of_lengths_are_those_of_the_islands() -> None:
    """At the trace's rate each length comes as often as it is likely, in both phases."""
    outcome = run_islands(CASE, scenario())
    frame = study_frame(replace(study(("5.4",)), islands=(outcome,)), "5.4")
    by_phase = frame.groupby("phase").trace_rps.sum()
    assert sorted(by_phase.index) == sorted(phase.value for phase in PHASES)
    assert by_phase.tolist() == pytest.approx([outcome.rate_rps] * len(PHASES))
    assert len(frame) == len(PHASES) * len(outcome.lengths)
