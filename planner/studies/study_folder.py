"""The folder of a study: its tables, its report in Markdown and as a page, its figures."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.report.kit.html.plots import Plot

SUMMARY_FILE, REPORT_FILE, FIGURES_FOLDER = "summary.md", "report.html", "figures"
ACRONYMS = frozenset({"grar"})


def study_files(
    tables: Mapping[str, bytes],
    page: Callable[[Mapping[str, str]], str],
    drawn: Mapping[str, bytes],
    plots: "Sequence[Plot]",
) -> dict[str, bytes]:
    """Every file by its path. `drawn`: PNGs by name; `page` is handed their paths by title; `plots`: of the HTML."""
    from planner.runs.pages import written_page

    paths = {name: f"{FIGURES_FOLDER}/{name}.png" for name in drawn}
    titles = {name.upper() if name in ACRONYMS else name.replace("_", " ").capitalize(): paths[name] for name in drawn}
    return {
        **tables,
        SUMMARY_FILE: page(titles).encode(),
        REPORT_FILE: written_page(page({}), plots),
        **{paths[name]: png for name, png in drawn.items()},
    }
