"""Pages of frontiers, replays, diagnoses and every study: their numbers, their charts, opened in Chromium once."""

import json
import re
import sys
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import plotly.graph_objects as go
import pytest
from hand_made_plan import make_inventory, make_scenario
from hypothesis import given
from hypothesis import strategies as st
from opened_pages import NARROW, opened, started_browser
from replay_results import replayed, swept
from test_diagnosis_report import CLUSTER
from test_frontier_figure import ROWS
from test_frontier_figure import point as frontier_point
from test_policy_report import run as policy_run
from test_preemption_report import FULL, SETTINGS
from test_preemption_report import count as hit_count
from test_serving_figure import compared_forms
from test_serving_report import POOL, run_of
from test_spot_report import CURVE, LIMITS, RUNS

from planner.domain import Frontier, VictimMethod
from planner.domain.diagnosis import GpuRequest
from planner.placement.diagnosis import diagnose
from planner.report import (
    diagnosis_page,
    diagnosis_plots,
    frontier_page,
    frontier_plots,
    replay_page,
    replay_plots,
    serving_page,
    serving_plots,
)
from planner.report.kit.html.blocks import Chart, DataTable, Prose
from planner.report.kit.html.charts import charts_json
from planner.report.kit.html.plots import MOST_POINTS, Kind, Plot, Series, chart_of, series_of, thinned
from planner.report.kit.html.written import cell_of, cells_of, page_of
from planner.runs.pages import written_page
from planner.studies.asi.report.page import asi_page
from planner.studies.asi.report.plots import asi_plots
from planner.studies.asi.study import study_trace
from planner.studies.chapter5.report.page import study_page
from planner.studies.chapter5.report.plots import chapter5_plots
from planner.studies.defragmentation.records import ChurnWorkload, DefragmentationStudy
from planner.studies.defragmentation.report.page import churn_page
from planner.studies.defragmentation.report.plots import churn_plots
from planner.studies.defragmentation.study import run_churn
from planner.studies.policies.report.page import policies_page
from planner.studies.policies.report.paper_page import paper_page
from planner.studies.policies.report.plots import policy_plots, trace_plots
from planner.studies.preemption.records import SourcingLatency
from planner.studies.preemption.report.page import preemption_page
from planner.studies.preemption.report.plots import preemption_plots
from planner.studies.serving.records import ServingSettings
from planner.studies.serving.report.page import ServingPage
from planner.studies.serving.report.page import serving_page as queue_page
from planner.studies.serving.report.plots import serving_plots as queue_plots
from planner.studies.spot.report.page import SpotPage, spot_page
from planner.studies.spot.report.plots import spot_plots

sys.path.append(str(Path(__file__).parents[1] / "studies"))
from asi_trace import write_trace
from study_outcomes import outcome, study

FRONTIER = Frontier(points=tuple(frontier_point(*row) for row in ROWS))
NAMES = (
    *("asi", "chapter5", "defragmentation", "diagnosis", "frontier", "policies", "preemption", "pwr", "queue"),
    *("replay", "serving", "spot"),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, module_plan):
    """Markdown and plots by name."""
    scenario = module_plan.scenario
    churn = DefragmentationStudy(
        workload=ChurnWorkload(nodes=8, days=1, warm_up_days=0.25), every_hours=(None, 12.0), seeds=(0,), exact_seeds=()
    )
    runs = list(run_churn(churn))
    traces = {"multigpu20": {"fgd": [policy_run("fgd", 5, 100)], "pwr": [policy_run("pwr", 8, 80)]}}
    hits = [hit_count(20), hit_count(50, method=VictimMethod.MASKS)]
    times = [_latency(VictimMethod.STANDARD, 900.0), _latency(VictimMethod.MASKS, 120.0)]
    queued = [run_of("baseline"), run_of("rr-deadline")]
    trace = study_trace(write_trace(tmp_path_factory.mktemp("asi")))
    chapter5 = study(["5.5"], outcome("batch size", {2.0: [[500, 600], [550, 700]], 4.0: [[510, 800], [520, 790]]}))
    forms = compared_forms()
    diagnosis = diagnose(CLUSTER, requests=(GpuRequest.parse("4G32C"),), jobs=(8,), cpus_per_gpu=8)
    spot = SpotPage(
        runs=RUNS, baseline="random|x", nodes=13, days=6.0, warm_up_days=1.0, points=CURVE, answers=(), limits=LIMITS
    )
    return {
        "asi": (asi_page(trace, {}), asi_plots(trace)),
        "chapter5": (study_page(chapter5), chapter5_plots(chapter5)),
        "defragmentation": (churn_page(churn, runs, []), churn_plots(runs)),
        "diagnosis": (diagnosis_page(diagnosis), diagnosis_plots(diagnosis)),
        "frontier": (frontier_page(FRONTIER, scenario), frontier_plots(FRONTIER, scenario)),
        "policies": (
            policies_page(traces["multigpu20"], "fgd", name="t", figures={}),
            policy_plots(traces["multigpu20"], "fgd"),
        ),
        "preemption": (preemption_page(hits, times, SETTINGS), preemption_plots(hits, times)),
        "pwr": (paper_page(traces, (1,), ()), trace_plots(traces, "fgd")),
        "queue": (
            queue_page(ServingPage(runs=queued, pool=POOL, settings=ServingSettings(), name="q")),
            queue_plots(queued),
        ),
        "replay": (replay_page(replayed(), swept()), replay_plots(replayed(), swept())),
        "serving": (serving_page(forms, scenario), serving_plots(forms)),
        "spot": (spot_page(spot), spot_plots(RUNS, "random|x", CURVE, LIMITS)),
    }


@pytest.fixture(scope="module")
def module_plan():
    class Named:
        scenario = make_scenario(make_inventory())

    return Named


def _latency(method: VictimMethod, p50_us: float) -> SourcingLatency:
    return SourcingLatency(
        nodes=100,
        workload="B",
        method=method,
        p50_us=p50_us,
        p90_us=1.5 * p50_us,
        repetitions=3,
        initial=FULL,
        mode=SETTINGS.modes[0],
        p50_sets=None,
        p90_sets=None,
    )


@pytest.mark.parametrize("name", NAMES)
def test_charts_are_plotlys_and_bring_their_numbers(pages, name):
    markdown, plots = pages[name]
    charts = [chart_of(plot) for plot in plots]
    assert charts
    drawn = json.loads(charts_json(charts))
    for plot, chart in zip(plots, charts, strict=True):
        go.Figure(data=drawn[chart.name]["data"], layout=drawn[chart.name]["layout"])  # refuses what plotly has not
        assert chart.says
        assert chart.layout["xaxis"]["title"]["text"] == plot.x
        assert chart.layout["yaxis"]["title"]["text"] == plot.y
        listed = [(row[0], row[1], row[2]) for row in chart.table.rows][: sum(len(s.x) for s in plot.series)]
        assert listed == [(s.name, x, y) for s in plot.series for x, y in zip(s.x, s.y, strict=True)]
    html = written_page(markdown, plots)
    assert html == written_page(markdown, plots)
    assert len(html) < 1_500_000


@pytest.mark.parametrize("name", NAMES)
def test_no_word_and_no_row_of_the_report_is_lost(pages, name):
    markdown, _ = pages[name]
    shown = unescape(re.sub(r"<[^>]*>", " ", written_page(markdown, ()).decode()))
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)]*\)", "", markdown)  # pictures and the targets of links
    assert set(re.findall(r"[A-Za-z]{4,}", text)) <= set(re.findall(r"[A-Za-z]{4,}", shown))
    tables = [b for section in page_of(markdown, [], "").sections for b in section.blocks if isinstance(b, DataTable)]
    lines = [line for line in markdown.splitlines() if line.startswith("|") and not set(line) <= set("|:- ")]
    assert [len(cells_of(line)) for line in lines] == [
        len(row) for table in tables for row in (table.columns, *table.rows)
    ]


def test_all_of_them_open_without_a_complaint(pages, tmp_path):
    with started_browser() as browser:
        for name, (markdown, plots) in pages.items():
            path = tmp_path / f"{name}.html"
            path.write_bytes(written_page(markdown, plots))
            with opened(browser, path, NARROW) as page:
                drawn = page.figures()
                assert page.complaints == [], name
                assert page.overflow() <= 0, name
                assert page.hidden() == [], name
                assert all(url.startswith(("file:", "data:", "blob:")) for url in page.requests)
                assert set(drawn) <= {plot.name for plot in plots}
                assert drawn, name
                first = drawn[plots[0].name]
                assert first[0]["name"] == plots[0].series[0].name


class TestPlots:
    def test_bounds_are_told_apart(self):
        bounds = (("deployed", 3.0), ("never below", 2.0))
        chart = chart_of(self.plot([series_of("rate", [(1.0, 2.0), (5.0, 4.0)])], bounds=bounds))
        dashes = [trace["line"]["dash"] for trace in chart.traces if trace["name"] != "rate"]
        assert dashes == ["dash", "dot"]

    def test_bounds_are_lines_at_their_values(self):
        chart = chart_of(self.plot([series_of("rate", [(1.0, 2.0), (5.0, 4.0)])], bounds=(("demand", 3.0),)))
        (line,) = [trace for trace in chart.traces if trace["name"] == "demand"]
        assert (line["x"], line["y"]) == ([1.0, 5.0], [3.0, 3.0])
        assert chart.table.rows[-1] == ("demand", None, 3.0)

    def test_intervals_are_distances_from_the_points(self):
        series = Series(name="a", x=(1.0, 2.0), y=(5.0, 6.0), low=(3.0, None), high=(9.0, None))
        (trace,) = chart_of(self.plot([series], interval="P10–P90")).traces
        assert trace["error_y"]["array"] == [4.0, 0.0]
        assert trace["error_y"]["arrayminus"] == [2.0, 0.0]
        assert chart_of(self.plot([series], interval="P10–P90")).table.columns[-2:] == ("P10–P90: low", "high")

    @given(st.integers(2, 4000))
    def test_long_series_are_thinned_to_their_ends(self, count):
        series = series_of("a", [(float(k), float(k)) for k in range(count)])
        short = thinned(series)
        assert len(short.x) == min(count, MOST_POINTS)
        assert (short.x[0], short.x[-1]) == (0.0, count - 1.0)
        assert list(short.x) == sorted(set(short.x))
        assert short.x == short.y

    def plot(self, series: Sequence[Series], **more: object) -> Plot:
        usual = {"name": "p", "title": "t", "says": "s", "kind": Kind.LINES, "x": "x", "y": "y"}
        return Plot(series=tuple(series), **(usual | more))


class TestMarkdown:
    @pytest.mark.parametrize(
        ("text", "cell"),
        [
            ("1,234.5", 1234.5),
            ("7", 7),
            ("-3", -3),
            ("**2,635**", 2635),
            ("–", None),
            ("", None),
            ("12 %", "12 %"),
            (r"rr\_x", "rr_x"),
            ("1-2", "1-2"),
            ("[a](b)", "a"),
        ],
    )
    def test_cells(self, text, cell):
        assert cell_of(text) == cell
        assert type(cell_of(text)) is type(cell)

    def test_an_escaped_bar_parts_no_cells(self):
        assert cells_of(r"| a\|b | 2 |") == [r"a\|b", "2"]

    def test_parts_of_a_page(self):
        page = page_of(
            "# T\\_x\n\nFirst.\n\n**Bold** one.\n\nMore.\n\n## P\n\ntext\n\n![f](f.png)\n\n| a |\n| ---: |\n| 1 |\n",
            [],
            "m",
        )
        assert (page.title, page.verdict) == ("T_x", "**Bold** one.")
        words, part = page.sections
        assert words.blocks == (Prose(markdown="First.\n\nMore."),)
        assert part.blocks == (Prose(markdown="text"), DataTable(columns=("a",), rows=((1,),)))

    def test_markup_in_a_report_is_shown_not_run(self):
        html = written_page("# <script>alert(1)</script>\n\nx <img src=y onerror=z>\n", ()).decode()
        assert "<script>alert" not in html
        assert "<img" not in html


def test_a_chart_may_stand_for_itself():
    chart = Chart(
        name="c",
        title="t",
        says="s",
        traces=({"type": "bar", "x": [1], "y": [2]},),
        layout={},
        table=DataTable(columns=("a",), rows=()),
    )
    assert b'data-chart="c"' in written_page("# T\n\nv\n", [chart])
