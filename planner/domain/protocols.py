"""The seams between stages: each is one method."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.domain.assignment import Assignment
from planner.domain.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the search learns of one layout. `assignment` is None, and `error` says why, where it serves nothing;
    `failed` where the evaluation broke off, so that nothing is known of it. `goals`: the value of each goal, in the
    scenario's order, where it has several. `cpu_s`: CPU-seconds that judging it took."""

    layout: Layout
    throughput_rps: float
    assignment: Assignment | None
    error: str = ""
    failed: bool = False
    goals: tuple[tuple[str, float], ...] = ()
    cpu_s: float = field(default=0.0, compare=False)


class EvaluateLayouts(Protocol):
    """Evaluates a batch of layouts, in order; each answer is handed out as soon as it is there."""

    def __call__(self, layouts: Sequence[Layout], /) -> Iterable[Evaluation]: ...


class ReportProgress(Protocol):
    """Told after each evaluated batch: evaluations done, of how many, and the best rate so far (requests/s)."""

    def __call__(self, done: int, total: int, best_rps: float, /) -> None: ...


def no_progress(_done: int, _total: int, _best_rps: float, /) -> None:
    """The silent listener."""
