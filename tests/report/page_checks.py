"""What holds for every page of a report: its charts are plotly's, nothing of it is lost, browsers open it."""

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path

import plotly.graph_objects as go
from opened_pages import NARROW, opened, started_browser

from planner.report.kit.html.blocks import DataTable
from planner.report.kit.html.charts import charts_json
from planner.report.kit.html.plots import Plot, chart_of
from planner.report.kit.html.written import cells_of, page_of
from planner.runs.pages import written_page


def check_charts(markdown: str, plots: Sequence[Plot]) -> None:
    """Charts are plotly's and bring their numbers."""
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


def check_words(markdown: str) -> None:
    """No word and no row of the report is lost."""
    shown = unescape(re.sub(r"<[^>]*>", " ", written_page(markdown, ()).decode()))
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)]*\)", "", markdown)  # pictures and the targets of links
    assert set(re.findall(r"[A-Za-z]{4,}", text)) <= set(re.findall(r"[A-Za-z]{4,}", shown))
    tables = [b for section in page_of(markdown, [], "").sections for b in section.blocks if isinstance(b, DataTable)]
    lines = [line for line in markdown.splitlines() if line.startswith("|") and not set(line) <= set("|:- ")]
    assert [len(cells_of(line)) for line in lines] == [
        len(row) for table in tables for row in (table.columns, *table.rows)
    ]


def check_opening(pages: Mapping[str, tuple[str, Sequence[Plot]]], folder: Path) -> None:
    """All of them open without a complaint, in one browser."""
    with started_browser() as browser:
        for name, (markdown, plots) in pages.items():
            path = folder / f"{name}.html"
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
