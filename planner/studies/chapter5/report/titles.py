"""What stands over a study's figures."""

from matplotlib.figure import Figure

from planner.domain import CostMode
from planner.studies.chapter5.records import Study


def head(figure: Figure, study: Study, title: str, note: str = "", *, searched: bool = True) -> None:
    """Title, how often it was `searched`, if at all, and a word of warning in reference mode."""
    mode = "reference mode: not physical" if study.mode is CostMode.REFERENCE else ""
    small = "small form" if study.small and searched else ""
    said = "; ".join(filter(None, (note, small, mode)))
    text = f"{title} [{said}]" if said else title
    figure.suptitle(text, x=0.01, ha="left", fontsize=11.0, fontweight="bold")
