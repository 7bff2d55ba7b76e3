"""Replays, knobs turned by them, and plans in draws of what is doubted, at hand."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from planner import report
from planner.api.cards import card, rows_of
from planner.domain import LengthProfile, Plan, RequestTrace
from planner.domain.arrivals import ReplaySettings
from planner.domain.replay import ReplayResult, ReplaySweep
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings
from planner.domain.serving.tuning import TunedPlan
from planner.report.doubts import page
from planner.report.kit.markdown import page_text, plain
from planner.report.replay import tuning

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure


Deployment = TypeVar("Deployment")


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


def replaying(
    plan: Plan, trace: "str | Path | RequestTrace | LengthProfile | None", settings: Mapping[str, Any]
) -> tuple[RequestTrace | LengthProfile, ReplaySettings]:
    """What of a plan is replayed, and how."""
    from planner.runs.replays.replay_settings import replay_settings

    return source_of(plan, trace), replay_settings(plan, **settings)


def source_of(plan: Plan, trace: "str | Path | RequestTrace | LengthProfile | None") -> RequestTrace | LengthProfile:
    """The record of a trace, however it was named."""
    from planner.runs.replays.replays import trace_of

    trace = getattr(trace, "record", trace)  # of a workload at hand
    if isinstance(trace, RequestTrace | LengthProfile):
        return trace
    return trace_of(plan, None if trace is None else str(trace))


class TunedKnobs(Generic[Deployment]):
    """A plan's knobs turned by replays; `record` is the frozen result.

    >>> tuned = plan.tune("trace.csv", rounds=6)
    >>> tuned.chosen, tuned.gains, tuned.knobs, tuned.trials
    >>> tuned.plan.export("manifests")                    # where it gains
    """

    def __init__(self, record: TunedPlan, plan: Deployment | None) -> None:
        self.record, self.plan = record, plan

    @property
    def chosen(self) -> bool:
        """Whether the tuned setting gains for sure on requests that the search had not seen."""
        return self.record.chosen

    @cached_property
    def gains(self) -> "pd.DataFrame":
        """One row a goal, before and after."""
        return tuning.gains_table(self.record).frame()

    @cached_property
    def knobs(self) -> "pd.DataFrame":
        """One row a knob, before and after."""
        return tuning.knobs_table(self.record).frame()

    @cached_property
    def trials(self) -> "pd.DataFrame":
        """One row a setting that was replayed."""
        return tuning.trials_table(self.record).frame()

    def summary(self) -> str:
        """The report in Markdown."""
        return page_text(tuning.tuned_page(self.record))

    def __repr__(self) -> str:
        return f"<tune of {self.record.plan}: {plain(tuning.verdict(self.record))}>"

    def _repr_html_(self) -> str:
        rows = tuning.knobs_table(self.record).records()
        return card(f"Tune: {self.record.plan}", plain(tuning.verdict(self.record)), rows=rows, rows_at="tuned.knobs")


def tuned_knobs(
    plan: Plan,
    make: Callable[[Plan], Deployment],
    trace: "str | Path | RequestTrace | LengthProfile | None",
    goals: str | None,
    settings: Mapping[str, Any],
) -> TunedKnobs[Deployment]:
    """The knobs of a plan, turned; `make` puts the tuned one at hand. Raises as `planner tune` does."""
    from planner import pipeline
    from planner.runs.replays.tuning import tune_replays, tune_settings

    search = {key: value for key, value in settings.items() if key in ("rate", "rounds", "batch", "requests", "seed")}
    replays = {key: value for key, value in settings.items() if key not in search}
    source, chosen = source_of(plan, trace), tune_settings(plan, goals, **search)
    tuned, changed = pipeline.tune(plan, source, tune_replays(plan, source, **replays), chosen)
    return TunedKnobs(tuned, None if changed is None else make(changed))


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
        from planner.runs.questions.doubts import require_sure

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

    @cached_property
    def swings(self) -> "pd.DataFrame":
        """One row a doubted thing alone, the widest first."""
        return page.swings(self.record).frame()

    def summary(self) -> str:
        """The report in Markdown."""
        return page_text(page.doubt_page(self.record, self.settings))

    def __repr__(self) -> str:
        return f"<doubt of {self.record.name}: {page.surely(self.record)}>"

    def _repr_html_(self) -> str:
        rows = page.levels(self.record).records()
        return card(f"Doubt: {self.record.name}", plain(page.verdict(self.record)), rows=rows, rows_at="doubt.frame")
