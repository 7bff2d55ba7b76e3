"""Plans under doubt, at hand."""

from functools import cached_property
from typing import TYPE_CHECKING

from planner.api.cards import card
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings
from planner.report.doubts import page
from planner.report.kit.markdown import page_text, plain

if TYPE_CHECKING:
    import pandas as pd


class PlanInDoubt:
    """A plan in draws of what is doubted; `record` is the frozen one.

    >>> doubt = plan.doubt(demand=0.2, unavailable=0.01)
    >>> doubt.sure(0.8), doubt.odds(30.0), doubt.odds_of_demand
    >>> doubt.frame, doubt.draws
    """

    def __init__(self, record: DoubtedPlan, settings: DoubtSettings) -> None:
        self.record, self.settings = record, settings

    def sure(self, probability: float) -> float:
        """Requests/s that are served within the levels with this probability."""
        from planner.runs.doubts import require_sure

        require_sure("sure", probability)
        return self.record.sure_rps(probability)

    def odds(self, rate_rps: float) -> float:
        """How likely so many requests/s are served within the levels."""
        return self.record.odds(rate_rps)

    @property
    def odds_of_demand(self) -> float:
        """How likely the levels hold at what is asked."""
        return self.record.odds_of_demand

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a probability: the rate that is so sure."""
        return page.levels(self.record).frame()

    @cached_property
    def draws(self) -> "pd.DataFrame":
        """One row a draw."""
        return page.draws(self.record).frame()

    @cached_property
    def known_better(self) -> "pd.DataFrame":
        """One row a draw that was planned for as if known."""
        return page.knowing(self.record).frame()

    def summary(self) -> str:
        """The report in Markdown."""
        return page_text(page.doubt_page(self.record, self.settings))

    def __repr__(self) -> str:
        return f"<doubt of {self.record.name}: {page.surely(self.record)}>"

    def _repr_html_(self) -> str:
        rows = page.levels(self.record).records()
        return card(f"Doubt: {self.record.name}", plain(page.verdict(self.record)), rows=rows, rows_at="doubt.frame")
