"""A running deployment beside its plan, at hand."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from planner import files, report
from planner.api.cards import card, rows_of
from planner.domain import Plan
from planner.errors import InputError
from planner.runs.live.observing import ObservedRun, observe_live, observe_run
from planner.runs.live.observing import file_names as observed_file_names
from planner.runs.live.prometheus import prometheus_at

if TYPE_CHECKING:
    import pandas as pd


class ObservedPlan:
    """A running deployment beside its plan: `record` is the frozen observation, `calibration` the factors that its
    steps ask for (None: no step time could be taken)."""

    def __init__(self, run: ObservedRun) -> None:
        self.record = run.observation
        self.calibration = None if run.fit is None else run.fit.calibration
        self._run = run

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a figure: promised and measured."""
        return report.observation_frame(self.record)

    def summary(self) -> str:
        """The observation in Markdown, the verdict first."""
        return report.page_text(report.observation_page(self.record, self._run.fit))

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write observe.md, .csv, .json and calibration.yaml, where there is one, into a folder."""
        files.write_folder(Path(path), self._run.files, force=force, kinds=observed_file_names())
        return Path(path)

    def __repr__(self) -> str:
        return f"<observation of {self.record.plan}: {report.observed_verdict(self.record)}>"

    def _repr_html_(self) -> str:
        verdict = report.observed_verdict(self.record)
        return card(
            f"Observation of {self.record.plan}", verdict, rows=rows_of(self.frame), rows_at="observation.frame"
        )


def observed_plan(plan: Plan, answers: Sequence[Path], prometheus: str, name: str) -> ObservedPlan:
    """A plan beside its answers, or what the Prometheus at an address tells. Raises as `planner observe` does."""
    if not prometheus:
        return ObservedPlan(observe_run(plan, answers, name))
    if answers:
        raise InputError("observe: answers go without prometheus.", hint="Leave one of them out.")
    return ObservedPlan(observe_live(plan, prometheus_at(prometheus), name=name))
