"""Reports in Markdown as one HTML file each, their charts inlined: frontiers, replays, diagnoses, every study."""

from collections.abc import Sequence

from planner import files
from planner.plans.provenance import planner_version
from planner.report.kit.html.blocks import Chart
from planner.report.kit.html.page import html_page
from planner.report.kit.html.plots import Plot, chart_of
from planner.report.kit.html.written import page_of

PAGE_FILE = "report.html"


def written_page(markdown: str, plots: Sequence[Plot | Chart], *, title: str = "") -> bytes:
    """The report as a page: its words and tables, its charts first. Equal input gives equal bytes.

    PlannerError: names of charts that are no anchors or come twice, or a page above 4 MB.
    """
    charts = [chart_of(plot) if isinstance(plot, Plot) else plot for plot in plots]
    made_by = f"Made by planner {planner_version()}. The same results give the same page."
    return html_page(page_of(markdown, charts, made_by, title=title), files.chart_script()).encode()
