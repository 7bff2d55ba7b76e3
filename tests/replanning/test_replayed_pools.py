"""A week (a day of deepseek-r1) of each production pool: its schedule against a plan that stands, and its bound; and,
as a study, replayed window by window.

The rates are the shipped curves of the pools, the fleets the shipped scenarios. Measured in full they are in the guide
on schedules; the small form has hours of a day, and a 16th of the load.
"""

import pytest

from planner import pipeline
from planner.domain import Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import RateSeries, RateWindow, Schedule, Tariff
from planner.files import load_rates, load_scenario, shipped_scenarios
from planner.replanning.days.replaying import WindowReplay, replay_schedule
from planner.replanning.days.transitions import with_transitions
from planner.replanning.schedules.scheduling import best_schedule
from planner.workload import summarize

WEEK = 7 * 144
POOLS = ("deepseek-r1", "m-large", "m-mid", "m-small")


def fleet(pool: str) -> Scenario:
    return load_scenario(shipped_scenarios()[f"pool-{pool}"], summarize)


def scheduled(pool: str, series: RateSeries) -> Schedule:
    scenario = fleet(pool)
    schedule = best_schedule(scenario, series, Tariff(), ChangeSettings(), 4, planner=pipeline.plan)
    return with_transitions(schedule, scenario, ChangeSettings())


def halves(pool: str, share: float) -> RateSeries:
    """The highest rate of every half of the pool's first day, times a share."""
    day = load_rates(f"servegen-{pool}").rates_rps[:144]
    highest = [share * max(day[first : first + 72]) for first in range(0, 144, 72)]
    windows = tuple(RateWindow(start_s=43_200.0 * k, rate_rps=rate) for k, rate in enumerate(highest))
    return RateSeries(name=pool, window_s=43_200.0, windows=windows)


def test_a_day_in_halves_beats_the_plan_that_stands_and_is_near_its_bound() -> None:
    """The small form: goodput per dollar, the rates being the same, is the inverse of the cost."""
    schedule = scheduled("m-small", halves("m-small", 1 / 16))
    assert (schedule.carried_share, schedule.thin_windows) == (1.0, ())
    assert schedule.static_usd / schedule.usd >= 1.1
    assert schedule.gap is not None
    assert schedule.gap <= 0.1


@pytest.mark.study
@pytest.mark.parametrize("pool", POOLS)
def test_schedules_of_production_hold_the_levels_in_99_of_100_windows(pool) -> None:
    """Most rungs of the largest pool are tens of thousands of requests: minutes to a quarter of an hour a pool."""
    series = load_rates(f"servegen-{pool}")
    schedule = scheduled(pool, series.part(0, min(WEEK, len(series.windows))))
    assert schedule.static_usd > schedule.usd
    assert schedule.gap is not None
    assert schedule.gap <= 0.1
    replayed = replay_schedule(schedule, schedule.levels[0].plan.scenario.workload, WindowReplay())
    assert replayed.carried_share >= 0.99
    assert replayed.holding_share is not None
    assert replayed.holding_share >= 0.99
