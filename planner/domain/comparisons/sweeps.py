"""A sweep: a scenario planned at every point of a grid of its keys."""

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.comparisons.plans import PlanFigures


class PointState(StrEnum):
    """`planned`: there is a run. `infeasible`: nothing serves there. `failed`: an error that another try may not have.
    `missing`: not planned yet."""

    PLANNED = "planned"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEntry:
    """A point as the index has it: `labels`, the value of each key; `name` of its run folder; `content`: digest of what
    decides its plan. Points of equal content share a run."""

    labels: tuple[str, ...]
    name: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepIndex:
    """What was asked for: the scenario's file, the keys, every point of the grid."""

    scenario: str
    keys: tuple[str, ...]
    entries: tuple[SweepEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """A point and what came of it. `message`: why there is no plan. `repeats`: an earlier point asks the same."""

    entry: SweepEntry
    state: PointState
    message: str = ""
    figures: PlanFigures | None = None
    repeats: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All points of a sweep, in the order of the grid: the last key changes first."""

    index: SweepIndex
    points: tuple[SweepPoint, ...]

    @property
    def varying(self) -> tuple[int, ...]:
        """Positions of the keys that have more than one value."""
        every = range(len(self.index.keys))
        return tuple(k for k in every if len({entry.labels[k] for entry in self.index.entries}) > 1)

    def values(self, position: int) -> tuple[str, ...]:
        """The values of a key, in their order."""
        return tuple(dict.fromkeys(entry.labels[position] for entry in self.index.entries))

    def count(self, state: PointState) -> int:
        """How many points are in a state."""
        return sum(point.state is state for point in self.points)
