"""The bound of the day against all sequences of all fleets of two GPU types, counted out."""

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import files
from planner.domain import Inventory, Scenario
from planner.domain.schedules import RateSeries, RateWindow, Tariff, TariffKind
from planner.replanning.schedules.bounds import least_of_schedules
from planner.replanning.schedules.levels import LeastCost
from planner.workload import summarize

COUNTS = (2, 1)
FLEETS = tuple(product(*(range(count + 1) for count in COUNTS)))
HOURS = 0.5


@pytest.fixture(scope="module")
def fleet_scenario() -> Scenario:
    """Two GPU types, two and one of them, at 2 and 3 USD/hour."""
    shipped = files.load_scenario(Path("mixed-fleet"), summarize)
    priced = zip(shipped.inventory.items, COUNTS, (2.0, 3.0), strict=False)
    items = tuple(replace(item, count=count, price_usd_per_gpu_hour=usd) for item, count, usd in priced)
    return replace(shipped, inventory=Inventory(items=items))


def rent(scenario: Scenario, fleet: tuple[int, ...]) -> float:
    return sum(n * item.price_usd_per_gpu_hour for n, item in zip(fleet, scenario.inventory.items, strict=True))


def paid_usd(scenario: Scenario, tariff: Tariff, fleet: tuple[int, ...], always: tuple[int, ...], busy: float) -> float:
    """USD of one window, written down anew."""
    usd = 0.0
    for n, reserved, item in zip(fleet, always, scenario.inventory.items, strict=True):
        price, power = item.price_usd_per_gpu_hour, item.gpu.max_w / 1000 * tariff.usd_per_kwh
        if tariff.kind is TariffKind.OWNED:
            spare = max(tariff.spot_share * price - power, -tariff.idle_share * power)
            usd += n * power * (tariff.idle_share + (1 - tariff.idle_share) * busy) - (item.count - n) * spare
        else:
            usd += price * ((1 - tariff.reserved_discount) * reserved + max(0, n - reserved))
    return HOURS * usd


def cheapest_usd(
    scenario: Scenario, tariff: Tariff, series: RateSeries, promises: dict[tuple[int, ...], float], most: int | None
) -> float:
    """Of every sequence of fleets that carries the rates, and every reservation; changes are free."""
    reservations = FLEETS if tariff.kind is TariffKind.RESERVED else ((0, 0),)
    best = float("inf")
    for sequence in product(FLEETS, repeat=len(series.windows)):
        if any(promises[fleet] < rate for fleet, rate in zip(sequence, series.rates_rps, strict=True)):
            continue
        if most is not None and sum(before != after for before, after in pairwise(sequence)) > most:
            continue
        for always in reservations:
            usd = 0.0
            for fleet, rate in zip(sequence, series.rates_rps, strict=True):
                capacity = promises[fleet] / scenario.routing.margin
                usd += paid_usd(scenario, tariff, fleet, always, rate / capacity if capacity else 0.0)
            best = min(best, usd)
    return best


def least_costs(
    scenario: Scenario, promises: dict[tuple[int, ...], float], rates: list[float]
) -> tuple[LeastCost, ...]:
    """The cheapest fleet for each rate, exactly."""
    able = {rate: [fleet for fleet in FLEETS if promises[fleet] >= rate] for rate in sorted(set(rates))}
    return tuple(
        LeastCost(rate_rps=rate, usd_per_hour=min(rent(scenario, fleet) for fleet in fleets))
        for rate, fleets in able.items()
        if rate > 0 and fleets
    )


@given(
    kind=st.sampled_from(list(TariffKind)),
    speeds=st.tuples(st.integers(1, 4), st.integers(1, 6)),
    shares=st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.7, 0.9, 1.0]), min_size=1, max_size=3),
    planned=st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.6, 0.8, 1.0]), max_size=4),
    most=st.sampled_from([None, 0, 1]),
    idle=st.sampled_from([0.0, 0.25, 1.0]),
)
def test_no_sequence_of_fleets_undercuts_the_bound(
    fleet_scenario: Scenario,
    kind: TariffKind,
    speeds: tuple[int, int],
    shares: list[float],
    planned: list[float],
    most: int | None,
    idle: float,
) -> None:
    promises = {fleet: float(sum(n * speed for n, speed in zip(fleet, speeds, strict=True))) for fleet in FLEETS}
    peak = max(promises.values())
    windows = tuple(
        RateWindow(start_s=n * HOURS * 3600, rate_rps=round(share * peak, 6)) for n, share in enumerate(shares)
    )
    series = RateSeries(name="drawn", window_s=HOURS * 3600, windows=windows)
    tariff = Tariff(kind=kind, idle_share=idle)
    due = cheapest_usd(fleet_scenario, tariff, series, promises, most)
    some = least_costs(fleet_scenario, promises, [round(share * peak, 6) for share in planned])
    assert least_of_schedules(fleet_scenario, series, some, tariff, most) <= due + 1e-9
    if kind is TariffKind.HOURLY:
        every = least_costs(fleet_scenario, promises, list(series.rates_rps))
        assert least_of_schedules(fleet_scenario, series, every, tariff, most) == pytest.approx(due)
