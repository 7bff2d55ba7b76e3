"""The cheapest pools that reach a target with a given probability: asked for more until they are so sure of it.

| symbol | meaning | unit |
|---|---|---|
| r | capacity that is to be reached with probability s | requests/s |
| x | capacity that pools are asked to reach as predicted | requests/s |
| q(x) | capacity that the cheapest pools for x reach with probability s | requests/s |

The answer is the least x that was tried with q(x) >= r: x is raised by r / q(x) until there is one, then tried in
proportion between it and the last that was short. q jumps as fleets do, so no proof says that no cheaper fleet is as
sure; the bound is of pools that reach r as predicted.
"""

import math
from dataclasses import replace

from planner.domain import Question
from planner.errors import InfeasibleError, InputError
from planner.evaluation.buckets.service import PricedPools
from planner.evaluation.doubts.odds import DRAWS, promise_odds
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.pools import MET, BucketChoice, solve_buckets

MOST_TRIES = 8
CLOSE = 0.02
"""Of a rate: what is no further above it is not improved on."""
FAR = 0.8
"""Of the target: what few draws say is less is not looked at more closely."""
MOST_TIMES = 2.0
"""By how much a target is raised at once."""


def solve_surely(evaluator: Evaluator) -> BucketChoice:
    """The best pools for the scenario's objective; for a target that is to be met with a probability, the cheapest that
    were found to be so sure.

    Raises as `solve_buckets` does, InfeasibleError where no pools were as sure, and InputError where no band says how
    far speeds may be off.
    """
    question = evaluator.question
    target_rps = aim_rps = question.scenario.objective.target_rps
    if question.scenario.promise.sure is None or not target_rps:
        return solve_buckets(evaluator)
    short, enough, best, bound = 0.0, math.inf, None, None
    for _ in range(MOST_TRIES):
        try:
            choice = solve_buckets(evaluator, aim_rps)
        except InfeasibleError:
            if bound is None:
                raise
            enough = min(enough, aim_rps)  # more than there is: what lies between may still do
            aim_rps = math.sqrt(short * enough)
            if enough <= short * (1 + CLOSE):
                break
            continue
        bound = choice.bound if bound is None else bound
        reached = _sure_capacity_rps(question, choice.priced)
        if reached >= target_rps * (1 - MET):
            best, enough = replace(choice, bound=bound, note=_note(question, aim_rps)), aim_rps
            if reached <= target_rps * (1 + CLOSE) or aim_rps <= target_rps:
                break
        else:
            if not reached and short:
                break  # twice as much as predicted made nothing sure
            short = max(short, aim_rps)
        aim_rps = _next(aim_rps, target_rps / reached if reached else MOST_TIMES, short, enough)
        if enough <= short * (1 + CLOSE):
            break
    if best is None:
        raise InfeasibleError(
            f"scenario {question.scenario.name}: promise.sure: some pools must reach {target_rps:.4g} requests/s with "
            f"{100 * question.scenario.promise.sure:g} %, got none: those for {short:.4g} as predicted do not.",
            hint="Ask to be less sure, offer other GPUs, or measure one: `planner cost measure`.",
        )
    return best


def _next(aim_rps: float, times: float, short: float, enough: float) -> float:
    """The target to try next: in proportion, between what was short and what was enough."""
    scaled = aim_rps * min(MOST_TIMES, times) * (1 + MET)
    if math.isinf(enough):
        return scaled
    return scaled if short * (1 + CLOSE) < scaled < enough / (1 + CLOSE) else math.sqrt(short * enough)


def _sure_capacity_rps(question: Question, priced: PricedPools) -> float:
    """What the pools reach with the probability that the promise is to have, no more than is predicted; where it is far
    from the target, roughly."""
    scenario, reached = question.scenario, priced.rate_rps
    for draws in sorted({min(DRAWS, scenario.doubt.draws), scenario.doubt.draws}):
        odds = promise_odds(question, priced.pools, priced.rate_rps, draws)
        if odds is None:
            raise InputError(
                f"scenario {scenario.name}: promise.sure: the speeds of some GPU type of the pools must have a band, "
                "got none: nothing is doubted.",
                hint="Leave out promise.sure, or cost.source and cost.mode, whose step times have no band.",
            )
        assert scenario.promise.sure is not None, "asked for where it is given"
        reached = min(priced.rate_rps, odds.sure_rps(scenario.promise.sure) / scenario.routing.margin)
        if not FAR < reached / scenario.objective.target_rps < 1 / FAR:
            break
    return reached


def _note(question: Question, asked_rps: float) -> str:
    """What a certificate says of it."""
    return (
        f"chosen to be {100 * (question.scenario.promise.sure or 0):g} % sure, as the best pools for {asked_rps:.4g} "
        "requests/s as predicted; the bound is of pools that reach the target as predicted"
    )
