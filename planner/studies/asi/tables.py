"""Each figure's points as CSV."""

from planner.report.kit.tables import csv_table
from planner.studies.asi.records import TraceFigure

HEADER = ("panel", "series", "x", "y")


def figure_csv(figure: TraceFigure) -> bytes:
    """A row a point."""
    return csv_table(HEADER, figure.points)
