"""A schedule beside fleets that follow the load: what each costs, and the share of requests within the levels.

The autoscaler's figures follow from the rates, so that a rise within a cold start is carried:

| symbol | meaning | unit |
|---|---|---|
| d(t), h | rate of the window at t; its hour of the day | requests/s |
| f_h | floor of the hour: median over the days of the hour's highest rate | requests/s |
| s | cold start, and what passes until a rise is seen | s |
| v(t) | max over u in (t, t + s] of d(u) - max(d(t), f_h(u)), at least 0: what nothing foresaw | requests/s |
| r | warm spares: the quantile of v(t) at the levels' percentile | requests/s |

The fleets are of the plan for the highest rates, whose pools change their copies alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from planner.domain import Plan
from planner.domain.changes import ChangeSettings
from planner.domain.scaling import SEEN_S, scaling_rules
from planner.domain.schedules import DAY_S, LoopResult, RateSeries, Schedule, Tariff, TariffKind
from planner.domain.serving.deploy import HOURS
from planner.errors import InputError
from planner.replanning.days.scaling_loops import Fleet, cold_starts_s, derived_loop, run_loop, usual_loop
from planner.units import SECONDS_PER_HOUR


def usual_hours(series: RateSeries) -> tuple[float, ...]:
    """f of every hour; 0 where the rates do not have it."""
    highest: list[dict[int, float]] = [{} for _ in range(HOURS)]
    for window, day in zip(series.windows, series.days, strict=True):
        of_days = highest[_hour(series, window.start_s)]
        of_days[day] = max(of_days.get(day, 0.0), window.rate_rps)
    return tuple(median(of_days.values()) if of_days else 0.0 for of_days in highest)


def _hour(series: RateSeries, start_s: float) -> int:
    return int((series.begins_s + start_s) % DAY_S // SECONDS_PER_HOUR)


def spare_rps(series: RateSeries, hours: Sequence[float], start_s: float, share: float) -> float:
    """r: what carries the rises of a `share` of the windows, with copies that take `start_s` to start."""
    rates = series.rates_rps
    floors = [hours[_hour(series, window.start_s)] if hours else 0.0 for window in series.windows]
    ahead = math.ceil((start_s + SEEN_S) / series.window_s)
    rises = sorted(
        max((rates[u] - max(rates[t], floors[u]) for u in range(t + 1, min(len(rates), t + ahead + 1))), default=0.0)
        for t in range(len(rates))
    )
    return max(0.0, rises[min(len(rises) - 1, math.ceil(share * len(rises)) - 1)])


def level_share(plan: Plan) -> float:
    """Of requests that are to keep the levels; of windows whose rise is to be carried. Half of them for a mean."""
    late_share = plan.scenario.slo.late_share
    return 0.5 if late_share is None else 1 - late_share


def require_hourly(tariff: Tariff, series: RateSeries) -> None:
    """Raises InputError where GPUs are not paid by the hour, as copies are that come and go."""
    if tariff.kind is not TariffKind.HOURLY:
        raise InputError(
            f"schedule of {series.name}: autoscaled copies are paid by the hour, got tariff {tariff.kind.value}.",
            hint="Take --tariff hourly, or leave --autoscaled out.",
        )


def autoscaled(schedule: Schedule, settings: ChangeSettings) -> Schedule:
    """The schedule with what following the load comes to. InputError where GPUs are not paid by the hour."""
    require_hourly(schedule.tariff, schedule.series)
    return replace(schedule, autoscaled=tuple(_results(schedule, settings)))


def _results(schedule: Schedule, settings: ChangeSettings) -> Iterator[LoopResult]:
    plan, series = schedule.levels[-1].plan, schedule.series
    fleet, starts_s = Fleet(plan), cold_starts_s(plan, settings)
    hours = usual_hours(series)
    for name, floors in (("copies by load and hour", hours), ("copies by load alone", ())):
        spare = spare_rps(series, floors, max(starts_s), level_share(plan))
        loop = derived_loop(scaling_rules(plan, hours=floors, spare_rps=spare), fleet, starts_s)
        yield run_loop(plan, series, loop, settings, name)
    yield run_loop(plan, series, usual_loop(fleet), settings, "HPA by queue, usual settings")
