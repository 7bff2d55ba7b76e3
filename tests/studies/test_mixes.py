"""Fleets of one rent: which there are, and what each is worth beside the best of one type."""

from itertools import product

import pytest

from planner.domain import CostMode
from planner.studies.chapter5.experiments import FLEETS, PRICES
from planner.studies.chapter5.mixes.records import Fleet, FleetRate, Semantics
from planner.studies.chapter5.mixes.study import RENT, fleet_rates, fleets_of, worths

PLAIN = Semantics(name="default", mode=CostMode.DEFAULT)


@pytest.mark.parametrize("parts", [1, 4])
def test_every_way_to_spend_the_parts_is_there_once(parts: int) -> None:
    ways = {
        tuple((gpu, round(n * RENT / parts / PRICES[gpu])) for gpu, n in zip(PRICES, split, strict=True) if n)
        for split in product(range(parts + 1), repeat=len(PRICES))
        if sum(split) == parts
    }
    fleets = fleets_of(parts)
    assert {fleet.gpus for fleet in fleets} == ways
    assert len(fleets) == len(ways)
    assert {sum(PRICES[gpu] * count for gpu, count in fleet.gpus) for fleet in fleets} == {RENT}
    assert sum(fleet.is_uniform for fleet in fleets) == len(PRICES)


def test_the_papers_fleets_are_among_them() -> None:
    assert {tuple(gpus.items()) for gpus in FLEETS.values()} <= {fleet.gpus for fleet in fleets_of(4)}


def rate(gpus: dict[str, int], rate_rps: float, drawn: tuple[float, ...], *, chosen: bool = False) -> FleetRate:
    fleet = Fleet(gpus=tuple(gpus.items()), chosen=chosen)
    return FleetRate(trace="t", semantics=PLAIN, fleet=fleet, rate_rps=rate_rps, bound_rps=rate_rps, drawn_rps=drawn)


def test_ratios_are_taken_draw_by_draw() -> None:
    """Both fleets are slow in the same draws: their own bands are wide, that of their ratio is not."""
    slow_and_fast = (50.0, 100.0, 200.0, 400.0)
    rows = worths([
        rate({"H200": 1}, 90, slow_and_fast),
        rate({"H20": 4}, 100, slow_and_fast),
        rate({"H200": 1, "H20": 1}, 120, tuple(1.2 * value for value in slow_and_fast)),
        rate({"H800": 9}, 500, slow_and_fast, chosen=True),
    ])  # fmt: skip
    assert {row.rival.fleet.label for row in rows} == {"4 H20"}  # what was chosen freely is nobody's rival
    mix = rows[2]
    assert (mix.ratio, mix.low, mix.high, mix.odds) == pytest.approx((1.2, 1.2, 1.2, 1.0))
    assert rows[0].ratio == pytest.approx(0.9)
    assert rows[0].odds == 0
    assert rows[1].sure_rps == pytest.approx(50 + 0.3 * 50)  # Hazen's P20 of four


def test_a_draw_in_which_nothing_serves_counts() -> None:
    lone, mix = worths([rate({"H200": 1}, 100, (0.0, 100.0)), rate({"H200": 1, "H20": 1}, 90, (80.0, 90.0))])
    assert (lone.odds, mix.odds) == (0, 0.5)
    assert mix.high == float("inf")


@pytest.mark.study
def test_uniform_fleets_serve_what_is_known_in_reference_mode() -> None:
    """The facts on planning: 254.3, 356.2 and 237.4 requests/s on code."""
    semantics = Semantics(name="reference", mode=CostMode.REFERENCE)
    rows = fleet_rates("azure-code-2023", semantics, parts=1, draws=16, seed=0)
    assert [row.rate_rps for row in rows] == pytest.approx([254.3, 356.2, 237.4, 427.2], rel=0.005)
