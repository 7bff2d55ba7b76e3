"""Rates whose plans would raise the bound of the day most.

The bound takes a fleet for the cost of the largest rate planned for that it carries. Where the highest rate of a
stretch lies above that rate, a plan for it may raise the bound by at most the difference to the next rate's cost.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from planner.domain.replanning.rates import RateSeries
from planner.errors import InfeasibleError, SolverError
from planner.replanning.schedules.bounds import carried_rps, rents
from planner.replanning.schedules.levels import LeastCost, LevelBook
from planner.replanning.schedules.switching import best_switching

TIGHT = 0.005  # of the bound: what it may rise by at most is not worth plans
AT_ONCE = 6


def tighten(book: LevelBook, series: RateSeries, most_changes: int, most_plans: int) -> None:
    """Plan for rates that raise the bounds, with limited and with unlimited changes, up to so many plans in all."""
    while len(book.rates_rps) < most_plans:
        least = book.all_least()
        loose = [*_of_stretches(least, series, most_changes), *_of_windows(least, series)]
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


def _of_stretches(least: Sequence[LeastCost], series: RateSeries, most_changes: int) -> Iterator[tuple[float, float]]:
    """Highest rates of the stretches of the bound with limited changes, and the share that it may rise by there."""
    rent, rates = rents(least), np.array(series.rates_rps)
    free = np.zeros((len(rent), len(rent)))
    steps = best_switching(
        series.rates_rps, carried_rps(least), rent, free, days=series.days, most_changes=most_changes
    )
    for first, after in pairwise([0, *steps.changes, len(rates)]):
        highest, step = float(rates[first:after].max()), steps.plans[first]
        if 0 < step < len(least) and highest > least[step - 1].rate_rps:
            yield highest, (after - first) * float(rent[step + 1] - rent[step]) / steps.usd


def _of_windows(least: Sequence[LeastCost], series: RateSeries) -> Iterator[tuple[float, float]]:
    """The middle of the rates that share a step, and the share that the bound of single windows may rise by there."""
    rent, rates = rents(least), np.array(series.rates_rps)
    steps = np.searchsorted([step.rate_rps for step in least], rates, side="right")
    total = float(rent[steps].sum())
    for step in np.unique(steps):
        above = np.unique(rates[steps == step])
        above = above[above > least[step - 1].rate_rps] if step else above[above > 0]
        if len(above) and step < len(least):
            windows = int((rates >= above[0]).sum() - (rates > above[-1]).sum())
            yield float(above[len(above) // 2]), windows * float(rent[step + 1] - rent[step]) / total
