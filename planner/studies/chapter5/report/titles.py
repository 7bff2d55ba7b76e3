"""What stands over a study's figures."""

from matplotlib.figure import Figure

from planner.domain import CostMode
from planner.report.kit import style
from planner.studies.chapter5.records import Study


def head(figure: Figure, study: Study, title: str, note: str = "", *, searched: bool = True) -> None:
    """Title, how often it was `searched`, if at all, and a word of warning in reference mode."""
    mode = "reference mode: not physical" if study.mode is CostMode.REFERENCE else ""
    small = "small form" if study.small and searched else ""
    remarks = "; ".join(filter(None, (note, small, mode)))
    style.heading(figure, f"{title} [{remarks}]" if remarks else title)
