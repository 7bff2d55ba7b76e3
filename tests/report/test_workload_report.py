"""What is shown of a workload: rows, letters, figure, page, document."""

import json
from dataclasses import replace

import numpy as np
import pytest

from planner.domain import PromptBlocks, RequestTrace
from planner.domain.workload import PartReuse, TraceReading, TraceSummary
from planner.files import load_workload
from planner.report.kit.tree import Chart
from planner.report.workload.document import picture, sparkline, workload_document
from planner.report.workload.page import encoded_workload_figure, workload_figure, workload_page
from planner.report.workload.words import duration, summary_rows, working_set
from planner.workload import describe

READING = TraceReading(
    form="CSV, commas",
    columns=(("arrival_s", "t"), ("input_tokens", "n")),
    rows=1000,
    dropped=(("faulty", 25),),
    clock="ISO 8601",
    began="2026-03-01 00:00:00",
    unanswered=4,
    in_order=False,
    parts=(PartReuse(name="system", ids=40, again=30),),
)


@pytest.fixture
def summary() -> TraceSummary:
    """600 requests in an hour, in pairs of which the second begins as the first does; busiest in the first minute."""
    arrivals = np.concatenate((np.zeros(120) + np.arange(120) * 0.5, 60 + np.arange(480) * 7.4))
    blocks = [number for k in range(600) for number in (k // 2, 1000 + k)]
    return replace(
        describe(
            RequestTrace(
                name="mine",
                arrival_s=arrivals.tolist(),
                input_tokens=[1024] * 600,
                output_tokens=[10, 30] * 300,
                blocks=PromptBlocks(block_tokens=512, ids=blocks, ends=range(2, 1201, 2)),
            )
        ),
        reading=READING,
    )


def test_rows_by_hand(summary: TraceSummary) -> None:
    rows = dict(summary_rows(summary))
    assert rows["rows left out: faulty"] == "25 (2.50%)"
    assert rows["clock"] == "ISO 8601; the first arrival 2026-03-01 00:00:00 UTC"
    assert rows["order"] == "rows were not in order of arrival: sorted in memory"
    assert rows["busiest minute"].startswith("2 requests/s, 12")
    assert rows["answers (tokens)"] == "mean 20.0, P50 10, P90 30, P99 30, at most 30"
    assert rows["part system"] == "40 ids, 75.0% came before"
    assert rows["requests without an answer"].startswith("4: they count")
    assert "working set" in rows
    # half of the prompts find 512 of their 1024 tokens
    assert workload_document(summary)["cached_at_without_bounds"] == 0.25


def test_the_fleet_for_the_busiest_window_idles_the_rest(summary: TraceSummary) -> None:
    # 600 requests in 3604.6 s: a mean of 0.166 a second has 30 requests in 10 minutes, not in a minute
    assert summary.mean_rps is not None
    peak = {p.window_s: p.rps for p in summary.peaks}[600.0]
    rows = dict(summary_rows(summary))
    assert (
        rows["a fleet for the busiest 10 minutes"] == f"idles {1 - summary.mean_rps / peak:.0%} of its time on average"
    )


def test_rounded_clocks_are_told() -> None:
    times = [3.0 * (k // 5) for k in range(500)]
    summary = describe(RequestTrace(name="t", arrival_s=times, input_tokens=[5] * 500, output_tokens=[1] * 500))
    assert dict(summary_rows(summary))["same moment"].startswith("80% of requests have the time of the one before")


def test_letters_fit_a_terminal(summary: TraceSummary) -> None:
    text = picture(summary)
    assert max(map(len, text.splitlines())) <= 80
    assert "1,024-2,047  ████████████████████████████████ 100.0%" in text
    assert sparkline([0, 1, 4, 8]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "second"), (60, "minute"), (600, "10 minutes"), (3600, "hour"), (86_400 * 7, "7 days"), (12.5, "12.5 s")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_figure_has_a_panel_a_subject(summary: TraceSummary) -> None:
    assert [axes.get_title(loc="left") for axes in workload_figure(summary).axes] == [
        "Requests a second, in windows of 10 s",
        "Lengths, by powers of two",
        "How arrivals bunch: variance over mean of counts",
        "Share of prompt tokens that one prefix cache would find",
        "Share of prompt tokens found where unused blocks are dropped",
    ]
    plain = describe(load_workload("normal-500-2000"))
    assert [axes.get_ylabel() for axes in workload_figure(plain).axes] == ["tokens, from"]
    assert encoded_workload_figure(plain, "svg") == encoded_workload_figure(plain, "svg")


def test_the_page_holds_the_numbers_of_its_charts(summary: TraceSummary) -> None:
    page = workload_page(summary, "made by a test")
    assert page.verdict.startswith("600 requests at 0.166 a second over 60.08 minutes")
    charts = {block.name: block for section in page.sections for block in section.blocks if isinstance(block, Chart)}
    assert set(charts) == {"rate", "bunching", "length-bins", "reuse", "timeouts"}
    assert sum(int(row[1] or 0) for row in charts["rate"].table.rows) == 600
    assert [row[2] for row in charts["rate"].table.rows] == [round(y, 4) for y in charts["rate"].traces[0]["y"][:-1]]
    assert [row[1] for row in charts["bunching"].table.rows] == charts["bunching"].traces[0]["y"]
    assert [section.name for section in workload_page(describe(load_workload("normal-500-2000")), "").sections] == [
        "lengths",
        "facts",
    ]


def test_the_document_is_json(summary: TraceSummary) -> None:
    document = json.loads(json.dumps(workload_document(summary), allow_nan=False))
    assert (document["requests"], document["form"], document["rows_left_out"]) == (600, "CSV, commas", {"faulty": 25})
    assert summary.prefix is not None
    assert document["working_set_tokens"] == working_set(summary.prefix)[0]
