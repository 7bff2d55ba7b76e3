"""The bound of the day: no schedule of a fleet serves the windows within the levels, by the cost model, for less.

| symbol | meaning | unit |
|---|---|---|
| d_t, h, T | rate of window t, length of a window, windows | requests/s, hours, 1 |
| P(F), c(F) | promise and rent of a fleet F | requests/s, USD/hour |
| b_i, L_i | no fleet with P(F) >= L_i has c(F) < b_i; ascending, i = 1..m | USD/hour, requests/s |
| B(d) | b_i of the largest L_i <= d; 0 below L_1 | USD/hour |
| rho | rent of the GPUs that are reserved | USD/hour |
| delta | discount of reserved GPUs | 1 |

Any schedule is a fleet F_t in every window with P(F_t) >= d_t, the same between changes. B never falls, so c(F_t) >=
B(P(F_t)) and every fleet is carried over to a step i with b_i <= c(F_t) and L_(i+1) > P(F_t) >= all rates while it
stands. Steps change no more often than fleets, changes cost nothing, so

    hourly      least sum_t h b_(i_t)   with  L_(i_t + 1) > d_t  and at most S changes a day

is a bound: the switching programme over steps, where step i carries all rates below L_(i+1).

    reserved    sum_g p_g max(0, n_g - R_g) >= max(0, sum_g p_g n_g - sum_g p_g R_g), so a schedule with rho =
                sum_g p_g R_g costs at least T h (1 - delta) rho + sum_t h max(0, b_(i_t) - rho). For a fixed choice of
                steps that is convex and piecewise linear in rho with corners at the b_i: the least over rho in
                {0, b_1, ..., b_m} is a bound.

    owned       a GPU in a server costs q_g = f_g + e W_g iota more than in none, and its power while it works (see
                `levels`). With q = min_g q_g / p_g and w = min_g e W_g / p_g a fleet costs at least q b_i, and its
                work w (1 - iota) d_t c(F) / capacity(F) >= w (1 - iota) d_t b_i margin / L_(i+1), above a constant: -
                sum_g f_g N_g an hour. Of the last step, which has no L_(i+1), the work is left out.

`tighten` asks for plans of those rates that would raise the bound most. The bound takes a fleet for the cost of the
largest rate planned for that it carries. Where the highest rate of a stretch lies above that rate, a plan for it may
raise the bound by at most the difference to the next rate's cost, and to no more than the cheapest plan that carries
the rate already: where that costs what the bound says, nothing is to be gained.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.domain import Scenario
from planner.domain.schedules import RateSeries, Tariff, TariffKind
from planner.errors import InfeasibleError, SolverError
from planner.replanning.schedules.levels import (
    SAME,
    Floats,
    LeastCost,
    LevelBook,
    power_usd_per_hour,
    serving_usd_per_hour,
    spare_usd_per_hour,
)
from planner.replanning.schedules.switching import best_switching, least_usd
from planner.units import SECONDS_PER_HOUR


def least_of_schedules(
    scenario: Scenario, series: RateSeries, floor: Sequence[LeastCost], tariff: Tariff, most_changes: int | None
) -> float:
    """No schedule with at most so many changes a day (None: any number) costs less (USD)."""
    hours, rent = series.window_s / SECONDS_PER_HOUR, rents(floor)

    def of_steps(usd_per_hour: Floats) -> float:
        usd = hours * usd_per_hour
        return least_usd(series.rates_rps, carried_rps(floor), usd, days=series.days, most_changes=most_changes)

    match tariff.kind:
        case TariffKind.HOURLY:
            return of_steps(rent)
        case TariffKind.RESERVED:
            paid_hours = len(series.windows) * hours * (1 - tariff.reserved_discount)
            return min(
                paid_hours * float(always) + of_steps(np.maximum(0.0, rent - always)) for always in np.unique(rent)
            )
        case TariffKind.OWNED:
            idle = -sum(item.count * spare_usd_per_hour(item, tariff) for item in scenario.inventory.items)
            return len(series.windows) * hours * idle + of_steps(_owned_usd_per_hour(scenario, series, floor, tariff))


def carried_rps(floor: Sequence[LeastCost]) -> list[float]:
    """Rates up to which each step carries; the first is of rates below all that was planned for."""
    return [*(float(np.nextafter(step.rate_rps, 0.0)) for step in floor), float("inf")]


def rents(floor: Sequence[LeastCost]) -> Floats:
    """USD/hour of each step; nothing below all rates that were planned for."""
    return np.array([0.0, *(step.usd_per_hour for step in floor)])


def _owned_usd_per_hour(scenario: Scenario, series: RateSeries, floor: Sequence[LeastCost], tariff: Tariff) -> Floats:
    """What steps cost in every window, above all GPUs spare (T x steps)."""
    items = [item for item in scenario.inventory.items if item.count]
    rent = rents(floor)
    below = np.array([*(step.rate_rps for step in floor), np.inf])
    standing: float = min(serving_usd_per_hour(item, tariff) / item.rent_usd_per_gpu_hour for item in items)
    working: float = min(power_usd_per_hour(item, tariff) / item.rent_usd_per_gpu_hour for item in items)
    of_rate = working * (1 - tariff.idle_share) * rent * scenario.routing.margin / below
    return np.asarray(standing * rent + np.array(series.rates_rps)[:, None] * of_rate[None, :])


TIGHT = 0.005  # of the bound: what it may rise by at most is not worth plans
AT_ONCE = 6


def tighten(book: LevelBook, series: RateSeries, most_changes: int, most_plans: int) -> None:
    """Plan for rates that raise the bounds, with limited and with unlimited changes, up to so many plans in all."""
    while len(book.rates_rps) < most_plans:
        floor = book.all_least()
        loose = [*_of_stretches(book, floor, series, most_changes), *_of_windows(book, floor, series)]
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
    book: LevelBook, floor: Sequence[LeastCost], series: RateSeries, most_changes: int
) -> Iterator[tuple[float, float]]:
    """Highest rates of the stretches of the bound with limited changes, and the share that it may rise by there."""
    rent, rates = rents(floor), np.array(series.rates_rps)
    free = np.zeros((len(rent), len(rent)))
    stretches = best_switching(
        series.rates_rps, carried_rps(floor), rent, free, days=series.days, most_changes=most_changes
    )
    for first, after in pairwise([0, *stretches.changes, len(rates)]):
        highest = rates[first:after].max(keepdims=True)
        rise = _rises(book, floor, highest, np.array([stretches.plans[first]]))
        if rise[0]:
            yield float(highest[0]), (after - first) * float(rise[0]) / stretches.usd


def _of_windows(book: LevelBook, floor: Sequence[LeastCost], series: RateSeries) -> Iterator[tuple[float, float]]:
    """A rate of those that share a step, and the share that the bound of single windows may rise by there: the middle
    one, or the lowest where no fleet costs less than the next step by a GPU, so that one plan settles all of them."""
    rates = np.array(series.rates_rps)
    steps = np.searchsorted([step.rate_rps for step in floor], rates, side="right")
    total = float(rents(floor)[steps].sum())
    rises = _rises(book, floor, rates, steps)
    gpu_usd = min(item.rent_usd_per_gpu_hour for item in book.scenario.inventory.items if item.count)
    for step in np.unique(steps[rises > 0]):
        loose = (steps == step) & (rises > 0)
        above = np.unique(rates[loose])
        place = 0 if rises[loose].max() <= gpu_usd * (1 + SAME) else len(above) // 2
        yield float(above[place]), float(rises[loose].sum()) / total


def _rises(book: LevelBook, floor: Sequence[LeastCost], rates_rps: Floats, steps: NDArray[np.int64]) -> Floats:
    """USD/hour by which a plan for each rate may raise the bound at most; `steps`: of the bound, that carry them."""
    rent = np.array([*rents(floor), np.inf])
    planned_rps = np.array([0.0, *(step.rate_rps for step in floor)])
    carrying = np.array([book.cheapest_usd_per_hour(rate) for rate in rates_rps])
    rises = np.minimum(rent[steps + 1], carrying) - rent[steps]
    worth = (rises > TIGHT * rent[steps]) & (rates_rps > planned_rps[steps]) & (steps < len(floor))
    return np.where(worth, rises, 0.0)
