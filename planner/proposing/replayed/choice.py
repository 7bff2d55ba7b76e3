"""Door: the pools of a plan whose objective is its replayed rate, the programme's answer or better.

What is chosen has to be better than the answer by more than `simplicity` twice: on the seeds that it was searched with,
and on fresh ones with longer streams. An interrupt leaves the best so far, not held against fresh seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.domain import (
    Forgetful,
    ReportProgress,
    SearchJournal,
    SimplerPlan,
)
from planner.domain.serving.promise import ReplayedChoice, ReplayedRates
from planner.evaluation.buckets.judging import layout_of, pooled_assignment, pooled_evaluation
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.replay.pooled import PooledReplay
from planner.processes.interrupts import deferred
from planner.proposing.buckets.pools import BucketChoice, solve_buckets
from planner.proposing.buckets.proposals import proposed_pools
from planner.proposing.proposals import ProposedPlan
from planner.proposing.replayed.rounds import Judges, ReplayBudget, ReplayRounds
from planner.proposing.replayed.space import Point, ReplaySpace

SEARCH_SEEDS, FRESH_SEEDS = 2, 3
LONGER = 2
"""Times the requests of a replay in the search: how many one on fresh seeds has. An overload shows late."""

_SEEDS_APART = 100
_FIRST_FRESH = 50


def search_seeds(seed: int) -> tuple[int, ...]:
    """Seeds of the requests that a search with this seed replays."""
    return tuple(_SEEDS_APART * seed + number for number in range(SEARCH_SEEDS))


def fresh_seeds(seed: int) -> tuple[int, ...]:
    """Seeds of requests that it has not seen."""
    return tuple(_SEEDS_APART * seed + _FIRST_FRESH + number for number in range(FRESH_SEEDS))


def find_replayed(evaluator: Evaluator, progress: ReportProgress, journal: SearchJournal | None = None) -> ProposedPlan:
    """The pools that hold the levels at the highest replayed rate.

    Raises InfeasibleError where nothing serves, InputError where the trace is not at hand, KeyboardInterrupt where the
    search was cut short before the programme's answer was replayed.
    """
    question = evaluator.question
    replay = PooledReplay(question)
    choice = solve_buckets(evaluator)
    space = ReplaySpace(question, evaluator.prices, choice.priced.pools)
    judges = Judges(question, space, replay, choice.priced.rate_rps)
    objective, seed = question.scenario.objective, question.scenario.search.seed
    budget = ReplayBudget(
        replays=objective.replays,
        requests=objective.requests,
        seeds=search_seeds(seed),
    )
    rounds = ReplayRounds(
        space=space,
        judges=judges,
        settings=question.scenario.search,
        budget=budget,
        journal=journal or Forgetful(),
    )
    rounds.run(progress)
    if space.base not in rounds.dear:
        raise KeyboardInterrupt
    fresh = fresh_seeds(seed)
    point, solved, candidate = _verdict(rounds, question.scenario.simplicity, fresh)
    replayed = ReplayedChoice(
        arrivals=replay.arrivals,
        requests=budget.requests,
        fresh_requests=LONGER * budget.requests,
        search_seeds=budget.seeds,
        fresh_seeds=fresh,
        replayed=len(rounds.dear),
        solved=solved,
        candidate=candidate,
        chosen=point != space.base,
    )
    return _proposed(evaluator, rounds, choice, point, replayed)


def _verdict(
    rounds: ReplayRounds, simplicity: float, fresh: Sequence[int]
) -> tuple[Point, ReplayedRates, ReplayedRates | None]:
    """The plan, and the rates of the answer and of its best rival, where the search had one."""
    base = rounds.space.base
    best = _simplest_best(rounds, simplicity)
    rates = [_rates(rounds, point) for point in dict.fromkeys((base, best))]
    if not rounds.interrupted:
        try:
            with deferred():
                rates = [_with_fresh(rounds, point, fresh) for point in dict.fromkeys((base, best))]
        except KeyboardInterrupt:
            rounds.interrupted = True
    solved, candidate = rates[0], rates[1] if best != base else None
    return best if _stands(solved, candidate, simplicity) else base, solved, candidate


def _simplest_best(rounds: ReplayRounds, simplicity: float) -> Point:
    """Of what was replayed the simplest near the best."""
    return simplest_near_best(
        rounds.space, {point: trial.replayed_rps or 0.0 for point, trial in rounds.dear.items()}, simplicity
    )


def simplest_near_best(space: ReplaySpace, rates: Mapping[Point, float], simplicity: float) -> Point:
    """Of points within `simplicity` of the best rate the base; else the simplest that is better than it."""
    best, base = max(rates.values()), space.base
    # replays are noisy: an answer within the share is not beaten
    if best <= rates[base] * (1 + simplicity):
        return base
    better = [point for point, rate in rates.items() if rate > rates[base] and rate >= best * (1 - simplicity)]
    return min(better, key=lambda point: (*_complexity(space, point), -rates[point]))


def _complexity(space: ReplaySpace, point: Point) -> tuple[int, ...]:
    """Kinds, buckets and pools, then how many dials are not as the answer has them."""
    simple = SimplerPlan.of(space.pools(point), 0.0, chosen=False)
    turned = sum(value != base for value, base in zip(point, space.base, strict=True))
    return simple.prefill_buckets + simple.decode_buckets, simple.kinds, simple.pools, turned


def _stands(solved: ReplayedRates, candidate: ReplayedRates | None, simplicity: float) -> bool:
    """Whether the candidate is the plan; what was not held against fresh seeds stands on those of the search."""
    if candidate is None:
        return False
    # interrupted: seeds that both were searched with favour the candidate, and are all there is
    if candidate.fresh_rps is None or solved.fresh_rps is None:
        return candidate.search_rps > solved.search_rps * (1 + simplicity)
    return candidate.fresh_rps > solved.fresh_rps * (1 + simplicity)


def _rates(rounds: ReplayRounds, point: Point) -> ReplayedRates:
    trial = rounds.dear[point]
    return ReplayedRates(
        analytic_rps=trial.throughput_rps,
        search_rps=trial.replayed_rps or 0.0,
        fresh_rps=None,
    )


def _with_fresh(rounds: ReplayRounds, point: Point, seeds: Sequence[int]) -> ReplayedRates:
    rates = _rates(rounds, point)
    guess = rates.search_rps or rates.analytic_rps
    fresh = rounds.judges.replayed_rps(point, seeds, LONGER * rounds.budget.requests, guess_rps=guess)
    return replace(rates, fresh_rps=fresh)


def _proposed(
    evaluator: Evaluator, rounds: ReplayRounds, choice: BucketChoice, plan: Point, replayed: ReplayedChoice
) -> ProposedPlan:
    """The chosen point, priced again as any pools are."""
    priced = choice.priced if plan == rounds.space.base else rounds.judges.priced(plan)
    assignment = pooled_assignment(priced, choice.solver, optimal=choice.proven)
    if plan != rounds.space.base:
        others = tuple(replace(point, chosen=False) for point in choice.simpler)
        chosen = SimplerPlan.of(priced.pools, priced.rate_rps, chosen=True)
        choice = replace(choice, priced=priced, simpler=(*others, chosen))
    best = pooled_evaluation(layout_of(priced.pools), assignment)
    return proposed_pools(evaluator, best, rounds.record(plan), choice, replayed=replayed)
