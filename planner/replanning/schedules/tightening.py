"""Rates whose plans would raise the bound of the day most.

The bound takes a fleet for the cost of the largest rate planned for that it carries. Where the highest rate of a
stretch lies above that rate, a plan for it may raise the bound by at most the difference to the next rate's cost, and
to no more than the cheapest plan that carries the rate already: where that costs what the bound says, nothing is to be
gained.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.domain.schedules import RateSeries
from planner.errors import InfeasibleError, SolverError
from planner.replanning.schedules.bounds import carried_rps, rents
from planner.replanning.schedules.levels import SAME, LeastCost, LevelBook
from planner.replanning.schedules.switching import best_switching

TIGHT = 0.005  # of the bound: what it may rise by at most is not worth plans
AT_ONCE = 6

Floats = NDArray[np.float64]


def tighten(book: LevelBook, series: RateSeries, most_changes: int, most_plans: int) -> None:
    """Plan for rates that raise the bounds, with limited and with unlimited changes, up to so many plans in all."""
    while len(book.rates_rps) < most_plans:
        least = book.all_least()
        loose = [*_of_stretches(book, least, series, most_changes), *_of_windows(book, least, series)]
        by_rate: dict[float, float] = {}
        for rate, share in loose:
            by_rate[rate] = max(share, by_rate.get(rate, 0.0))
        best = sorted(by_rate, key=lambda rate: (-by_rate[rate], rate))[
            : min(AT_ONCE, most_plans - len(book.rates_rps))
        ]
        if sum(by_rate.values()) < TIGHT or not best:
            return
        for rate in best:
            try:
                book.add(rate)
            except (InfeasibleError, SolverError):
                return


def _of_stretches(
    book: LevelBook, least: Sequence[LeastCost], series: RateSeries, most_changes: int
) -> Iterator[tuple[float, float]]:
    """Highest rates of the stretches of the bound with limited changes, and the share that it may rise by there."""
    rent, rates = rents(least), np.array(series.rates_rps)
    free = np.zeros((len(rent), len(rent)))
    stretches = best_switching(
        series.rates_rps, carried_rps(least), rent, free, days=series.days, most_changes=most_changes
    )
    for first, after in pairwise([0, *stretches.changes, len(rates)]):
        highest = rates[first:after].max(keepdims=True)
        rise = _rises(book, least, highest, np.array([stretches.plans[first]]))
        if rise[0]:
            yield float(highest[0]), (after - first) * float(rise[0]) / stretches.usd


def _of_windows(book: LevelBook, least: Sequence[LeastCost], series: RateSeries) -> Iterator[tuple[float, float]]:
    """A rate of those that share a step, and the share that the bound of single windows may rise by there: the middle
    one, or the lowest where no fleet costs less than the next step by a GPU, so that one plan settles all of them."""
    rates = np.array(series.rates_rps)
    steps = np.searchsorted([step.rate_rps for step in least], rates, side="right")
    total = float(rents(least)[steps].sum())
    rises = _rises(book, least, rates, steps)
    gpu_usd = min(item.price_usd_per_gpu_hour for item in book.scenario.inventory.items if item.count)
    for step in np.unique(steps[rises > 0]):
        loose = (steps == step) & (rises > 0)
        above = np.unique(rates[loose])
        place = 0 if rises[loose].max() <= gpu_usd * (1 + SAME) else len(above) // 2
        yield float(above[place]), float(rises[loose].sum()) / total


def _rises(book: LevelBook, least: Sequence[LeastCost], rates_rps: Floats, steps: NDArray[np.int64]) -> Floats:
    """USD/hour by which a plan for each rate may raise the bound at most; `steps`: of the bound, that carry them."""
    rent = np.array([*rents(least), np.inf])
    planned_rps = np.array([0.0, *(step.rate_rps for step in least)])
    carrying = np.array([book.cheapest_usd_per_hour(rate) for rate in rates_rps])
    rises = np.minimum(rent[steps + 1], carrying) - rent[steps]
    worth = (rises > TIGHT * rent[steps]) & (rates_rps > planned_rps[steps]) & (steps < len(least))
    return np.where(worth, rises, 0.0)
