"""Plans beside each other, and a run beside itself computed anew."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from planner.api.cards import card, rows_of
from planner.domain import Plan
from planner.domain.comparisons import PlanComparison, Verification
from planner.errors import InputError
from planner.report.comparison.side_by_side import every_figure
from planner.report.comparison.side_by_side_page import comparison_page
from planner.report.kit.markdown import page_text
from planner.report.kit.tables import fields, table_of
from planner.runs.comparisons import compared, comparison_bytes, read_plans

if TYPE_CHECKING:
    import pandas as pd


class ComparedPlans:
    """Plans beside each other: `record` is the frozen comparison."""

    def __init__(self, record: PlanComparison) -> None:
        self.record = record

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a plan: rate with its band, promise, prices, gap, levels, GPUs, how likely it is better."""
        return every_figure(self.record).frame()

    def summary(self) -> str:
        """The comparison in Markdown."""
        return page_text(comparison_page(self.record))

    def page(self) -> str:
        """The comparison as one HTML file that reaches nothing outside itself."""
        return comparison_bytes(self.record).decode()

    def __repr__(self) -> str:
        names = ", ".join(plan.figures.name for plan in self.record.plans)
        return f"<comparison of {names}>"

    def _repr_html_(self) -> str:
        return card(f"{len(self.record.plans)} plans beside each other", rows=rows_of(self.frame), rows_at=".frame")


def compare_records(*plans: Plan | str | Path) -> ComparedPlans:
    """Plans, or runs (their folders, plan.json files, folders of runs), beside each other, as by `planner.compare`."""
    if not plans:
        raise InputError("compare: needs at least one plan, got none.", hint="Give plans, or paths of runs.")
    by_name: dict[str, Plan] = {}
    for plan in plans:
        if isinstance(plan, str | Path):
            for name, record in read_plans([Path(plan)]).items():
                by_name[_free(name, by_name)] = record
        else:
            by_name[_free(plan.scenario.name, by_name)] = plan
    return ComparedPlans(compared(by_name))


def _free(name: str, taken_names: Mapping[str, Plan]) -> str:
    """The name, numbered where it is another plan's."""
    number, free = 1, name
    while free in taken_names:
        number += 1
        free = f"{name} ({number})"
    return free


class VerifiedRun:
    """What was found: `record` is the frozen verification."""

    def __init__(self, record: Verification) -> None:
        self.record = record

    @property
    def agrees(self) -> bool:
        """Whether all that could be computed anew is as it is written."""
        return self.record.agrees

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What was taken as it is written, and why."""
        return self.record.unchecked

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a difference: file, key, what is written, what comes out."""
        return table_of(fields("file", "key", "written", "due"), self.record.differences).frame()

    def __bool__(self) -> bool:
        return self.agrees

    def __repr__(self) -> str:
        return f"<verification: {self._verdict()}>"

    def _verdict(self) -> str:
        count, files = len(self.record.differences), len(self.record.files)
        return f"{files} files agree" if self.agrees else f"{count} differences in {files} files"

    def _repr_html_(self) -> str:
        return card("Computed anew", self._verdict(), rows=rows_of(self.frame), rows_at="verification.frame")
