"""Pages of frontiers, replays, diagnoses: their numbers, their charts, opened in Chromium once."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hand_made_plan import make_inventory, make_scenario
from hypothesis import given
from hypothesis import strategies as st
from page_checks import check_cells, check_charts, check_opening, check_words
from replay_results import replayed, swept
from test_diagnosis_report import CLUSTER
from test_frontier_figure import ROWS
from test_frontier_figure import point as frontier_point
from test_serving_figure import compared_forms

from planner import report
from planner.domain import Frontier
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
from planner.report.kit.html.written import cell_of, cells_of, page_of
from planner.report.kit.plots import MOST_POINTS, Kind, Plot, Series, chart_of, series_of, thinned
from planner.report.kit.tree import Chart, DataTable, Prose
from planner.runs.pages import written_page

FRONTIER = Frontier(points=tuple(frontier_point(*row) for row in ROWS))
NAMES = ("diagnosis", "frontier", "replay", "serving")


@pytest.fixture(scope="module")
def pages():
    """Reports and their plots by name."""
    scenario, forms = make_scenario(make_inventory()), compared_forms()
    diagnosis = diagnose(CLUSTER, requests=(GpuRequest.parse("4G32C"),), jobs=(8,), cpus_per_gpu=8)
    return {
        "diagnosis": (diagnosis_page(diagnosis), diagnosis_plots(diagnosis)),
        "frontier": (frontier_page(FRONTIER, scenario), frontier_plots(FRONTIER, scenario)),
        "replay": (replay_page(replayed(), swept()), replay_plots(replayed(), swept())),
        "serving": (serving_page(forms, scenario), serving_plots(forms)),
    }


@pytest.mark.parametrize("name", NAMES)
def test_charts_are_plotlys_and_bring_their_numbers(pages, name):
    check_charts(*pages[name])


@pytest.mark.parametrize("name", NAMES)
def test_no_word_and_no_row_of_the_report_is_lost(pages, name):
    check_words(pages[name][0])
    check_cells(pages[name][0])


def test_all_of_them_open_without_a_complaint(pages, tmp_path):
    check_opening(pages, tmp_path)


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


def test_subjects_leave_markup_to_the_writers():
    """No subject writes HTML, headings, tables or lists of Markdown itself; emphasis and code in a line are its own."""
    folder = Path(report.__file__).parent
    subjects = [path for path in folder.rglob("*.py") if "kit" not in path.parts and path.parent != folder]
    assert len(subjects) > 40
    markup = re.compile(r"kit\.html|</?(?:p|div|table|td|h\d|li|ul)\b|\\n\\n|f?\"#{1,4} |\| ?:?---|f?\"- \{")
    assert {path.name: hits for path in subjects if (hits := markup.findall(_code(path)))} == {}


def _code(path: Path) -> str:
    """Without its docstrings, some of which have tables."""
    return re.sub(r'"""(?:.|\n)*?"""', "", path.read_text())
