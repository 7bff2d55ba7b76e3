"""What a search did: its trials round by round, what they cost, and the seam through which they outlive the process."""

from dataclasses import dataclass, field
from typing import Protocol

from planner.domain.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A layout to be judged: its point in the encoding (empty where it has none), and who chose it."""

    parameters: tuple[tuple[str, float], ...]
    layout: Layout
    generator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The layouts of one round, and what choosing them took (CPU-seconds). `note` says what went wrong in it."""

    iteration: int
    proposals: tuple[Proposal, ...]
    generation_cpu_s: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One evaluated layout. `iteration` is its round, from 0; `error` says why a layout serves nothing.

    `failed`: its evaluation broke off, so that nothing is known of it. `goals`: name and value of each goal, where the
    search has several.
    """

    index: int
    iteration: int
    parameters: tuple[tuple[str, float], ...]
    layout: Layout
    throughput_rps: float
    generator: str
    error: str = ""
    failed: bool = False
    goals: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A trial and what judging it took (CPU-seconds, worker processes included)."""

    trial: Trial
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: CPU-seconds of choosing its layouts and of judging them (None: not to be told).

    `hypervolume` (of several goals) is that of all trials so far; `note` says what went wrong in the round.
    """

    iteration: int
    evaluations: int
    best_rps: float
    generation_cpu_s: float | None = field(compare=False)
    evaluation_cpu_s: float | None = field(compare=False)
    hypervolume: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The search's history. `best_trial` is a `Trial.index`.

    The CPU-seconds of `rounds` are measured and differ from run to run; all else follows from scenario and seed.
    `interrupted`: the user ended the search before its last round. `frontier` (of several goals): indices of the
    trials that no other trial beats in every goal.
    """

    trials: tuple[Trial, ...]
    best_trial: int
    rounds: tuple[Round, ...] = ()
    interrupted: bool = False
    frontier: tuple[int, ...] = ()

    def best_by_iteration(self) -> tuple[float, ...]:
        """Best throughput so far after each round (requests/s)."""
        best, rows = 0.0, []
        for iteration in range(1 + max(t.iteration for t in self.trials)):
            best = max([best, *(t.throughput_rps for t in self.trials if t.iteration == iteration)])
            rows.append(best)
        return tuple(rows)


class SearchJournal(Protocol):
    """Keeps what a search has done, so that a later process can go on from there.

    What it has been told it remembers for ever, in order; a search first asks it for every round and trial.
    """

    def proposed(self, iteration: int) -> Proposed | None:
        """The layouts of a round, if it had been chosen before."""

    def judged(self, index: int) -> Judged | None:
        """A trial, if it had been evaluated before."""

    def keep_proposed(self, proposed: Proposed) -> None:
        """A round begins."""

    def keep_judged(self, judged: Judged) -> None:
        """An evaluation has ended."""

    def keep_experiment(self, document: bytes) -> None:
        """The experiment as its library saves it, after a round."""


class Forgetful:
    """The journal of a search that nobody will continue."""

    def proposed(self, iteration: int) -> Proposed | None:
        """Nothing is known."""

    def judged(self, index: int) -> Judged | None:
        """Nothing is known."""

    def keep_proposed(self, proposed: Proposed) -> None:
        """Forget it."""

    def keep_judged(self, judged: Judged) -> None:
        """Forget it."""

    def keep_experiment(self, document: bytes) -> None:
        """Forget it."""
