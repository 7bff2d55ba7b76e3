"""The seams between stages: each is one method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from planner.domain.assignment import Assignment
from planner.domain.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the search learns of one layout. `assignment` is None, and `error` says why, where it serves nothing;
    `failed` where the solver gave no answer, so that nothing is known of it."""

    layout: Layout
    throughput_rps: float
    assignment: Assignment | None
    error: str = ""
    failed: bool = False


class EvaluateLayouts(Protocol):
    """Evaluates a batch of layouts, in order."""

    def __call__(self, layouts: Sequence[Layout], /) -> list[Evaluation]: ...


class ReportProgress(Protocol):
    """Told after each evaluated batch: evaluations done, of how many, and the best rate so far (requests/s)."""

    def __call__(self, done: int, total: int, best_rps: float, /) -> None: ...


def no_progress(_done: int, _total: int, _best_rps: float, /) -> None:
    """The silent listener."""
