"""Replays at hand."""

from functools import cached_property
from typing import TYPE_CHECKING

from planner import report
from planner.api.cards import card, rows_of
from planner.domain.replay import ReplayResult, ReplaySweep

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class ReplayedPlan:
    """A replay at hand: `record` is the frozen result."""

    def __init__(self, record: ReplayResult) -> None:
        self.record = record

    @property
    def holds(self) -> bool | None:
        """Whether every level is held, and the fleet keeps up; None where the replay is too short to tell."""
        return self.record.holds

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row for all requests, then one a bucket."""
        return report.replay_frame(self.record)

    @cached_property
    def islands(self) -> "pd.DataFrame":
        """One row an island."""
        return report.replay_islands_frame(self.record)

    @cached_property
    def moments(self) -> "pd.DataFrame":
        """One row a stretch of time of the first seed."""
        return report.replay_moments_frame(self.record)

    def summary(self) -> str:
        """The replay in Markdown, the verdict first."""
        return report.page_text(report.replay_page(self.record))

    def figure(self, name: str) -> "Figure":
        """A figure: moments or islands."""
        return report.replay_figure(self.record, name)

    def __repr__(self) -> str:
        return f"<replay {self.record.plan}: {self._verdict()}>"

    def _verdict(self) -> str:
        within = self.record.total.within_levels.mean
        verdict = f"{self.record.standing} at {self.record.rate_rps:.1f} requests/s"
        return f"{verdict}, {within:.1%} within levels"

    def _repr_html_(self) -> str:
        return card(f"Replay of {self.record.plan}", self._verdict(), rows=rows_of(self.frame), rows_at="replay.frame")


class SweptRates:
    """Rates of one plan at hand: `record` is the frozen sweep."""

    def __init__(self, record: ReplaySweep) -> None:
        self.record = record

    @property
    def held_rps(self) -> float | None:
        """The highest rate that holds the levels; None where none that was tried does."""
        return self.record.held_rps

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a rate."""
        return report.replay_sweep_frame(self.record)

    def summary(self) -> str:
        """The highest rate that holds, and a table of all, in Markdown."""
        return report.page_text(report.sweep_page(self.record))

    def figure(self, name: str = "sweep") -> "Figure":
        """The figure sweep; moments and islands are those of the highest rate."""
        return report.replay_figure(self.record.results[-1], name, self.record)

    def __repr__(self) -> str:
        return f"<sweep {self.record.results[0].plan}: {self._verdict()}>"

    def _verdict(self) -> str:
        return "no rate holds" if self.held_rps is None else f"holds up to {self.held_rps:.1f} requests/s"

    def _repr_html_(self) -> str:
        return card(
            f"Rates of {self.record.results[0].plan}", self._verdict(), rows=rows_of(self.frame), rows_at="sweep.frame"
        )
