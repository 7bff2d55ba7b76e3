"""Comparisons as files to send: a page, a table, the words."""

from pathlib import Path

from planner import files
from planner.domain.comparisons import PlanComparison, Sweep
from planner.report.comparison.plans.side_by_side import comparison_page, every_figure
from planner.report.comparison.plans.side_by_side_page import comparison_html
from planner.report.comparison.plans.sweep_html import sweep_html
from planner.report.comparison.plans.sweep_tables import exact_points, sweep_page
from planner.runs.pages import made_by, page_bytes

FOLDER_SOURCE = "runs beside each other"
"""By which the page of a comparison is known, so that the next one may take its place."""


def comparison_bytes(comparison: PlanComparison) -> bytes:
    """The page of a comparison."""
    return page_bytes(comparison_html(comparison, made_by(), FOLDER_SOURCE))


def comparison_files(comparison: PlanComparison) -> dict[str, bytes]:
    """Relative path -> content: words, figures as a table, page."""
    return {
        "comparison.md": comparison_page(comparison).encode(),
        "comparison.csv": every_figure(comparison).csv(),
        "report.html": comparison_bytes(comparison),
    }


def sweep_files(sweep: Sweep) -> dict[str, bytes]:
    """What a sweep's folder holds beside its index and its points."""
    return {
        "sweep.md": sweep_page(sweep).encode(),
        "sweep.csv": exact_points(sweep).csv(),
        "report.html": page_bytes(sweep_html(sweep, made_by())),
    }


def write_sweep_files(folder: Path, sweep: Sweep) -> None:
    """Write them, each whole, in place of those of before."""
    for name, content in sweep_files(sweep).items():
        files.write_file(folder / name, content, force=True)
