"""Schedules: plans over a day or a week, few changes, and a bound.

Plans are made for quantiles of the rates first, then for the highest rates of the stretches that the best schedule has.
A plan is worth making where a stretch of windows between two changes has its highest rate: any other plan there costs
more, or carries too little. Which stretches those are follows from the switching programme over imagined plans at many
rates, whose costs lie between those of the plans that were made. That is done again until the schedule gains nothing.

Changes are made smaller last: plans for rates are made one by one, and two of them may do the same work with other
servers, so that a change starts all of them anew. From the first change of the best schedule to the last, the plan
after it is made once more from the one before it, for the highest rate that it meets until the next: as few GPUs
touched as can be for (nearly) the same rent. The switching programme then chooses among all plans, so that a schedule
never gets dearer by it.
"""

from itertools import pairwise

import numpy as np

from planner.domain import Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import RateSeries, Schedule, ScheduledWindow, Tariff
from planner.errors import InfeasibleError, InputError, SolverError
from planner.replanning.schedules.bounds import least_of_schedules, tighten
from planner.replanning.schedules.levels import LevelBook, LevelSet, Planner, Replanner, window_usd
from planner.replanning.schedules.pricing import price_further
from planner.replanning.schedules.switching import best_plans, best_switching
from planner.units import SECONDS_PER_HOUR

WORTH = 2e-5  # of the schedule's cost: changes that cost less stay as they are
MOST_NEAR = 40  # plans, of about two CPU-seconds


def nest(book: LevelBook, series: RateSeries, tariff: Tariff, most_changes: int) -> None:
    """Plans near those before them, in the book beside all others."""
    levels = book.all()
    switching, _ = best_plans(levels, book.scenario, series, tariff, most_changes)
    edges = [*switching.changes, len(series.windows)]
    standing, least_usd = levels.levels[switching.plans[0]], WORTH * switching.usd
    for first, after in list(pairwise(edges))[:MOST_NEAR]:
        level, rate = levels.levels[switching.plans[first]], max(series.rates_rps[first:after])
        change_usd = book.change_usd(standing, level)
        near = book.add_near(standing, rate) if rate and change_usd > least_usd else None
        standing = level if near is None or book.change_usd(standing, near) >= change_usd else near


QUANTILES = 8
IMAGINED = 48
ROUNDS = 5
MOST_PLANS = 64  # a plan takes about a CPU-second
GAIN = 1e-3  # of the schedule's cost: what a round has to gain for another


def chosen_levels(
    book: LevelBook, series: RateSeries, tariff: Tariff, most_changes: int, most_plans: int = MOST_PLANS
) -> LevelSet:
    """Plans that the best schedule of the series uses, the cheapest that stands all the time and one that
    carries the highest rate that was planned for, with the bounds of all that were made.

    Rates that are all 0 are carried by plans that the book has already. Raises InfeasibleError where no fleet promises
    the highest rate; it names the window. InputError where there is nothing to plan for.
    """
    if series.peak_rps:
        _plan_for(book, series, tariff, most_changes, most_plans)
    elif not book.rates_rps:
        raise InputError(
            f"rates {series.name}: must have requests in some window, got only rates of 0.",
            hint="Choose other days, or other rates.",
        )
    levels = book.all()
    switching, _ = best_plans(levels, book.scenario, series, tariff, most_changes)
    static, _ = best_plans(levels, book.scenario, series, tariff, 0)
    return levels.only({*switching.plans, *static.plans, levels.carrying(max(book.rates_rps))})


def _plan_for(book: LevelBook, series: RateSeries, tariff: Tariff, most_changes: int, most_plans: int) -> None:
    """Plans for rates above 0, until neither the schedule nor its bound gains by more."""
    _add_peak(book, series)
    for rate in first_rates(series):
        if not book.carries(rate):
            _add(book, rate)
    usd = float("inf")
    for _ in range(ROUNDS):
        levels = book.all()
        switching, _ = best_plans(levels, book.scenario, series, tariff, most_changes)
        if switching.usd >= usd * (1 - GAIN):
            break
        usd = switching.usd
        for rate in stretch_rates(levels, series, most_changes):
            if not book.carries(rate):
                _add(book, rate)
    tighten(book, series, most_changes, most_plans)
    price_further(book, series, tariff, most_changes)
    nest(book, series, tariff, most_changes)


def _add(book: LevelBook, rate_rps: float) -> None:
    """A rate without a plan within the work limit is carried by the next larger plan."""
    try:
        book.add(rate_rps)
    except (InfeasibleError, SolverError):
        return


def _add_peak(book: LevelBook, series: RateSeries) -> None:
    try:
        book.add(series.peak_rps)
    except InfeasibleError as error:
        window = series.rates_rps.index(series.peak_rps)
        at_s = series.begins_s + series.windows[window].start_s
        raise InfeasibleError(
            f"scenario {book.scenario.name}: rates {series.name}: window {window} (day {series.days[window]}, "
            f"{int(at_s % 86_400 // 3600):02d}:{int(at_s % 3600 // 60):02d}) needs {series.peak_rps:,.6g} requests/s, "
            f"which no fleet of the inventory promises; the most is {book.most_rps():,.6g}. {error.message}",
            hint="Offer more GPUs, loosen the service levels, or lower the rates.",
        ) from None


def first_rates(series: RateSeries) -> list[float]:
    """Quantiles of the rates above 0, lowest first: what a plan for one of them carries needs none of its own."""
    rates = np.unique([rate for rate in series.rates_rps if rate > 0])
    places = np.unique(np.linspace(0, len(rates) - 1, QUANTILES).round().astype(int))
    return [float(rates[place]) for place in places]


def stretch_rates(levels: LevelSet, series: RateSeries, most_changes: int) -> list[float]:
    """Highest rates of the stretches that the best schedule over imagined plans has, highest first."""
    points = sorted({(step.rate_rps, step.usd_per_hour) for step in levels.least})
    rates = np.array(series.rates_rps)
    imagined = np.unique([*np.quantile(rates[rates > 0], np.linspace(0, 1, IMAGINED)), *(rate for rate, _ in points)])
    imagined = imagined[imagined <= series.peak_rps]
    usd = np.interp(imagined, *np.array(points).T)
    change = np.abs(usd[:, None] - usd[None, :]) * _hours_per_change(levels)
    plans = best_switching(
        rates.tolist(),
        imagined.tolist(),
        series.window_s / SECONDS_PER_HOUR * usd,
        change,
        days=series.days,
        most_changes=most_changes,
    )
    edges = [0, *plans.changes, len(rates)]
    return sorted({float(rates[first:after].max()) for first, after in pairwise(edges)} - {0.0}, reverse=True)


def _hours_per_change(levels: LevelSet) -> float:
    """Hours of the difference in rent that changes between neighbouring plans cost, the median."""
    pairs = list(pairwise(range(len(levels.levels))))
    hours = [
        (levels.change_usd[j][k] + levels.change_usd[k][j])
        / 2
        / max(1e-9, abs(levels.levels[k].usd_per_hour - levels.levels[j].usd_per_hour))
        for j, k in pairs
    ]
    return float(np.median(hours)) if hours else 0.0


def best_schedule(
    scenario: Scenario,
    series: RateSeries,
    tariff: Tariff,
    change: ChangeSettings,
    most_changes: int,
    *,
    planner: Planner,
    replanner: Replanner | None = None,
) -> Schedule:
    """Plans for the windows of a series, as cheap as can be with so few changes a day, and the bounds of it.

    `planner` makes a plan of a scenario, as `pipeline.plan`. Raises InputError where GPUs have no price, plans no
    promise or `most_changes` is negative; InfeasibleError where no fleet promises the highest rate.
    """
    require_changes(most_changes)
    book = LevelBook(scenario, change, planner, replanner, tariff)
    levels = chosen_levels(book, series, tariff, most_changes)
    return schedule_of(levels, scenario, series, tariff, most_changes)


def schedule_of(
    levels: LevelSet,
    scenario: Scenario,
    series: RateSeries,
    tariff: Tariff,
    most_changes: int,
    *,
    standing: int | None = None,
    changes_so_far: int = 0,
) -> Schedule:
    """The best schedule of plans that are there already.

    `standing`: number of the plan that stands before the first window (None: nothing does), and `changes_so_far` on
    that window's day. Raises InfeasibleError where the plans do not carry a window's rate.
    """
    require_changes(most_changes)
    switching, reserved = best_plans(
        levels, scenario, series, tariff, most_changes, standing=standing, changes_so_far=changes_so_far
    )
    costs = window_usd(scenario, series, levels.levels, tariff, reserved)
    before = [switching.plans[0] if standing is None else standing, *switching.plans]
    windows = tuple(
        ScheduledWindow(level=k, usd=float(costs[t, k]), change_usd=levels.change_usd[before[t]][k])
        for t, k in enumerate(switching.plans)
    )
    static, _ = best_plans(levels, scenario, series, tariff, 0)
    return Schedule(
        series=series,
        tariff=tariff,
        levels=levels.levels,
        windows=windows,
        most_changes=most_changes,
        usd=switching.usd,
        static_usd=static.usd,
        bound_usd=min(switching.usd, least_of_schedules(scenario, series, levels.least, tariff, most_changes)),
        unlimited_bound_usd=min(switching.usd, least_of_schedules(scenario, series, levels.least, tariff, None)),
        reserved=tuple(sorted(reserved.items())),
    )


def require_changes(most_changes: int) -> None:
    """Raises InputError where a schedule may have fewer than no changes."""
    if most_changes < 0:
        raise InputError(
            f"schedule: most changes a day: must be 0 or more, got {most_changes}.", hint="0 is a plan that stands."
        )
