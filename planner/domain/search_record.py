"""What a search did: its trials round by round, what they cost, and the seam through which they outlive the process."""

from dataclasses import dataclass, field
from typing import Annotated, Protocol

from planner.domain.keys import Bounds, Items, Key, Mapped
from planner.domain.layout import Layout

_Count = Annotated[int, Bounds(low=0)]
_Rate = Annotated[float, Bounds(low=0)]
_Measured = Annotated[float | None, Bounds(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A layout to be judged: its point in the encoding (empty where it has none), and who chose it."""

    parameters: Annotated[tuple[tuple[str, float], ...], Mapped(ascending=True)]
    layout: Layout
    generator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The layouts of one round, and what choosing them took (CPU-seconds). `note` says what went wrong in it."""

    iteration: int
    generation_cpu_s: float
    note: str = ""
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One evaluated layout. `iteration` is its round, from 0; `error` says why a layout serves nothing."""

    index: _Count
    iteration: _Count
    parameters: Annotated[tuple[tuple[str, float], ...], Mapped(ascending=True)]
    layout: Annotated[Layout, Key("rows of GPU type, island size, number of islands")]
    throughput_rps: _Rate
    generator: str
    error: str = ""
    failed: Annotated[bool, Key("its evaluation broke off: nothing is known of the layout", sparse=True)] = False
    goals: Annotated[
        tuple[tuple[str, float], ...], Mapped(), Key("value of each goal, where the search has several", sparse=True)
    ] = ()
    replayed_rps: Annotated[
        _Measured, Key("requests/s that hold the levels in a replay, where it was replayed", sparse=True)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A trial and what judging it took (CPU-seconds, worker processes included)."""

    trial: Trial
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round. CPU-seconds of None are not to be told."""

    iteration: _Count
    evaluations: _Count
    best_rps: Annotated[_Rate, Key("requests/s, best so far")]
    generation_cpu_s: Annotated[
        _Measured, Key("CPU-seconds of choosing the layouts; measured, and under no digest", sparse=True)
    ] = field(compare=False, default=None)
    evaluation_cpu_s: Annotated[
        _Measured, Key("CPU-seconds of judging them; measured, and under no digest", sparse=True)
    ] = field(compare=False, default=None)
    hypervolume: Annotated[_Measured, Key("of all trials so far, where the search has several goals", sparse=True)] = (
        None
    )
    note: Annotated[str, Key("what went wrong in the round", sparse=True)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The search's history. `best_trial` is a `Trial.index`.

    All but measured CPU-seconds follows from scenario and seed.
    """

    best_trial: _Count
    interrupted: Annotated[bool, Key("the user ended the search before its last round", sparse=True)] = False
    frontier: Annotated[
        tuple[int, ...], Bounds(low=0), Key("indices of the trials that no other beats in every goal", sparse=True)
    ] = ()
    rounds: Annotated[
        tuple[Round, ...],
        Key("what each round did and took; the CPU-seconds differ from run to run", sparse=True),
    ] = ()
    trials: Annotated[tuple[Trial, ...], Items(least=1)]

    @property
    def replayed(self) -> bool:
        """Whether trials are judged by their replays; those without one count for nothing."""
        return any(trial.replayed_rps is not None for trial in self.trials)

    @property
    def judged(self) -> tuple[Trial, ...]:
        """The trials that count."""
        return tuple(t for t in self.trials if t.replayed_rps is not None) if self.replayed else self.trials

    def judged_rps(self, trial: Trial) -> float:
        """What a trial is judged by."""
        return trial.replayed_rps or 0.0 if self.replayed else trial.throughput_rps

    def best_by_iteration(self) -> tuple[float, ...]:
        """Best rate so far after each round (requests/s), of replays where there are some."""
        best, rows = 0.0, []
        for iteration in range(1 + max((t.iteration for t in self.trials), default=-1)):
            best = max([best, *(self.judged_rps(t) for t in self.trials if t.iteration == iteration)])
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
