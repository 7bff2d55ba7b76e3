"""A frontier at hand: what each budget buys."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.cards import card
from planner.api.progress import budget_bar
from planner.domain import Frontier, Scenario
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class FrontierAtHand:
    """Rate against price: `record` is the frozen frontier, `scenario` its question."""

    def __init__(self, record: Frontier, scenario: Scenario) -> None:
        self.record = record
        self.scenario = scenario

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a budget: price (USD/hour), rate and bound (requests/s), GPUs by type."""
        from planner import report

        return report.frontier_frame(self.record)

    def summary(self) -> str:
        """The frontier in Markdown."""
        from planner import report

        return report.page_text(report.frontier_page(self.record, self.scenario))

    def figure(self) -> "Figure":
        """A picture: rate against price, and the mix of GPUs at each point."""
        from planner import report

        return report.frontier_figure(self.record, self.scenario)

    def __repr__(self) -> str:
        return f"<frontier of {self.scenario.name}: {len(self.record.points)} points; {self._best()}>"

    def _best(self) -> str:
        best = self.record.most_per_dollar
        return f"most per USD: {best.rate_rps:.1f} requests/s at {best.price_usd_per_hour:,.2f} USD/hour"

    def _repr_html_(self) -> str:
        rows = (
            {
                "USD/hour": point.price_usd_per_hour,
                "requests/s": point.rate_rps,
                "at most": point.bound_rps,
                "requests per USD": round(point.requests_per_usd),
                **dict(point.gpus),
            }
            for point in self.record.points
        )
        return card(f"Frontier of {self.scenario.name}", self._best(), rows=rows, rows_at="frontier.frame")


def frontier(
    scenario: str | Path | Scenario | None = None, *, points: int = 12, progress: bool | None = None, **question: Any
) -> FrontierAtHand:
    """The best fleet for each of several budgets, from the cheapest that serves anything to the whole offer.

    >>> planner.frontier("scenario.yaml", points=6)
    >>> planner.frontier(inventory={"H200": 64, "H20": 128}, workload="azure-code-2023", points=6)

    `scenario`: a file or a plan's `scenario`; without it the keywords of `planner.plan`. Prices must be known for some
    type. Raises InputError, InfeasibleError where nothing serves, SolverError where no fleet is found within the work
    limit.
    """
    from planner.proposing.frontier import frontier as frontier_of

    read = _scenario_of(scenario, question)
    with budget_bar(f"frontier {read.name}", progress) as heard:
        return FrontierAtHand(frontier_of(read, points, heard), read)


def _scenario_of(scenario: str | Path | Scenario | None, question: dict[str, Any]) -> Scenario:
    from planner import files
    from planner.api.planning import scenario_of
    from planner.workload import summarize

    if (scenario is None) is not bool(question):
        raise InputError(
            "planner.frontier(...): must have a scenario or the keywords of planner.plan, got "
            f"{'neither' if scenario is None else 'both'}.",
            hint="As planner.frontier('scenario.yaml').",
        )
    if isinstance(scenario, Scenario):
        return scenario
    if scenario is not None:
        return files.load_scenario(Path(scenario), summarize)
    return scenario_of(origin="planner.frontier(...)", **question)
