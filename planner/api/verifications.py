"""A run computed anew, at hand."""

from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING

from planner.api.cards import card, rows_of
from planner.domain.comparisons.verification import Verification

if TYPE_CHECKING:
    import pandas as pd


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
        import pandas as pd

        columns = ["file", "key", "written", "due"]
        return pd.DataFrame([asdict(row) for row in self.record.differences], columns=columns)

    def __bool__(self) -> bool:
        return self.agrees

    def __repr__(self) -> str:
        return f"<verification: {self._verdict()}>"

    def _verdict(self) -> str:
        count, files = len(self.record.differences), len(self.record.files)
        return f"{files} files agree" if self.agrees else f"{count} differences in {files} files"

    def _repr_html_(self) -> str:
        return card("Computed anew", self._verdict(), rows=rows_of(self.frame), rest="verification.frame")
