"""Door of the stage: the outer loop. Rounds of proposals, each evaluated as a batch.

Nothing is carried from round to round but what was told: a round's chance depends on the seed and its number, a
proposer on the trials before. So a search that goes on from its journal goes the way that it would have gone.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.domain import (
    EvaluateLayouts,
    Evaluation,
    Forgetful,
    Inventory,
    Judged,
    Layout,
    ObjectiveSettings,
    Proposal,
    Proposed,
    ReportProgress,
    Round,
    SearchJournal,
    SearchRecord,
    SearchSettings,
    Trial,
    no_progress,
)
from planner.errors import SolverError
from planner.processes.interrupts import check, deferred
from planner.proposing.search.baselines import RANDOM
from planner.proposing.search.communication import Ground
from planner.proposing.search.pareto import frontier, hypervolume, picked
from planner.proposing.search.proposers import Proposer, first_look, proposer_of, space_of
from planner.proposing.search.results import SearchResult, trial_of
from planner.proposing.search.space import Space

RESAMPLES = 256  # draws that look for a layout not seen before
MOST_STALLS = 3


Seeds = Callable[[], Sequence[Proposal]]
"""Layouts to begin with, each without a point yet. Asked for once, in the first round that needs them: they may take as
long as the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a search with several goals aims at: its objective, and per goal the value that is no use any more."""

    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    reference: tuple[float, ...] = ()

    @property
    def several(self) -> bool:
        """Whether there is a frontier."""
        return self.objective.kind.row.several


def optimize(
    among: Inventory | Space,
    settings: SearchSettings,
    evaluate: EvaluateLayouts,
    progress: ReportProgress = no_progress,
    *,
    aim: Aim | None = None,
    journal: SearchJournal | None = None,
    seeds: Seeds = tuple,
    ground: Ground | None = None,
) -> SearchResult:
    """Search layouts of an inventory or of a space, in `iterations` rounds of `batch_size` evaluations, `seeds` before
    all others; `ground` is where they are going to lie, for an encoding of an inventory that looks at it.

    The first layouts of a Bayesian search that are not seeds are spread over the space; equal settings and seed give
    equal trials. What seeds take is part of the price of the round that begins with them. What `journal` knows is not
    done again. An interrupt ends the search with what it has. Raises InputError where the inventory admits no island,
    SolverError where too many evaluations break off.
    """
    rents = (aim or Aim()).objective.rents
    space = space_of(among, settings, rents, ground) if isinstance(among, Inventory) else among
    search = _Search(
        space=space,
        settings=settings,
        evaluate=evaluate,
        aim=aim or Aim(),
        journal=journal or Forgetful(),
        seeds=seeds,
    )
    try:
        with deferred():
            for iteration in range(settings.iterations):
                proposed = search.proposed(iteration)
                search.learn(proposed, search.judge(proposed))
                progress(len(search.trials), settings.iterations * settings.batch_size, search.best_rps)
    except KeyboardInterrupt:
        search.interrupted = True
    return search.result()


def given(
    layout: Layout,
    evaluate: EvaluateLayouts,
    progress: ReportProgress = no_progress,
    *,
    solving_cpu_s: float | None = None,
    after: SearchResult | None = None,
    aim: Aim | None = None,
    note: str = "",
) -> SearchResult:
    """The record of a layout that was not searched for, but solved: one trial, behind those of a search `after` which
    it comes. CPU-seconds are told where those of solving are given."""
    (evaluation,) = evaluate([layout])
    progress(1, 1, evaluation.throughput_rps)
    nothing = SearchResult(record=SearchRecord(trials=(), best_trial=0), best=None)
    before = after or nothing
    cost = Round(
        iteration=0,
        evaluations=1,
        best_rps=0.0,
        generation_cpu_s=solving_cpu_s,
        evaluation_cpu_s=None if solving_cpu_s is None else evaluation.cpu_s,
        note=note,
    )
    result = replace(before, unanswered=before.unanswered + evaluation.failed).with_solved(evaluation, cost)
    if aim is None or not aim.several:
        return result
    *earlier, last = result.record.rounds
    covered = hypervolume(result.record.trials, aim.objective.goals, aim.reference)
    return replace(result, record=replace(result.record, rounds=(*earlier, replace(last, hypervolume=covered))))


class _Search:
    """A search under way."""

    def __init__(
        self,
        *,
        space: Space,
        settings: SearchSettings,
        evaluate: EvaluateLayouts,
        aim: Aim,
        journal: SearchJournal,
        seeds: Seeds,
    ) -> None:
        self.space = space
        self.settings = settings
        self.evaluate = evaluate
        self.aim = aim
        self.journal = journal
        self.seeds = seeds
        self.planted: list[Proposal] | None = None
        self.all_planted = False
        self.proposer = proposer_of(space, settings, aim.objective.goals if aim.several else (), aim.reference)
        self.first = first_look(space, self.proposer)
        self.choosers = {RANDOM, self.first.name, self.proposer.name}
        self.trials: list[Trial] = []
        self.rounds: list[Round] = []
        self.evaluations: dict[int, Evaluation] = {}
        self.interrupted = False
        self.stalls = 0

    @property
    def best_rps(self) -> float:
        """The highest rate so far."""
        return max((trial.throughput_rps for trial in self.trials), default=0.0)

    def proposed(self, iteration: int) -> Proposed:
        """A round's candidates: the journal's, where it knows them."""
        proposed = self.journal.proposed(iteration) or self._proposed(iteration)
        self.all_planted |= any(proposal.generator in self.choosers for proposal in proposed.proposals)
        self.stalls = self.stalls + 1 if proposed.note else 0
        return proposed

    def learn(self, proposed: Proposed, spent: float) -> None:
        """End a round that took `spent` CPU-seconds to judge; its proposer hears what became of it."""
        trials = self.trials[-len(proposed.proposals) :]
        self.proposer.tell(trials)
        document = self.proposer.saved()
        if document is not None:
            self.journal.keep_experiment(document)
        self.rounds.append(self._round(proposed, spent))
        self._give_up_on_failures()

    def _proposed(self, iteration: int) -> Proposed:
        """A new round, in the journal. One that ends the search is not, so that a resume tries it again."""
        start, batch = time.process_time(), self.settings.batch_size
        rng = np.random.default_rng([self.settings.seed, iteration])
        seeded = [] if self.all_planted else self._seeded()[iteration * batch : (iteration + 1) * batch]
        looked = any(trial.generator == self.first.name for trial in self.trials)
        chooser = self.proposer if looked and self.proposer.ready else self.first
        proposals, note = _fresh(self.space, chooser, iteration, batch, seeded, self.trials, rng)
        check()  # what was chosen while an interrupt came may be chosen otherwise
        if note and self.stalls + 1 >= MOST_STALLS:
            raise SolverError(
                f"search: no candidates could be generated in {self.stalls + 1} rounds running; the last time: {note}",
                hint="Choose another search.surrogate or search.method.",
            )
        proposed = Proposed(
            iteration=iteration, proposals=proposals, generation_cpu_s=time.process_time() - start, note=note
        )
        self.journal.keep_proposed(proposed)
        return proposed

    def _seeded(self) -> list[Proposal]:
        """The seeds as proposals, each layout once: so they fill whole rounds but the last."""
        if self.planted is None:
            once: dict[Layout, Proposal] = {}
            for seed in self.seeds():
                for proposal in _of_seed(self.space, seed):
                    once.setdefault(proposal.layout, proposal)
            self.planted = list(once.values())
        return self.planted

    def judge(self, proposed: Proposed) -> float:
        """Judge what the journal does not know yet; CPU-seconds of the whole round."""
        first, spent = len(self.trials), 0.0
        pairs = [(self.journal.judged(first + place), candidate) for place, candidate in enumerate(proposed.proposals)]
        # All at once, so that whoever evaluates may do them side by side.
        evaluations = iter(self.evaluate([proposal.layout for judged, proposal in pairs if judged is None]))
        for judged, proposal in pairs:
            if judged is None:
                judged = self._judged(proposed.iteration, proposal, next(evaluations))  # noqa: PLW2901
            self.trials.append(judged.trial)
            spent += judged.cpu_s
        return spent

    def _judged(self, iteration: int, proposal: Proposal, evaluation: Evaluation) -> Judged:
        """An evaluation that has ended, in the journal."""
        check()  # one that ended while an interrupt came may have ended for it, or its solver may
        trial = trial_of(len(self.trials), iteration, proposal, evaluation)
        judged = Judged(trial=trial, cpu_s=evaluation.cpu_s)
        self.journal.keep_judged(judged)
        self.evaluations[trial.index] = evaluation
        return judged

    def _round(self, proposed: Proposed, evaluation_cpu_s: float) -> Round:
        # Times differ from run to run, and equal searches should be stored as equal bytes.
        timed, goals = self.settings.timings, self.aim.objective.goals
        return Round(
            iteration=proposed.iteration,
            evaluations=len(proposed.proposals),
            best_rps=self.best_rps,
            generation_cpu_s=proposed.generation_cpu_s if timed else None,
            evaluation_cpu_s=evaluation_cpu_s if timed else None,
            hypervolume=hypervolume(self.trials, goals, self.aim.reference) if self.aim.several else None,
            note=proposed.note,
        )

    def _give_up_on_failures(self) -> None:
        errors = [trial.error for trial in self.trials if trial.failed]
        if self.settings.too_many_failures(len(errors), len(self.trials)):
            # A set has no order: of equally frequent errors the words decide.
            often = max(set(errors), key=lambda error: (errors.count(error), error))
            raise SolverError(
                f"search: {len(errors)} of {len(self.trials)} evaluations broke off, more than search.failure_limit, "
                f"{self.settings.failure_limit:g} of them; most often: {often}",
                hint="Mend the cause, or raise search.failure_limit.",
            )

    def result(self) -> SearchResult:
        """What the search has come to."""
        front = frontier(self.trials, self.aim.objective.goals) if self.aim.several else ()
        index = self._best(front)
        record = SearchRecord(
            trials=tuple(self.trials),
            best_trial=index,
            rounds=tuple(self.rounds),
            interrupted=self.interrupted,
            frontier=front,
        )
        serves = bool(self.trials) and self.trials[index].throughput_rps > 0
        unanswered = Counter(trial.failed for trial in self.trials)[True]
        return SearchResult(record=record, best=self._evaluation(index) if serves else None, unanswered=unanswered)

    def _best(self, front: tuple[int, ...]) -> int:
        if front:
            return picked([self.trials[index] for index in front], self.aim.objective)
        return max(range(len(self.trials)), key=lambda index: (self.trials[index].throughput_rps, -index), default=0)

    def _evaluation(self, index: int) -> Evaluation:
        # Trials of the journal come without theirs: the best one is judged again, which costs one solve.
        if index not in self.evaluations:
            (self.evaluations[index],) = self.evaluate([self.trials[index].layout])
        return self.evaluations[index]


def _of_seed(space: Space, seed: Proposal) -> list[Proposal]:
    """The layout as it is, with its point if the encoding has one; else also the nearest that it has."""
    point = space.encode(seed.layout)
    nearest = space.layout(point)
    if nearest == seed.layout:
        return [_proposal(point, nearest, seed.generator)]
    return [seed, _proposal(point, nearest, seed.generator)]


def _proposal(point: dict[str, float], layout: Layout, generator: str) -> Proposal:
    return Proposal(parameters=tuple(sorted(point.items())), layout=layout, generator=generator)


def _fresh(
    space: Space,
    proposer: Proposer,
    iteration: int,
    count: int,
    seeded: Sequence[Proposal],
    trials: Sequence[Trial],
    rng: np.random.Generator,
) -> tuple[tuple[Proposal, ...], str]:
    """`count` proposals of layouts not seen before, seeds first, and what went wrong.

    Chance fills up what the proposer leaves open and replaces repeats, while new layouts are to be found.
    """
    layouts, chosen = {trial.layout for trial in trials}, []
    for proposal in seeded:
        if proposal.layout not in layouts:
            layouts.add(proposal.layout)
            chosen.append(proposal)
    points, note = _points(proposer, count - len(chosen), iteration, rng)
    for place in range(count - len(chosen)):
        by = proposer.name if place < len(points) else RANDOM
        point = space.canonical(points[place] if place < len(points) else space.sample(rng))
        layout = space.layout(point)
        for draw in range(RESAMPLES):
            if layout not in layouts:
                break
            drawn = space.sample(rng) if draw < RESAMPLES // 2 else _anywhere(space, rng)
            point, by = space.canonical(drawn), RANDOM
            layout = space.layout(point)
        # After so many draws a repeat is taken: the space has hardly any new layout left.
        layouts.add(layout)
        chosen.append(_proposal(point, layout, by))
    return tuple(chosen), note


def _anywhere(space: Space, rng: np.random.Generator) -> dict[str, float]:
    """A point of the whole box: where the last new layouts lie that samples of the space hardly ever meet."""
    return {axis.name: float(rng.uniform(axis.low, axis.high)) for axis in space.parameters}


def _points(
    proposer: Proposer, count: int, iteration: int, rng: np.random.Generator
) -> tuple[list[dict[str, float]], str]:
    """A model that cannot be fitted costs one round its aim, not the search its life."""
    try:
        return proposer.propose(count, iteration, rng) if count else [], ""
    except Exception as error:  # noqa: BLE001  (libraries raise what they like; told in the round's note)
        return [], f"drawn by chance, {proposer.name} failed: {type(error).__name__}: {error}"
