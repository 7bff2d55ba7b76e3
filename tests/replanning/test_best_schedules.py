"""Schedules of fleets made by hand, whose every figure is counted by hand; and what cannot be scheduled.

One H20 server is one GPU at 1 USD/hour that promises 10 requests/s, one H200 server one GPU at 4 USD/hour that promises
30; there are four and two of them. New servers take half an hour to load, old ones stop at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from small_schedules import small_fleet

from planner import pipeline
from planner.domain import Inventory, ParallelConfig, Plan, Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import (
    ForecastKind,
    ForecastSettings,
    RateSeries,
    RateWindow,
    Schedule,
    Tariff,
    TariffKind,
)
from planner.errors import InfeasibleError, InputError
from planner.files import load_gpu_specs
from planner.replanning.days.rolling_horizons import rolling_schedule
from planner.replanning.schedules.scheduling import best_schedule
from planner.runs.replanning.scheduling import ScheduleRequest, make_schedule

SERVERS = (("H20", 4, 1.0, 10.0), ("H200", 2, 4.0, 30.0))
"""GPU, how many there are, USD/hour, requests/s."""

CHANGE = ChangeSettings(storage_gb_s=1e4, start_s=1800.0, drain_s=0.0)
NEARLY = 1e-4  # relative: weights take some milliseconds
RESERVED = Tariff(kind=TariffKind.RESERVED, reserved_discount=0.5)


@cache
def two_types() -> Scenario:
    specs, item = load_gpu_specs(), small_fleet().inventory.items[0]
    items = (replace(item, gpu=specs[gpu], count=n, price_usd_per_gpu_hour=usd) for gpu, n, usd, _ in SERVERS)
    return replace(small_fleet(), inventory=Inventory(items=tuple(items)))


@cache
def pattern() -> Plan:
    """A plan whose pools are written over, of servers of one GPU."""
    plan = pipeline.plan(small_fleet())
    first = plan.buckets.pools[0]
    server = replace(first.server, parallel=ParallelConfig(tp=1, dp=1))
    return replace(plan, buckets=replace(plan.buckets, pools=(replace(first, server=server),)))


def fleet_plan(scenario: Scenario, counts: Sequence[int], tokens_per_step: int = 1024) -> Plan:
    """So many servers of each type as a plan."""
    first = pattern().buckets.pools[0]
    server = replace(first.server, tokens_per_step=tokens_per_step)
    pools = tuple(
        replace(first, gpu=gpu, server=server, count=count)
        for (gpu, *_), count in zip(SERVERS, counts, strict=True)
        if count
    )
    promise = sum(count * rps for (*_, rps), count in zip(SERVERS, counts, strict=True))
    rent = sum(count * usd for (_, _, usd, _), count in zip(SERVERS, counts, strict=True))
    return replace(
        pattern(),
        scenario=scenario,
        throughput_rps=promise / scenario.routing.margin,
        buckets=replace(pattern().buckets, promise_rps=promise, pools=pools),
        certificate=replace(pattern().certificate, objective_bound=rent),
    )


def cheapest_fleet(scenario: Scenario) -> Plan:
    """The cheapest of all fleets that promise the target; the largest where there is none."""
    wanted = scenario.objective.target_rps * scenario.routing.margin or 100.0
    offered = {item.gpu.name: item.count for item in scenario.inventory.items}
    fleets = [
        (sum(n * usd for n, (_, _, usd, _) in zip(counts, SERVERS, strict=True)), counts)
        for counts in product(*(range(most + 1) for _, most, *_ in SERVERS))
        if sum(n * rps for n, (*_, rps) in zip(counts, SERVERS, strict=True)) >= wanted * (1 - 1e-9)
        if all(n <= offered.get(gpu, 0) for n, (gpu, *_) in zip(counts, SERVERS, strict=True))
    ]
    if not fleets:
        raise InfeasibleError("too much.", hint="")
    return fleet_plan(scenario, min(fleets)[1])


def hourly(*rates: float) -> RateSeries:
    windows = tuple(RateWindow(start_s=3600.0 * hour, rate_rps=rate) for hour, rate in enumerate(rates))
    return RateSeries(name="by-hand", window_s=3600.0, windows=windows)


def scheduled(
    series: RateSeries, most_changes: int, tariff: Tariff | None = None, replanner: Callable | None = None
) -> Schedule:
    return best_schedule(
        two_types(), series, tariff or Tariff(), CHANGE, most_changes, planner=cheapest_fleet, replanner=replanner
    )


def rents(schedule: Schedule) -> list[float]:
    return [schedule.levels[window.level].usd_per_hour for window in schedule.windows]


def test_two_changes_follow_the_peak() -> None:
    """16 hours of GPUs for the rates' stretches, and one USD for two servers that load for half an hour: 17. Four GPUs
    all the time are 24."""
    schedule = scheduled(hourly(10, 20, 35, 40, 15, 5), 2)
    assert rents(schedule) == [2, 2, 4, 4, 2, 2]
    assert schedule.usd == pytest.approx(17, rel=NEARLY)
    assert [window.change_usd for window in schedule.windows] == pytest.approx([0, 0, 1, 0, 0, 0], abs=NEARLY)
    assert (schedule.static_usd, schedule.bound_usd, schedule.changes) == (24, pytest.approx(16), (2, 4))
    assert schedule.unlimited_bound_usd == pytest.approx(1 + 2 + 4 + 4 + 2 + 1)


def test_without_changes_it_is_the_plan_that_stands_all_the_time() -> None:
    schedule = scheduled(hourly(10, 20, 35, 40, 15, 5), 0)
    assert (rents(schedule), schedule.changes) == ([4] * 6, ())
    assert schedule.usd == schedule.static_usd == pytest.approx(schedule.bound_usd) == 24


def test_a_change_that_costs_more_than_it_saves_is_left_out() -> None:
    """One GPU less for an hour saves 1 USD, and 1.5 USD for three servers more for an hour is what they cost anyway."""
    slow = replace(CHANGE, start_s=3600.0 * 1.5)
    rates = hourly(20, 10, 20)
    schedule = best_schedule(two_types(), rates, Tariff(), slow, 4, planner=cheapest_fleet)
    assert (rents(schedule), schedule.usd) == ([2, 2, 2], 6)
    assert rents(scheduled(rates, 4)) == [2, 1, 2]


def test_of_two_types_the_gpus_that_always_stand_are_reserved() -> None:
    """20, 30, 60, 30: three H20 all the time at half price are 6 USD, the H200 of one hour 4, its loading 2. Bound: 3
    USD/hour reserved, and 4 beyond them in one hour."""
    schedule = scheduled(hourly(20, 30, 60, 30), 2, RESERVED)
    assert rents(schedule) == [3, 3, 7, 3]
    assert schedule.reserved == (("H20", 3),)
    assert schedule.usd == pytest.approx(6 + 4 + 2, rel=NEARLY)
    assert schedule.bound_usd == pytest.approx(10)
    assert schedule.static_usd == pytest.approx(7 * 4 / 2)  # all seven USD/hour reserved


def test_a_reservation_pays_from_its_share_of_the_windows_on() -> None:
    """At half price one that is needed in two windows of four may as well stand all the time, without a change; one of
    a single window is rented for it, and loads for half an hour."""
    often, seldom = (scheduled(hourly(*rates), 1, RESERVED) for rates in ((10, 10, 20, 20), (10, 10, 10, 20)))
    assert (often.reserved, rents(often)) == ((("H20", 2),), [2, 2, 2, 2])
    assert often.usd == pytest.approx(2 + 2)
    assert seldom.reserved == (("H20", 1),)
    assert seldom.usd == pytest.approx(2 + 1 + 0.5, rel=NEARLY)
    assert (often.bound_usd, seldom.bound_usd) == (pytest.approx(4), pytest.approx(3))


def test_owned_gpus_cost_their_power_and_earn_what_spot_pays() -> None:
    """Two H20 of four serve 10 of 20 / 0.9 requests/s, the others are spot's at 0.3 of their price and their full draw;
    the H200 bring 0.3 x 4 USD. A GPU that loads for half an hour is not spot's, at its full draw."""
    tariff = Tariff(kind=TariffKind.OWNED, usd_per_kwh=0.1, idle_share=0.25, spot_share=0.3)
    schedule = scheduled(hourly(20, 10, 20), 0, tariff)
    watts = [item.gpu.max_w for item in two_types().inventory.items]
    power = [0.1 * watt / 1000 for watt in watts]
    spare = 2 * (0.3 * 1 - power[0]) + 2 * (0.3 * 4 - power[1])
    margin = two_types().routing.margin
    due = sum(2 * power[0] * (0.25 + 0.75 * share * margin) - spare for share in (1.0, 0.5, 1.0))
    assert schedule.usd == pytest.approx(due) == pytest.approx(schedule.static_usd)
    assert schedule.bound_usd <= schedule.usd
    changing = scheduled(hourly(20, 10, 20), 2, tariff)
    assert rents(changing) == [2, 1, 2]
    saved = power[0] * 0.25 + 0.3 - power[0]  # in the hour in which one GPU does all
    assert changing.usd == pytest.approx(due - saved + 0.5 * 0.3, rel=NEARLY)


def other_engines(scenario: Scenario) -> Plan:
    """The cheapest fleet, whose engines are started with other flags from three GPUs on."""
    plan = cheapest_fleet(scenario)
    assert plan.buckets is not None
    counts = [sum(pool.count for pool in plan.buckets.pools if pool.gpu == gpu) for gpu, *_ in SERVERS]
    return fleet_plan(scenario, counts, 2048 if sum(counts) > 2 else 1024)


def test_plans_near_each_other_touch_fewer_gpus() -> None:
    """From two servers to four with other flags and back all six load: 3 USD. With the flags of those that run it is
    two that load, for 1 USD."""
    series = hourly(20, 20, 40, 40, 20, 20)

    def near(standing: Plan, scenario: Scenario) -> Plan:
        needed = math.ceil(scenario.objective.target_rps * scenario.routing.margin / 10 - 1e-9)
        return fleet_plan(scenario, (needed, 0), standing.buckets.pools[0].server.tokens_per_step)

    anew = best_schedule(two_types(), series, Tariff(), CHANGE, 2, planner=other_engines)
    nested = best_schedule(two_types(), series, Tariff(), CHANGE, 2, planner=other_engines, replanner=near)
    assert anew.usd == pytest.approx(16 + 3, rel=NEARLY)
    assert nested.usd == pytest.approx(16 + 1, rel=NEARLY)
    assert rents(nested) == rents(anew) == [2, 2, 4, 4, 2, 2]
    assert (nested.bound_usd, nested.static_usd) == (anew.bound_usd, anew.static_usd)


@pytest.mark.parametrize("servers", [(0, 2), None])
def test_plans_near_others_that_are_dearer_or_missing_change_nothing(servers: tuple[int, int] | None) -> None:
    def dear(_: Plan, scenario: Scenario) -> Plan:
        if servers is None:
            raise InfeasibleError("nothing is near.", hint="")
        return fleet_plan(scenario, servers)

    series = hourly(20, 20, 40, 40, 20, 20)
    assert scheduled(series, 2, replanner=dear) == scheduled(series, 2)


def test_a_rate_without_a_fleet_is_named_with_its_window() -> None:
    with pytest.raises(InfeasibleError, match=r"window 1 \(day 0, 01:00\) needs 101 .*; the most is 100\. too much"):
        scheduled(hourly(20, 101, 20), 4)


@pytest.mark.parametrize(
    ("starts", "rates", "words"),
    [
        ((), (), "must have windows of more than 0 seconds, got 0 of 3600 s"),
        ((0, 3600), (5, -1), "window 1: the rate must be a number of at least 0, got -1"),
        ((0, 3600), (5, math.nan), "window 1: the rate must be a number of at least 0, got nan"),
        ((0, 3600), (math.inf, 5), "window 0: the rate must be a number of at least 0, got inf"),
        ((0, 7200), (5, 5), "window 1 must begin at 3600 s, where the one before it ends, got 7200 s"),
        ((0, 0), (5, 5), "window 1 must begin at 3600 s, where the one before it ends, got 0 s"),
    ],
)
def test_series_that_are_none_are_refused(starts, rates, words) -> None:
    windows = tuple(RateWindow(start_s=start, rate_rps=rate) for start, rate in zip(starts, rates, strict=True))
    with pytest.raises(InputError, match=words):
        RateSeries(name="odd", window_s=3600.0, windows=windows)


def test_a_series_without_requests_and_limits_below_zero_are_refused() -> None:
    with pytest.raises(InputError, match="must have requests in some window, got only rates of 0"):
        scheduled(hourly(0, 0), 2)
    with pytest.raises(InputError, match="must be 0 or more, got -1"):
        scheduled(hourly(5, 5), -1)


def test_windows_without_requests_need_no_plan_of_their_own() -> None:
    assert rents(scheduled(hourly(0, 40, 0), 2)) == [4, 4, 4]
    assert scheduled(hourly(0, 40, 0), 2).unlimited_bound_usd == pytest.approx(4)


def test_gpus_without_a_price_have_no_schedule() -> None:
    first, second = two_types().inventory.items
    free = replace(two_types(), inventory=Inventory(items=(first, replace(second, price_usd_per_gpu_hour=0.0))))
    with pytest.raises(InputError, match="H200 costs nothing"):
        best_schedule(free, hourly(5), Tariff(), CHANGE, 2, planner=cheapest_fleet)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tariff": Tariff(reserved_discount=1.5)}, "reserved_discount must be"),
        ({"tariff": Tariff(usd_per_kwh=math.nan)}, "usd_per_kwh must be"),
        ({"change": ChangeSettings(storage_gb_s=0.0)}, "storage_gb_s must be"),
        ({"forecast": ForecastSettings(headroom=-1.0)}, "headroom must be"),
        ({"most_changes": 1001}, "must be at most 1000, got 1001"),
    ],
)
def test_settings_made_in_python_keep_to_the_bounds_of_files(settings, words) -> None:
    with pytest.raises(InputError, match=words):
        make_schedule(ScheduleRequest(scenario=two_types(), series=hourly(5), **settings))


def test_a_day_without_requests_forecasts_none_and_emergencies_carry_the_next() -> None:
    """The first hour of the second day is served by the smallest plan; what it lacks is seen when the hour ends, loaded
    in the next, and there from the third on."""
    series = hourly(*[0.0] * 24, *[20.0, 40.0, 40.0, 40.0], *[20.0] * 20)
    settings = ForecastSettings(kind=ForecastKind.LAST_DAY, headroom=0.0)
    schedule = rolling_schedule(two_types(), series, Tariff(), CHANGE, 2, settings, planner=cheapest_fleet)
    assert rents(schedule)[:5] == [2, 2, 2, 4, 4]
    assert [number for number, carried in enumerate(schedule.carried) if not carried] == [1, 2]
    assert schedule.emergencies == (3,)
