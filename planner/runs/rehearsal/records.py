"""What a rehearsal showed: the levels as the router kept them, beside the same requests replayed."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.domain import Phase
from planner.domain.replay import ReplayResult
from planner.domain.serving.levels import Standing
from planner.runs.rehearsal.traffic import Outcome

MOST_LATE = 0.05
"""Share of the engines' words that may come late, else the rehearsal tells of this machine and not of the router."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """Shares of the requests of a phase that go to an island: as planned, as the router sent them, as replayed."""

    island: str
    phase: Phase
    planned: float
    rehearsed: float
    replayed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledServer:
    """A server that died at `at_s` (plan time) with `answering` requests, of which `lost` have no answer; the router
    sent the others again. `back_s`: when it took requests again; None: not within the run."""

    server: str
    island: str
    at_s: float
    answering: int
    lost: int
    back_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How well one process kept up (plan ms). `words`: of engines, `p99_ms` late; `share` of them later than
    `allowed_ms`. `sent_p99_ms`: how late requests were sent."""

    words: int
    p99_ms: float
    share: float
    allowed_ms: float
    sent_p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """`rehearsed` and `replayed`: the same requests through the router's programs, and in virtual time as the planner
    takes the router to route. `seconds`: of the wall's time; `failures`: why, and how many; `elsewhere`: of them, those
    that no killed server had. `outcomes` of all requests, in their order."""

    router: str
    programs: tuple[str, ...]
    slower: float
    seconds: float
    rehearsed: ReplayResult
    replayed: ReplayResult
    pools: tuple[PoolUse, ...]
    failures: tuple[tuple[str, int], ...]
    elsewhere: int
    killed: tuple[KilledServer, ...]
    lateness: Lateness
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()

    @property
    def keeps_up(self) -> bool:
        """Whether the simulated engines spoke in time, so that what is late is the router's doing."""
        return self.lateness.share <= MOST_LATE

    @property
    def standing(self) -> Standing:
        """Of the rehearsed levels; untold where the engines were late."""
        return self.rehearsed.standing if self.keeps_up else Standing.UNTOLD

    @property
    def holds(self) -> bool | None:
        """Whether the levels hold behind the router; None where that cannot be told."""
        return None if self.standing is Standing.UNTOLD else self.standing is Standing.HOLDS


def quantile(values: Sequence[float], share: float) -> float:
    """The value that so large a share is at most; 0 of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else 0.0
