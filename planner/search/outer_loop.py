"""Door of the stage: the outer loop. Rounds of proposals, each evaluated as a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planner.domain import (
    EvaluateLayouts,
    Evaluation,
    Inventory,
    Layout,
    ReportProgress,
    SearchMethod,
    SearchRecord,
    SearchSettings,
    Trial,
    no_progress,
)
from planner.search.space import Point, Space, space_of

RANDOM = "random"
RESAMPLES = 64


class Proposer(Protocol):
    """A way to choose the next points; `tell` closes a round."""

    name: str

    def propose(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """The next points, at most `count`."""

    def tell(self, points: Sequence[Point], evaluations: Sequence[Evaluation]) -> None:
        """What became of the last points."""


class SpreadProposer:
    """The first round of a Bayesian search."""

    name = "spread"

    def __init__(self, space: Space) -> None:
        self.space = space

    def propose(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """`count` points over the whole space."""
        return self.space.spread(count, rng)

    def tell(self, points: Sequence[Point], evaluations: Sequence[Evaluation]) -> None:
        """Nothing to learn."""


class RandomProposer:
    """Draws from the space, blind to results."""

    name = RANDOM

    def __init__(self, space: Space) -> None:
        self.space = space

    def propose(self, count: int, rng: np.random.Generator) -> list[dict[str, float]]:
        """`count` independent draws."""
        return [self.space.sample(rng) for _ in range(count)]

    def tell(self, points: Sequence[Point], evaluations: Sequence[Evaluation]) -> None:
        """Nothing to learn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Every trial, the evaluation of the best layout (None where no layout serves the workload), and how many of the
    trials the solver left unanswered."""

    record: SearchRecord
    best: Evaluation | None
    unanswered: int = 0

    def with_solved(self, evaluation: Evaluation) -> "SearchResult":
        """The result with one more trial, of a layout that was solved for."""
        trials = self.record.trials
        rounds = 1 + max((trial.iteration for trial in trials), default=-1)
        trial = _solved_trial(len(trials), rounds, evaluation)
        better = evaluation.throughput_rps > (self.best.throughput_rps if self.best else 0.0)
        return SearchResult(
            record=SearchRecord(trials=(*trials, trial), best_trial=trial.index if better else self.record.best_trial),
            best=evaluation if better else self.best,
            unanswered=self.unanswered,
        )


def _solved_trial(index: int, iteration: int, evaluation: Evaluation) -> Trial:
    return Trial(
        index=index,
        iteration=iteration,
        parameters=(),
        layout=evaluation.layout,
        throughput_rps=evaluation.throughput_rps,
        generator=SearchMethod.EXACT.value,
        error=evaluation.error,
    )


def optimize(
    inventory: Inventory,
    settings: SearchSettings,
    evaluate: EvaluateLayouts,
    progress: ReportProgress = no_progress,
) -> SearchResult:
    """Search layouts of `inventory` for the highest rate, in `iterations` rounds of `batch_size` evaluations.

    The first round of a Bayesian search is spread over the space; equal settings and seed give equal trials. Raises
    InputError where the inventory admits no island.
    """
    space = space_of(inventory, settings)
    rng = np.random.default_rng(settings.seed)
    blind = settings.method is SearchMethod.RANDOM
    proposer: Proposer = RandomProposer(space) if blind else _bayesian(space, settings)
    first: Proposer = proposer if blind else SpreadProposer(space)
    trials: list[Trial] = []
    best: Evaluation | None = None
    unanswered = 0
    for iteration in range(settings.iterations):
        chosen = proposer if iteration else first
        points = _fresh_points(space, chosen, settings.batch_size, {t.layout for t in trials}, rng)
        evaluations = evaluate([space.layout(point) for point, _ in points])
        proposer.tell([point for point, _ in points], evaluations)
        unanswered += sum(evaluation.failed for evaluation in evaluations)
        for (point, by), evaluation in zip(points, evaluations, strict=True):
            trials.append(_trial(len(trials), iteration, point, evaluation, by))
            if evaluation.throughput_rps > (best.throughput_rps if best else 0.0):
                best = evaluation
        progress(len(trials), settings.iterations * settings.batch_size, best.throughput_rps if best else 0.0)
    return SearchResult(
        record=SearchRecord(trials=tuple(trials), best_trial=_best(trials)), best=best, unanswered=unanswered
    )


def given(layout: Layout, evaluate: EvaluateLayouts, progress: ReportProgress = no_progress) -> SearchResult:
    """The record of a layout that was not searched for, but solved: one trial."""
    (evaluation,) = evaluate([layout])
    progress(1, 1, evaluation.throughput_rps)
    nothing = SearchResult(record=SearchRecord(trials=(), best_trial=0), best=None, unanswered=evaluation.failed)
    return nothing.with_solved(evaluation)


def _bayesian(space: Space, settings: SearchSettings) -> Proposer:
    from planner.search.experiment import AxProposer  # noqa: PLC0415  (torch and Ax only for a search that needs them)

    return AxProposer(space, settings)


def _fresh_points(
    space: Space, proposer: Proposer, count: int, known: set[Layout], rng: np.random.Generator
) -> list[tuple[dict[str, float], str]]:
    """Canonical points of layouts not seen before, and who chose each: the proposer, or chance.

    Chance fills up what the proposer leaves open and replaces repeats, while new layouts are to be found.
    """
    seen, chosen = set(known), []
    proposals = proposer.propose(count, rng)
    for place in range(count):
        by = proposer.name if place < len(proposals) else RANDOM
        point = space.canonical(proposals[place] if place < len(proposals) else space.sample(rng))
        for _ in range(RESAMPLES):
            if space.layout(point) not in seen:
                break
            point, by = space.canonical(space.sample(rng)), RANDOM
        seen.add(space.layout(point))
        chosen.append((point, by))
    return chosen


def _trial(index: int, iteration: int, point: Point, evaluation: Evaluation, generator: str) -> Trial:
    return Trial(
        index=index,
        iteration=iteration,
        parameters=tuple(sorted(point.items())),
        layout=evaluation.layout,
        throughput_rps=evaluation.throughput_rps,
        generator=generator,
        error=evaluation.error,
    )


def _best(trials: list[Trial]) -> int:
    return max(trials, key=lambda t: (t.throughput_rps, -t.index)).index
