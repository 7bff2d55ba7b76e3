"""Copies that follow a load: by hand where a rate steps up, by requests one by one, and by what controllers may do."""

import math
import random
from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_schedules import PEAK_RPS, hourly, small_fleet, small_schedule

from planner import pipeline
from planner.domain import Phase, Plan
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, ReplaySettings
from planner.domain.changes import ChangeSettings
from planner.domain.scaling import scaled_pools, scaling_rules, settle_s
from planner.domain.schedules import LoopResult, RateSeries, RateWindow, Schedule, Tariff, TariffKind
from planner.errors import InputError
from planner.replanning.days.autoscaled import autoscaled, spare_rps, usual_hours
from planner.replanning.days.scaling_loops import (
    SYNC_S,
    Fleet,
    cold_starts_s,
    copies_by,
    derived_loop,
    run_loop,
    usual_loop,
)

TIMES = ChangeSettings()


def plan() -> Plan:
    """For the peak of the day, with GPUs to spare."""
    standing = small_schedule().levels[-1].plan
    scenario = standing.scenario
    items = tuple(replace(item, count=item.count + 64) for item in scenario.inventory.items)
    return replace(standing, scenario=replace(scenario, inventory=replace(scenario.inventory, items=items)))


def series(*rates: float, window_s: float = 3600.0, begins_s: float = 0.0) -> RateSeries:
    windows = tuple(RateWindow(start_s=window_s * k, rate_rps=rate) for k, rate in enumerate(rates))
    return RateSeries(name="made up", window_s=window_s, windows=windows, begins_s=begins_s)


def followed(
    rates: RateSeries, spare: float = 0.0, hours: tuple[float, ...] = (), change: ChangeSettings = TIMES
) -> LoopResult:
    rules = scaling_rules(plan(), spare_rps=spare, hours=hours or (0.1,) * 24)
    rules = rules if hours else tuple(replace(rule, hours=()) for rule in rules)
    loop = derived_loop(rules, Fleet(plan()), cold_starts_s(plan(), change))
    return run_loop(plan(), rates, loop, change, "followed")


def test_a_steady_rate_costs_the_copies_that_it_needs_and_no_others_start() -> None:
    rate = 0.7 * PEAK_RPS
    needed = {pool.island: math.ceil(rate * pool.part / pool.given_rps) for pool in scaled_pools(plan())}
    usd = sum(needed[pool.island] * pool.usd_per_hour for pool in scaled_pools(plan()))
    result = followed(series(*[rate] * 6))
    assert result == LoopResult(name="followed", usd=pytest.approx(6 * usd), within=1.0, started=0)


@pytest.mark.parametrize("factor", [1.3, 1.6, 2.5])
def test_a_step_up_is_late_as_long_as_by_hand(factor: float) -> None:
    """From the step until copies serve F2 in place of F1, and until what waits by then is worked off:
    t1 + (d - F1) t1 / (F2 - d). The first pool alone is short: decode has room."""
    first, then = 0.9 * PEAK_RPS, 0.9 * PEAK_RPS * factor
    pools = {pool.phase: pool for pool in scaled_pools(plan())}
    prefill, decode = pools[Phase.PREFILL], pools[Phase.DECODE]
    before = math.ceil(first / prefill.given_rps)
    roomy = then <= math.ceil(first / decode.given_rps) * decode.capacity_rps
    result = followed(series(first, then))
    late_s = (1 - result.within) * (first + then) * 3600 / then
    start_s = max(cold_starts_s(plan(), TIMES)[:1] if roomy else cold_starts_s(plan(), TIMES))
    # the load that waits asks for more copies than the rate, the sooner seen the fewer
    after = math.ceil(then / prefill.given_rps)
    served = before * prefill.full_rps
    shortest = start_s + (then - served) * start_s / (2 * after * prefill.full_rps - then)
    seen_s = start_s + 90
    longest = seen_s + (then - served) * seen_s / (after * prefill.full_rps - then)
    assert shortest <= late_s <= longest
    assert result.started >= after - before


def one_by_one(rates: RateSeries, copies_rps: list[float], seed: int) -> float:
    """Share of single requests that find no queue: Poisson's, one server for each step's rate of all copies."""
    rng, free_s, waits, total, late = random.Random(seed), 0.0, deque[float](), 0, 0
    at_s, end_s = 0.0, rates.window_s * len(rates.windows)
    while True:
        at_s += rng.expovariate(rates.windows[min(len(rates.windows) - 1, int(at_s // rates.window_s))].rate_rps)
        if at_s >= end_s:
            return 1 - late / total
        rate = copies_rps[min(len(copies_rps) - 1, int(at_s // SYNC_S))]
        free_s = max(free_s, at_s) + 1 / rate
        waits.append(free_s - at_s)
        total += 1
        late += free_s - at_s > 20 / rate  # more than a score before it: what Poisson's gaps do not bring about


def test_queues_as_rates_are_queues_of_single_requests() -> None:
    """A fleet of fixed copies under rates below, above and again below what it serves."""
    fleet = Fleet(plan())
    ready = [pool.planned for pool in fleet.pools]
    full = min(sum(ready[i] * f for i, _, f in group.pools) / group.part for group in fleet.groups)
    capacity = min(sum(ready[i] * c for i, c, _ in group.pools) / group.part for group in fleet.groups)
    rates = series(0.7 * capacity, 1.3 * full, 0.7 * capacity, window_s=600.0)
    late = total = 0.0
    for window in rates.windows:
        for _ in range(int(600 / SYNC_S)):
            outside, _ = fleet.serve(window.rate_rps, ready)
            late, total = late + outside, total + window.rate_rps
    single = [one_by_one(rates, [full], seed) for seed in range(4)]
    assert 1 - late / total == pytest.approx(sum(single) / len(single), abs=0.02)


@pytest.mark.parametrize(("load", "holds"), [(0.9, True), (1.5, False)])
def test_what_counts_as_within_the_levels_is_what_a_replay_finds(load: float, holds: bool) -> None:
    """Requests one by one through the plan's own servers, below what they serve within the levels and far above."""
    standing = small_schedule().levels[-1].plan
    rate = load * standing.throughput_rps
    fleet = Fleet(standing)
    outside, _ = fleet.serve(rate, [pool.planned for pool in fleet.pools])
    assert (outside == 0) == holds
    arrivals = ArrivalSettings(process=ArrivalProcess.POISSON)
    replayed = pipeline.replay(
        standing,
        small_fleet().workload,
        ReplaySettings(arrivals=arrivals, seeds=(0,), requests=1500, warm_up=0.4),
        rate,
    )
    assert (replayed.total.within_levels.mean >= 0.99) == holds


@given(value=st.floats(0.01, 1e4), target=st.floats(0.1, 100), copies=st.integers(1, 500))
def test_copies_by_a_metric_are_those_of_kubernetes(value: float, target: float, copies: int) -> None:
    """GetExternalPerPodMetricReplicas: the ratio to the target of all copies, left be within the tolerance."""
    usage = value / (target * copies)
    expected = copies if abs(1 - usage) <= 0.1 else math.ceil(value / target - 1e-9)
    assert copies_by(value, target, copies) == expected
    assert copies_by(0.0, target, copies) == 0


def test_a_dip_that_is_shorter_than_a_cold_start_stops_no_copy() -> None:
    window_s = float(settle_s(max(cold_starts_s(plan(), TIMES))))
    high, low = 0.8 * PEAK_RPS, 0.3 * PEAK_RPS
    short = followed(series(high, low, high, high, window_s=window_s - 90))
    long = followed(series(high, *[low] * 3, high, window_s=window_s))
    assert (short.started, short.within) == (0, 1.0)
    assert long.started > 0
    assert long.within < 1.0


def test_no_copy_starts_without_gpus() -> None:
    standing = small_schedule().levels[-1].plan  # of an inventory of sixteen
    rules = tuple(replace(rule, ceiling=99, hours=()) for rule in scaling_rules(standing, hours=(0.1,) * 24))
    loop = derived_loop(rules, Fleet(standing), cold_starts_s(standing, TIMES))
    result = run_loop(standing, series(5 * PEAK_RPS, 5 * PEAK_RPS), loop, TIMES, "all")
    assert result.usd <= 2 * 16 + 1e-9
    assert result.within == 0.0


def test_hours_and_spares_carry_what_the_load_shows_too_late() -> None:
    rates = series(*[6.0] * 8, *[24.0] * 4, *[6.0] * 12)
    alone = followed(rates)
    hours = followed(rates, hours=usual_hours(rates))
    spare = followed(rates, spare=18.0)
    assert alone.within < 1.0
    assert (hours.within, spare.within) == (1.0, 1.0)
    assert hours.usd < spare.usd


@settings(max_examples=40)
@given(
    rates=st.lists(st.floats(0, 50), min_size=2, max_size=60),
    window_s=st.sampled_from([600.0, 1800.0]),
    start_s=st.floats(10, 2000),
    share=st.sampled_from([0.5, 0.9, 0.99, 1.0]),
    floor=st.floats(0, 30),
)
def test_spares_carry_the_rises_of_their_share_of_windows(
    rates: list[float], window_s: float, start_s: float, share: float, floor: float
) -> None:
    made_up, hours = series(*rates, window_s=window_s, begins_s=3000.0), (floor,) * 24
    spare = spare_rps(made_up, hours, start_s, share)
    ahead = math.ceil((start_s + 90) / window_s)
    carried = [
        all(later <= max(rate, floor) + spare + 1e-9 for later in rates[k + 1 : k + 1 + ahead])
        for k, rate in enumerate(rates)
    ]
    assert sum(carried) >= share * len(rates) - 1e-9
    if spare:
        fewer = [
            all(x < max(r, floor) + spare - 1e-9 for x in rates[k + 1 : k + 1 + ahead]) for k, r in enumerate(rates)
        ]
        assert sum(fewer) < share * len(rates) + 1e-9


def test_an_hour_surely_brings_what_half_of_the_days_bring() -> None:
    days = [[1.0 + day + (10.0 * day if hour == 9 else 0) for hour in range(24)] for day in (0, 1, 2)]
    hours = usual_hours(series(*(rate for day in days for rate in day)))
    assert hours == tuple(12.0 if hour == 9 else 2.0 for hour in range(24))
    shifted = usual_hours(series(*(rate for day in days for rate in day), begins_s=7200.0))
    assert shifted[11] == 12.0


def test_a_schedule_beside_fleets_that_follow_the_load() -> None:
    schedule = autoscaled(small_schedule(), TIMES)
    by_hour, alone, usual = schedule.autoscaled
    promised = small_fleet().routing.margin
    assert promised * schedule.unlimited_bound_usd < by_hour.usd < schedule.static_usd
    assert by_hour.within >= 0.95
    assert alone.within >= 0.95
    assert usual.within < by_hour.within
    assert schedule.within_share == 1.0
    assert autoscaled(small_schedule(), TIMES) == schedule
    assert replace(schedule, autoscaled=()) == small_schedule()


def test_the_usual_autoscaler_swings_where_its_queue_is_empty() -> None:
    """Nothing waits at half of the load, so it wants one copy; then all wait."""
    standing = small_schedule().levels[-1].plan
    fleet = Fleet(standing)
    result = run_loop(standing, series(*[0.9 * PEAK_RPS] * 3), usual_loop(fleet), TIMES, "usual")
    assert result.within < 0.9
    assert result.started > 2


def test_other_tariffs_are_refused() -> None:
    owned: Schedule = replace(small_schedule(), tariff=Tariff(kind=TariffKind.OWNED))
    with pytest.raises(InputError, match="paid by the hour"):
        autoscaled(owned, TIMES)


def test_rates_are_those_of_a_day() -> None:
    assert len(usual_hours(hourly())) == 24
