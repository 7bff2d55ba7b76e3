"""Rounds of a search with two judges: the model of queues sees every candidate, the replay the best of each round.

A round depends on the seed, its number and the trials before, so that a search that resumes goes the way that it would
have gone. The answer that was solved for is the first candidate to be replayed.
"""

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from random import Random

from planner.domain import (
    Judged,
    Proposal,
    Proposed,
    Question,
    ReportProgress,
    Round,
    SearchJournal,
    SearchRecord,
    SearchSettings,
    Trial,
    WarmStart,
)
from planner.domain.replay import ReplayResult
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.replay.pooled import Ladder, PooledReplay
from planner.processes.interrupts import check, deferred
from planner.proposing.replayed.moves import neighbours
from planner.proposing.replayed.space import Point, ReplaySpace
from planner.proposing.search import Judgement, most_promising


class Judges:
    """Rates of points (requests/s); what was worked out once is kept. `base_rps` gives the ladder its rungs."""

    def __init__(self, question: Question, space: ReplaySpace, replay: PooledReplay, base_rps: float) -> None:
        self._space = space
        self._replay = replay
        self._service = BucketService(question)
        self._priced: dict[Point, PricedPools] = {}
        self._ladder = Ladder(base_rps=base_rps)

    def between(self, stretch: tuple[float, float] | None) -> "Judges":
        """The same, with requests of a stretch of the trace."""
        other = copy(self)
        other._replay = self._replay.between(stretch)
        return other

    def priced(self, point: Point) -> PricedPools:
        """The pools of a point with their capacities, as a plan would have them."""
        if point not in self._priced:
            self._priced[point] = self._service.priced(self._space.pools(point))
        return self._priced[point]

    def replayed_rps(
        self, point: Point, seeds: Sequence[int], requests: int, *, guess_rps: float, to_beat_rps: float = 0.0
    ) -> float:
        """The highest rate that seems to hold the levels on these seeds, as `Ladder.highest` finds it; 0 where none
        does. An interrupt is heeded between replays."""

        def holds(rate_rps: float) -> bool:
            check()
            return self.at(point, rate_rps, seeds, requests).seems_to_hold

        return self._ladder.highest(holds, guess_rps, to_beat_rps)

    def at(self, point: Point, rate_rps: float, seeds: Sequence[int], requests: int) -> ReplayResult:
        """The replay of a point at one rate."""
        return self._replay.at(self._replay.fleet(self.priced(point).pools), rate_rps, seeds, requests)


PRICED = "neighbour"
"""Who proposed what the model of queues alone has judged."""

REPLAYED = "botorch"
"""Who proposed what was replayed: the model of what the other one is off by."""

_ORIGINS = 8  # of the best points so far, whose neighbours are looked at
_PRIME = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBudget:
    """What a search may spend: `replays` a round, each of so many `requests` with each of `seeds`."""

    replays: int
    requests: int
    seeds: tuple[int, ...]


class ReplayRounds:
    """A search under way."""

    def __init__(
        self,
        *,
        space: ReplaySpace,
        judges: Judges,
        settings: SearchSettings,
        budget: ReplayBudget,
        journal: SearchJournal,
    ) -> None:
        self.space = space
        self.judges = judges
        self.settings = settings
        self.budget = budget
        self.journal = journal
        self.trials: list[Trial] = []
        self.rounds: list[Round] = []
        self.cheap: dict[Point, float] = {}
        self.dear: dict[Point, Trial] = {}
        self.interrupted = False

    def run(self, progress: ReportProgress) -> None:
        """All rounds; fewer where there is nothing left to try, or an interrupt comes."""
        total = self.settings.iterations * self.settings.batch_size
        try:
            with deferred():
                for iteration in range(self.settings.iterations):
                    proposed = self.journal.proposed(iteration) or self._proposed(iteration)
                    if not proposed.proposals:
                        break
                    self._judge(proposed)
                    progress(min(len(self.trials), total), total, self.best_rps)
        except KeyboardInterrupt:
            self.interrupted = True

    @property
    def best_rps(self) -> float:
        """The highest replayed rate so far."""
        return max((trial.replayed_rps or 0.0 for trial in self.dear.values()), default=0.0)

    def record(self, plan: Point) -> SearchRecord:
        """What the search did; the trial of `plan`, which has been replayed, is the best."""
        return SearchRecord(
            trials=tuple(self.trials),
            best_trial=self.dear[plan].index,
            rounds=tuple(self.rounds),
            interrupted=self.interrupted,
        )

    def _proposed(self, iteration: int) -> Proposed:
        start = time.process_time()
        rng = Random(self.settings.seed * _PRIME + iteration)  # noqa: S311  (no secrets: to be repeated)
        fresh = dict(self._fresh(rng, first=not iteration))
        for point in fresh:
            check()
            self.cheap[point] = self.judges.priced(point).rate_rps
        chosen = self._finalists(iteration, fresh)
        others = [point for point in fresh if point not in chosen]
        check()
        proposed = Proposed(
            iteration=iteration,
            proposals=tuple(
                [*(self._proposal(point, self._generator(point)) for point in chosen)]
                + [self._proposal(point, PRICED) for point in others]
            ),
            generation_cpu_s=time.process_time() - start,
        )
        if proposed.proposals:
            self.journal.keep_proposed(proposed)
        return proposed

    def _fresh(self, rng: Random, *, first: bool) -> Iterator[tuple[Point, str]]:
        """New points with the move that led to each; the first of all is the answer itself."""
        if first:
            yield self.space.base, ""
        ranked = sorted(self.dear, key=lambda point: -(self.dear[point].replayed_rps or 0.0))
        origins = ranked[:_ORIGINS] or [self.space.base]
        tried = {*self.cheap, self.space.base}
        count = max(1, self.settings.batch_size - (1 if first else self.budget.replays))
        for move, point in neighbours(self.space, origins, tried, count, rng):
            yield point, move

    def _finalists(self, iteration: int, moves: dict[Point, str]) -> list[Point]:
        """Who is to be replayed: in the first round the answer and the best of each move, then whom the model of both
        judges promises most of."""
        waiting = [point for point, rate in self.cheap.items() if rate > 0 and point not in self.dear]
        if iteration == 0:
            by_rate = sorted(waiting, key=lambda point: -self.cheap[point])
            firsts: dict[str, Point] = {}
            for point in by_rate:
                firsts.setdefault(moves[point], point)
            order = [self.space.base, *firsts.values(), *by_rate]
            return list(dict.fromkeys(order))[: self.budget.replays]
        judged = [
            Judgement(
                features=self._features(point),
                cheap_rps=trial.throughput_rps,
                dear_rps=trial.replayed_rps,
            )
            for point, trial in self.dear.items()
            if trial.replayed_rps
        ]
        features = [self._features(point) for point in waiting]
        rates = [self.cheap[point] for point in waiting]
        seed = self.settings.seed * _PRIME + iteration
        return [waiting[place] for place in most_promising(judged, features, rates, self.budget.replays, seed)]

    def _features(self, point: Point) -> tuple[float, ...]:
        """Where the dials stand, and what each phase could serve: the model of queues errs by phase."""
        priced, base_rps = self.judges.priced(point), self.judges.priced(self.space.base).rate_rps
        phases = (_scaled(priced.prefill_rps / base_rps), _scaled(priced.decode_rps / base_rps))
        return (*self.space.features(point), *phases)

    def _generator(self, point: Point) -> str:
        return WarmStart.EXACT.value if point == self.space.base else REPLAYED

    def _proposal(self, point: Point, generator: str) -> Proposal:
        layout = layout_of(self.space.pools(point))
        return Proposal(parameters=self.space.parameters(point), layout=layout, generator=generator)

    def _judge(self, proposed: Proposed) -> None:
        spent = 0.0
        for proposal in proposed.proposals:
            judged = self.journal.judged(len(self.trials)) or self._judged(proposed.iteration, proposal)
            point = self.space.point(dict(judged.trial.parameters))
            self.cheap[point] = judged.trial.throughput_rps
            if judged.trial.replayed_rps is not None:
                self.dear[point] = judged.trial
            self.trials.append(judged.trial)
            spent += judged.cpu_s
        timed = self.settings.timings
        self.rounds.append(
            Round(
                iteration=proposed.iteration,
                evaluations=len(proposed.proposals),
                best_rps=self.best_rps,
                generation_cpu_s=proposed.generation_cpu_s if timed else None,
                evaluation_cpu_s=spent if timed else None,
                note=proposed.note,
            )
        )

    def _judged(self, iteration: int, proposal: Proposal) -> Judged:
        start, point = time.process_time(), self.space.point(dict(proposal.parameters))
        rate = self.cheap.get(point)
        rate = self.judges.priced(point).rate_rps if rate is None else rate
        replayed = None if proposal.generator == PRICED else self._replayed(point, rate)
        check()
        trial = Trial(
            index=len(self.trials),
            iteration=iteration,
            parameters=proposal.parameters,
            layout=proposal.layout,
            throughput_rps=rate,
            generator=proposal.generator,
            replayed_rps=replayed,
        )
        judged = Judged(trial=trial, cpu_s=time.process_time() - start)
        self.journal.keep_judged(judged)
        return judged

    def _replayed(self, point: Point, rate: float) -> float:
        """Begun at what the model of queues is off by as a rule."""
        ratios = [(trial.replayed_rps or 0.0) / trial.throughput_rps for trial in self.dear.values()]
        usual = statistics.median(ratios) if ratios else 1.0
        return self.judges.replayed_rps(
            point,
            self.budget.seeds,
            self.budget.requests,
            guess_rps=rate * (usual or 1.0),
            to_beat_rps=self.best_rps,
        )


def _scaled(ratio: float) -> float:
    """A rate over the answer's, from half to twice as much, as 0 to 1."""
    return min(1.0, max(0.0, 0.5 + math.log2(ratio) / 2)) if ratio > 0 else 0.0
