"""Schedules: plans over a day or a week, few changes, and a bound."""

from planner.domain import Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import RateSeries, Schedule, ScheduledWindow, Tariff
from planner.errors import InputError
from planner.replanning.schedules.bounds import least_of_schedules
from planner.replanning.schedules.choosing import chosen_levels
from planner.replanning.schedules.levels import LevelBook, LevelSet, Planner, Replanner
from planner.replanning.schedules.reservations import best_plans
from planner.replanning.schedules.tariffs import window_usd


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
