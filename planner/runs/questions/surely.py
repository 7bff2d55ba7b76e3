"""The cheapest fleet that serves a rate with a given probability: asked for more until what it serves is as sure.

| symbol | meaning | unit |
|---|---|---|
| r | rate that is to be served within the levels with probability s | requests/s |
| x | rate that a fleet is asked to promise, nothing doubted | requests/s |
| q(x) | rate that the cheapest fleet for x serves with probability s | requests/s |

The answer is the fleet of the least x that was tried with q(x) >= r: x is raised by r / q(x) until there is one, then
tried between it and the last that was short. q jumps as fleets do, so no proof says that no cheaper fleet is as sure.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from planner import pipeline
from planner.domain.serving.doubt import DoubtSettings
from planner.errors import InfeasibleError
from planner.runs.questions.documents import MoneyAnswer

MOST_TRIES = 7
CLOSE = 0.02
"""Of a rate: what is no further above it is not improved on."""
DOUBLED = 2.0

Ask = Callable[[float], MoneyAnswer]


def surely_cheapest(ask: Ask, rps: float, sure: float, settings: DoubtSettings) -> MoneyAnswer:
    """The cheapest answer that was found to serve `rps` with probability `sure`; `ask`: of the cheapest fleet that
    promises a rate. Raises as `ask` does, and InfeasibleError where no fleet was as sure."""
    short, asked, best = rps, rps, None
    enough = math.inf
    for _ in range(MOST_TRIES):
        answer = ask(asked)
        held = pipeline.doubt(answer.plan, settings).sure_rps(sure)
        if held >= rps:
            enough, best = asked, _sure(answer, rps, sure, held)
            if held <= rps * (1 + CLOSE) or asked <= rps:
                break
        else:
            short = max(short, asked)
        asked = _next(asked, rps, held, short, enough)
        if math.isfinite(enough) and enough <= short * (1 + CLOSE):
            break
    if best is None:
        raise InfeasibleError(
            f"{rps:g} requests/s: no fleet of the offer was found to serve them with {100 * sure:g} %: the last, for "
            f"{answer.rent_usd_per_hour:.2f} USD/hour, is so sure of {held:.4g}.",
            hint="Ask to be less sure, offer other GPUs, or measure one: `planner cost measure`.",
        )
    return best


def _next(asked: float, rps: float, held: float, short: float, enough: float) -> float:
    """The rate to ask for next: in proportion, between what was short and what was enough."""
    scaled = asked * min(DOUBLED, rps / held) if held > 0 else DOUBLED * asked
    if not math.isfinite(enough):
        return scaled
    return scaled if short * (1 + CLOSE) < scaled < enough / (1 + CLOSE) else math.sqrt(short * enough)


def _sure(answer: MoneyAnswer, rps: float, sure: float, held: float) -> MoneyAnswer:
    """The answer, with how sure it is; that no fleet is cheaper was proven of what it was asked for alone."""
    return replace(answer, amount=rps, sure=(sure, held), bound=None, gap=None)
