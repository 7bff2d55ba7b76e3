"""Windows of a schedule replayed: the promise holds, an overload does not, and each rung is a replay like any other."""

from dataclasses import replace

import pytest
from small_schedules import hourly, small_fleet, small_schedule

from planner import pipeline
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, ReplaySettings
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import RateWindow, Schedule, ScheduledWindow
from planner.errors import InputError
from planner.replanning.changes import changes_between
from planner.replanning.days.replaying import WindowReplay, replay_schedule
from planner.replanning.days.transitions import gpus_of_both, with_transitions

QUICK = WindowReplay(requests=1500, seconds=0)


@pytest.fixture(scope="module")
def replayed() -> Schedule:
    return replay_schedule(small_schedule(), small_fleet().workload, QUICK)


def with_rates(schedule: Schedule, rates: list[tuple[float, float | None]], level: int) -> Schedule:
    """So many windows of one plan at these rates and burstiness."""
    windows = tuple(
        RateWindow(start_s=3600.0 * k, rate_rps=rate, burstiness=variation) for k, (rate, variation) in enumerate(rates)
    )
    return replace(
        schedule,
        series=replace(schedule.series, windows=windows),
        windows=tuple(ScheduledWindow(level=level, usd=1.0) for _ in rates),
    )


def test_a_day_of_production_holds_the_levels_in_99_of_100_windows(replayed) -> None:
    """The small form of what is measured for weeks of four pools."""
    assert replayed.holding_share is not None
    assert replayed.holding_share >= 0.99
    assert replayed.carried_share == 1.0
    assert sum(rung.windows for rung in replayed.replayed) == 24
    assert all(rung.share <= 1.0 and rung.within_levels >= 0.99 for rung in replayed.replayed)


def test_a_rung_is_the_replay_of_its_plan_at_the_next_hundredth_of_the_promise(replayed) -> None:
    """And none of its windows has a higher rate."""
    rung = max(replayed.replayed, key=lambda rung: rung.share)
    level = replayed.levels[rung.level]
    alone = pipeline.replay(
        level.plan,
        small_fleet().workload,
        ReplaySettings(
            arrivals=ArrivalSettings(process=ArrivalProcess.POISSON),
            seeds=QUICK.seeds,
            requests=QUICK.requests,
            warm_up=QUICK.warm_up,
        ),
        rung.rate_rps,
    )
    assert (alone.holds, alone.total.within_levels.mean) == (rung.holds, rung.within_levels)
    shares = [
        rate / level.promise_rps
        for rate, window in zip(hourly().rates_rps, replayed.windows, strict=True)
        if window.level == rung.level
    ]
    assert rung.share - 0.01 < max(shares) <= rung.share


def test_an_overload_breaks_the_levels_and_a_window_without_requests_holds() -> None:
    schedule = small_schedule()
    promise = schedule.levels[0].promise_rps
    rates = [(0.0, None), (0.5 * promise, None), (1.45 * promise, None), (3 * promise, None)]
    answer = replay_schedule(with_rates(schedule, rates, 0), small_fleet().workload, QUICK)
    assert [window.holds for window in answer.windows] == [True, True, False, False]
    assert [rung.share for rung in answer.replayed] == [0.5, 1.45, 3.0]


def test_bursts_of_the_file_break_what_poisson_arrivals_do_not() -> None:
    schedule = small_schedule()
    promise = schedule.levels[0].promise_rps
    bursts = with_rates(schedule, [(promise, None), (promise, 12.0), (promise, 12.1)], 0)
    calm = replay_schedule(bursts, small_fleet().workload, QUICK)
    wild = replay_schedule(bursts, small_fleet().workload, replace(QUICK, bursty=True))
    assert [window.holds for window in calm.windows] == [True] * 3
    assert [window.holds for window in wild.windows] == [True, False, False]
    assert [(rung.windows, rung.burstiness >= 12.1) for rung in wild.replayed] == [(1, False), (2, True)]


def test_where_the_inventory_has_no_room_for_both_plans_the_windows_before_are_thin() -> None:
    """Counted by hand: the old plan's GPUs and those of servers that load, of 16 that there are."""
    schedule = small_schedule()
    change = ChangeSettings()
    thin = set(with_transitions(schedule, small_fleet(), change).thin_windows)
    for number in schedule.changes:
        before, after = (schedule.levels[schedule.windows[k].level] for k in (number - 1, number))
        both = gpus_of_both(before, changes_between(before.plan, after.plan, change))
        assert max(sum(count for _, count in level.gpus) for level in (before, after)) <= both["H20"]
        assert both["H20"] <= sum(count for level in (before, after) for _, count in level.gpus)
        assert (number - 1 in thin) == (both["H20"] > 16)
    fewer = replace(schedule, thin_windows=(3,))
    assert [number for number, carried in enumerate(fewer.carried) if not carried] == [3]
    answer = replay_schedule(fewer, small_fleet().workload, QUICK)
    assert [number for number, window in enumerate(answer.windows) if not window.holds] == [3]


def test_a_replay_without_requests_or_seeds_is_refused() -> None:
    with pytest.raises(InputError, match="1 to 10,000,000 requests and at least one seed, got 0 and 1"):
        WindowReplay(requests=0)
