"""A ladder of fleets whose costs can be counted by hand, and watches of made-up loads over them."""

import math
from collections.abc import Sequence
from dataclasses import replace

from planner.domain.watching import Fleet, Need, Observation, WatchSettings, WatchStep
from planner.replanning.watches.watching import WatchState, advance, after, decide

CHANGE_USD, CHANGE_S, MINUTE_S = 20.0, 600.0, 60.0
LADDER = tuple(
    Fleet(plan=f"{rate:.0f}rps", promise_rps=rate, gpus=(("A", math.ceil(rate / 2)),))
    for rate in (10 * 1.1**step for step in range(40))
)
STOCK = 220


def cheapest(need: Need) -> Fleet | None:
    """The cheapest fleet of the ladder that fits, by looking at each."""
    offered, prices = dict(need.offered), dict(need.prices)
    fits = [fleet for fleet in LADDER if all(count <= offered.get(gpu, 0) for gpu, count in fleet.gpus)]
    if need.load_rps is None:
        best = max(fits, key=lambda fleet: fleet.promise_rps, default=None)
    else:
        enough = [fleet for fleet in fits if fleet.promise_rps >= need.load_rps]
        best = min(enough, key=lambda fleet: fleet.usd_per_hour(prices), default=None)
    return None if best is None else replace(best, change_usd=CHANGE_USD, change_s=CHANGE_S)


def observed(at_s: float, load_rps: float | None, price: float = 2.0, count: int = STOCK) -> Observation:
    """What feeds of one GPU type say."""
    stock = (("A", count),)
    return Observation(at_s=at_s, load_rps=load_rps, prices=(("A", price),), stock=stock, lost=(), available=stock)


def watched(observations: Sequence[Observation], settings: WatchSettings | None = None) -> list[WatchStep]:
    """A watch of them, from no plan on."""
    state, steps = WatchState(settings=settings or WatchSettings()), []
    for observation in observations:
        state = advance(state, observation)
        decision = decide(state, cheapest)
        steps.append(WatchStep(observation=observation, decision=decision))
        state = after(state, decision)
    return steps


def loads(rates: Sequence[float]) -> list[Observation]:
    """A load a minute."""
    return [observed(minute * MINUTE_S, rate) for minute, rate in enumerate(rates)]
