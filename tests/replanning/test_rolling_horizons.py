"""Schedules on forecasts: what is seen late is missed, and what is forecast well costs what foresight costs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_schedules import hourly, small_fleet, small_schedule

from planner.domain.changes import ChangeSettings
from planner.domain.schedules import (
    ForecastKind,
    ForecastSettings,
    RateSeries,
    RateWindow,
    ScheduleLevel,
    Tariff,
    TariffKind,
)
from planner.errors import InputError
from planner.replanning.days.rolling_horizons import Horizon, Rolled, rolling_schedule
from planner.replanning.schedules.levels import LevelSet
from planner.replanning.schedules.scheduling import schedule_of

HOUR_S = 3600.0


def levels(*promises: float, change_usd: float = 0.1) -> LevelSet:
    """Plans that promise so much and cost as much an hour."""
    plan = small_schedule().levels[0].plan
    return LevelSet(
        levels=tuple(
            ScheduleLevel(
                plan=plan,
                promise_rps=promise,
                usd_per_hour=promise,
                bound_usd_per_hour=promise,
                watts=0.0,
                gpus=(("H20", round(promise)),),
            )
            for promise in promises
        ),
        change_usd=tuple(tuple(0.0 if j == k else change_usd for k in promises) for j in promises),
        least=(),
    )


def series_of(rates: list[float]) -> RateSeries:
    windows = tuple(RateWindow(start_s=k * HOUR_S, rate_rps=rate) for k, rate in enumerate(rates))
    return RateSeries(name="made", window_s=HOUR_S, windows=windows)


def rolled(rates: list[float], *promises: float, load_s: float = 600.0, every: int = 24, **changes: object) -> Rolled:
    """The second day on, planned on the day before with no headroom unless it is said."""
    chosen = ForecastSettings(**{"kind": ForecastKind.LAST_DAY, "headroom": 0.0, **changes})
    horizon = Horizon(
        levels=levels(*promises),
        scenario=small_fleet(),
        tariff=Tariff(),
        most_changes=4,
        every=every,
        load_s=lambda _before, _after: load_s,
    )
    return horizon.run(series_of(rates), chosen, 24)


def test_a_day_like_the_last_is_planned_as_if_it_were_known() -> None:
    day = [2.0] * 8 + [8.0] * 8 + [2.0] * 8
    answer = rolled(day + day, 3, 9)
    assert answer.plans == (0,) * 8 + (1,) * 8 + (0,) * 8
    assert answer.emergencies == ()


def test_a_surprise_is_missed_until_new_servers_have_loaded() -> None:
    """Seen when its hour ends (5), started then, ready from hour 7 on; it stands until the next plan."""
    answer = rolled([2.0] * 24 + [2.0] * 5 + [8.0] * 19, 3, 9)
    assert answer.plans == (0,) * 7 + (1,) * 17
    assert answer.emergencies == (7,)


def test_a_load_time_of_an_hour_takes_another_window() -> None:
    answer = rolled([2.0] * 24 + [2.0] * 5 + [8.0] * 19, 3, 9, load_s=3601.0)
    assert answer.plans == (0,) * 8 + (1,) * 16


def test_hourly_planning_gives_back_what_an_emergency_took() -> None:
    """A spike of one hour: the plan that came too late for it goes with the next look at the forecast."""
    rates = [2.0] * 24 + [2.0] * 5 + [8.0] + [2.0] * 18
    assert rolled(rates, 3, 9).plans.count(1) == 17
    assert rolled(rates, 3, 9, every=1).plans.count(1) < 3


def test_changes_of_emergencies_use_up_the_limit() -> None:
    """The forecast asks for four changes; one that was not forecast leaves three."""
    yesterday = ([2.0] * 4 + [8.0] * 4) * 3
    today = [8.0, *yesterday[1:]]
    answer = rolled(yesterday + today, 3, 9, every=1)
    changes = sum(a != b for a, b in zip(answer.plans, answer.plans[1:], strict=False))
    assert changes <= 4


def test_rates_above_all_plans_are_left_to_the_largest() -> None:
    assert rolled([2.0] * 24 + [50.0] * 24, 3, 9).plans[-1] == 1
    assert rolled([50.0] * 24 + [50.0] * 24, 3, 9).plans == (1,) * 24


@given(
    yesterday=st.lists(st.floats(0, 12), min_size=24, max_size=24),
    today=st.lists(st.floats(0, 12), min_size=24, max_size=24),
    after=st.integers(1, 23),
    every=st.sampled_from([1, 6, 24]),
)
def test_the_future_decides_nothing(yesterday, today, after, every) -> None:
    """Plans up to a window are the same whatever comes from it on."""
    other = today[:after] + [12.0 - rate for rate in today[after:]]
    plans = [rolled(yesterday + day, 3, 6, 9, 12, every=every).plans for day in (today, other)]
    assert plans[0][: after + 1] == plans[1][: after + 1]


def test_real_plans_on_a_repeated_day_cost_what_foresight_costs() -> None:
    """With no headroom, and as many windows carried."""
    day = hourly()
    twice = replace(day, windows=tuple(series_of([*day.rates_rps, *day.rates_rps]).windows))
    plans = {level.plan.scenario.objective: level.plan for level in small_schedule().levels}

    def planner(scenario):
        from planner import pipeline

        if scenario.objective not in plans:
            plans[scenario.objective] = pipeline.plan(scenario)
        return plans[scenario.objective]

    chosen = ForecastSettings(kind=ForecastKind.EWMA, headroom=0.0)
    schedule = rolling_schedule(small_fleet(), twice, Tariff(), ChangeSettings(), 4, chosen, planner=planner)
    assert schedule.usd == pytest.approx(schedule.foresight_usd)
    assert schedule.usd == pytest.approx(small_schedule().usd)
    assert (schedule.carried_share, schedule.forecast, schedule.emergencies) == (1.0, "ewma", ())


def test_known_rates_cost_no_more_than_any_forecast() -> None:
    """Where all is carried, foresight is a bound."""
    chosen = levels(3, 6, 9, 12)
    rates = [2.0, 8.0, 5.0, 11.0] * 12
    part = series_of(rates).part(24, 48)
    foresight = schedule_of(chosen, small_fleet(), part, Tariff(), 4)
    answer = rolled(rates, 3, 6, 9, 12, headroom=0.3)
    usd = sum(chosen.levels[plan].usd_per_hour for plan in answer.plans)
    assert all(chosen.levels[p].promise_rps >= rate for p, rate in zip(answer.plans, part.rates_rps, strict=True))
    assert usd >= foresight.usd - sum(window.change_usd for window in foresight.windows)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tariff": Tariff(kind=TariffKind.RESERVED)}, "tariff reserved.*forecast"),
        ({"most_changes": -1}, "most changes a day: must be 0 or more, got -1"),
        ({"first": 3}, "begins at window 24 of the rates at the earliest, got 3"),
    ],
)
def test_what_no_forecast_covers_is_refused(changes, words) -> None:
    settings = {"tariff": Tariff(), "most_changes": 4, "first": None, **changes}
    chosen = ForecastSettings(kind=ForecastKind.LAST_DAY)
    with pytest.raises(InputError, match=words):
        rolling_schedule(
            small_fleet(),
            series_of([1.0] * 48),
            settings["tariff"],
            ChangeSettings(),
            settings["most_changes"],
            chosen,
            planner=lambda _: pytest.fail("nothing is planned"),
            first=settings["first"],
        )
