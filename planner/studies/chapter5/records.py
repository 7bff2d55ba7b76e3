"""Studies: searches repeated under several settings, and what came of them."""

import statistics
from dataclasses import dataclass
from typing import Protocol

from planner.domain.layout import PHASES, IslandClass, Layout, Phase
from planner.domain.scenario import Scenario, SearchSettings
from planner.domain.serving.cost import CostMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is planned for, by name: GPUs with count and price (USD per GPU and hour), and the workload."""

    gpus: tuple[tuple[str, int], ...]
    prices: tuple[tuple[str, float], ...]
    workload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLevel:
    """A figure of the paper as mean and spread: throughput and, where it has it, total deviation (requests/s)."""

    rate_rps: float
    rate_spread_rps: float
    deviation_rps: float | None = None
    deviation_spread_rps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One value of what an experiment varies. `search.seed` is the first trial's."""

    label: str
    value: float
    setup: Setup
    search: SearchSettings
    published: PublishedLevel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Cases, each searched `trials` times; `figures` show it."""

    name: str
    figures: tuple[str, ...]
    parameter: str
    trials: int
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """One search. Tuples run over its rounds: best rate so far (requests/s), CPU-seconds of choosing and of judging.

    `deviation_rps` is the total deviation of the best layout from the mix; None where nothing serves.
    """

    seed: int
    best_rps: tuple[float, ...]
    generation_cpu_s: tuple[float, ...]
    evaluation_cpu_s: tuple[float, ...]
    deviation_rps: float | None
    layout: str

    @property
    def final_rps(self) -> float:
        """The best rate of the search (requests/s)."""
        return self.best_rps[-1]

    @property
    def cpu_s(self) -> float:
        """CPU-seconds from first round to last."""
        return sum(self.generation_cpu_s) + sum(self.evaluation_cpu_s)


class StudyJournal(Protocol):
    """Keeps what became of each search, so that a later process need not make it again."""

    def outcome_of(self, scenario: Scenario) -> TrialOutcome | None:
        """What became of the scenario's search, if it was made before."""

    def keep(self, scenario: Scenario, outcome: TrialOutcome) -> None:
        """A search has ended."""


class NothingKept:
    """The journal of a study that nobody will continue."""

    def outcome_of(self, scenario: Scenario) -> TrialOutcome | None:
        """Nothing is."""

    def keep(self, scenario: Scenario, outcome: TrialOutcome) -> None:
        """Forget it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best layout, solved for. No layout exceeds `bound_rps`; `proven`: within the gap that was asked for."""

    rate_rps: float
    bound_rps: float
    proven: bool
    layout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean, standard deviation (of a sample; None of a single value), least and greatest."""

    mean: float
    deviation: float | None
    low: float
    high: float


SAME = 1e-9  # relative: values that differ by no more are equal but for rounding


def spread(values: tuple[float, ...]) -> Spread:
    """The spread of at least one value."""
    if len(values) > 1 and max(values) - min(values) <= SAME * abs(max(values)):
        return Spread(mean=max(values), deviation=0.0, low=max(values), high=max(values))
    return Spread(
        mean=statistics.fmean(values),
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        low=min(values),
        high=max(values),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """All trials of a case, and the optimum of its setup and least island size (None: not found in time)."""

    case: Case
    trials: tuple[TrialOutcome, ...]
    optimum: Optimum | None

    @property
    def final(self) -> Spread:
        """Best rates of the trials (requests/s)."""
        return spread(tuple(trial.final_rps for trial in self.trials))

    @property
    def by_iteration(self) -> tuple[Spread, ...]:
        """Best rates so far after each round, over the trials (requests/s)."""
        return tuple(spread(values) for values in zip(*(trial.best_rps for trial in self.trials), strict=True))

    @property
    def cpu_s(self) -> Spread:
        """CPU-seconds of a trial."""
        return spread(tuple(trial.cpu_s for trial in self.trials))

    @property
    def best(self) -> TrialOutcome:
        """The trial with the highest rate; the first of equals."""
        return max(self.trials, key=lambda trial: trial.final_rps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOutcome:
    """An experiment that was run."""

    experiment: Experiment
    cases: tuple[CaseOutcome, ...]

    @property
    def highest_rps(self) -> float:
        """The highest rate of all trials, rounds and cases (requests/s)."""
        return max(trial.final_rps for outcome in self.cases for trial in outcome.trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandCase:
    """Islands given beforehand, for the inner problem alone."""

    label: str
    title: str
    setup: Setup
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandShares:
    """What `count` islands of a class do: per range the share of each one's time, and the rate of all (requests/s)."""

    island: IslandClass
    phase: Phase
    count: int
    time_shares: tuple[float, ...]
    rates_rps: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandBenchmark:
    """What one island of a class could do, per range, if it did nothing else (requests/s; 0: cannot)."""

    island: IslandClass
    phase: Phase
    count: int
    rates_rps: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthCurve:
    """One phase per exact length: rate by the lengths' own times, and by the ranges' midpoints (requests/s each)."""

    phase: Phase
    evaluated_rps: tuple[float, ...]
    model_rps: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandOutcome:
    """The inner problem of given islands, by the paper's formulation.

    `ranges`: (start, end, probability). `lengths` and `probabilities` of the exact lengths. `mix_rps`: what the
    max-rate formulation serves of the whole mix on the same islands. `benchmarks`: what the shares were found from.
    """

    case: IslandCase
    ranges: tuple[tuple[int, int, float], ...]
    shares: tuple[IslandShares, ...]
    deviation_rps: float
    optimal: bool
    mix_rps: float
    lengths: tuple[int, ...]
    probabilities: tuple[float, ...]
    curves: tuple[LengthCurve, ...]
    benchmarks: tuple[IslandBenchmark, ...] = ()

    def of_phase(self, phase: Phase) -> tuple[IslandShares, ...]:
        """The islands in a phase."""
        return tuple(shares for shares in self.shares if shares.phase is phase)

    def range_rates_rps(self, phase: Phase) -> tuple[float, ...]:
        """Rate per range of all islands in a phase (requests/s)."""
        rates = [shares.rates_rps for shares in self.of_phase(phase)]
        return tuple(sum(column) for column in zip(*rates, strict=True)) if rates else (0.0,) * len(self.ranges)

    def phase_rps(self, phase: Phase) -> float:
        """The paper's R of a phase: the sum of its ranges' rates (requests/s)."""
        return sum(self.range_rates_rps(phase))

    @property
    def rate_rps(self) -> float:
        """The paper's R_total: the slower phase's (requests/s)."""
        return min(self.phase_rps(phase) for phase in PHASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Island sizes (GPUs) by island index, as a skew divides `gpus` into islands of at least `least`."""

    gpus: int
    least: int
    skew: float
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """How many tokens the requests of a trace have: share of them from each of `starts` on, `width` tokens wide.

    `side`: context (the prompt) or generated (the answer). `mean` over the requests (tokens).
    """

    trace: str
    side: str
    width: int
    starts: tuple[int, ...]
    shares: tuple[float, ...]
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A statement of the paper held against our numbers. `holds` is None where these do not decide it."""

    figure: str
    claim: str
    holds: bool | None
    numbers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A study that was run: `figures` are those asked for, in order."""

    name: str
    mode: CostMode
    seed: int
    small: bool
    figures: tuple[str, ...]
    experiments: tuple[ExperimentOutcome, ...]
    islands: tuple[IslandOutcome, ...]
    findings: tuple[Finding, ...]
    divisions: tuple[Division, ...] = ()
    tokens: tuple[TokenCounts, ...] = ()

    def experiment(self, figure: str) -> ExperimentOutcome:
        """The first experiment that `figure` shows."""
        return next(outcome for outcome in self.experiments if figure in outcome.experiment.figures)

    def all_of(self, figure: str) -> tuple[ExperimentOutcome, ...]:
        """Every experiment that `figure` shows."""
        return tuple(outcome for outcome in self.experiments if figure in outcome.experiment.figures)
