"""What holds for every page of a report: its charts are plotly's, nothing of it is lost, browsers open it."""

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path

import plotly.graph_objects as go
from opened_pages import NARROW, opened, started_browser

from planner.report.kit.html.charts import charts_json
from planner.report.kit.markdown import page_text, plain
from planner.report.kit.plots import Plot, chart_of
from planner.report.kit.tree import Page
from planner.runs.pages import page_bytes


def check_charts(page: Page, plots: Sequence[Plot]) -> None:
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
    html = page_bytes(page)
    assert html == page_bytes(page)
    assert len(html) < 1_500_000


def check_words(page: Page) -> None:
    """Every word that the report has in Markdown stands on its page."""
    shown = unescape(re.sub(r"<[^>]*>", " ", page_bytes(page).decode()))
    markdown = re.sub(r"```.*?```", "", page_text(page), flags=re.DOTALL)  # a drawing in letters
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)]*\)", "", markdown)  # pictures and the targets of links
    assert set(re.findall(r"[A-Za-z]{4,}", text)) <= set(re.findall(r"[A-Za-z]{4,}", shown))


def check_cells(page: Page) -> None:
    """Every cell that the report has in Markdown stands on its page."""
    markdown = page_text(page)
    lines = [line for line in markdown.splitlines() if line.startswith("|") and not set(line) <= set("|:- ")]
    cells = {plain(cell) for line in lines for cell in re.split(r"(?<!\\)\|", line)}
    assert cells <= {text.strip() for text in unescape(re.sub(r"<[^>]*>", "\n", page_bytes(page).decode())).split("\n")}


def check_opening(pages: Mapping[str, tuple[Page, Sequence[Plot]]], folder: Path) -> None:
    """All of them open without a complaint, in one browser."""
    with started_browser() as browser:
        for name, (report, plots) in pages.items():
            path = folder / f"{name}.html"
            path.write_bytes(page_bytes(report))
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
