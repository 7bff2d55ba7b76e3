"""Rate against price: the ends, the order, the bounds, and what is refused."""

from dataclasses import replace
from itertools import pairwise

import pytest
from pipeline_scenarios import small

from planner.assignment import best_layout, relax
from planner.domain import (
    CostMode,
    CostSettings,
    Frontier,
    FrontierPoint,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Scenario,
)
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.proposing.certificate import RATE, layout_settings, offer_of
from planner.proposing.frontier import frontier, undominated
from planner.workload import question_of

INVENTORY = {"H200": 24, "H20": 40}
PRICES = {"H200": 4.0, "H20": 1.0}
POINTS = 4


def priced(**changes) -> Scenario:
    search = {"method": "exact", "work_limit": 60}
    return small(INVENTORY, **{"prices_usd_per_gpu_hour": PRICES, "search": search, **changes})


def evaluator_of(scenario: Scenario) -> Evaluator:
    return Evaluator(question_of(scenario))


@pytest.fixture(scope="module")
def heard() -> list[tuple[int, int, FrontierPoint | None]]:
    return []


@pytest.fixture(scope="module")
def found(heard) -> Frontier:
    return frontier(priced(), POINTS, lambda done, total, point: heard.append((done, total, point)))


def test_rates_rise_with_prices(found):
    assert 2 <= len(found.points) <= POINTS
    for cheap, dear in pairwise(found.points):
        assert cheap.price_usd_per_hour < dear.price_usd_per_hour
        assert cheap.rate_rps < dear.rate_rps


def test_bounds_lie_above_the_rates_and_rise_too(found):
    for point in found.points:
        assert point.bound_rps >= point.rate_rps
        assert 0 <= point.gap < 0.1
    assert all(a.bound_rps <= b.bound_rps for a, b in pairwise(found.points))


def test_bounds_are_not_above_the_relaxation(found):
    scenario = priced()
    offer = offer_of(scenario, evaluator_of(scenario))
    for point in found.points:
        budget = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=point.budget_usd_per_hour)
        assert point.bound_rps <= relax(offer, budget, scenario.assignment).value * (1 + 1e-6)


def test_the_first_point_is_the_cheapest_fleet_that_serves(found):
    scenario = priced()
    offer, least = offer_of(scenario, evaluator_of(scenario)), found.points[0].price_usd_per_hour
    budget = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=least - 0.5)
    with pytest.raises(InfeasibleError):
        best_layout(offer, budget, layout_settings(scenario))


def test_the_last_point_may_rent_everything(found):
    scenario = priced()
    offer = offer_of(scenario, evaluator_of(scenario))
    last = found.points[-1]
    assert last.budget_usd_per_hour == scenario.inventory.price_usd_per_hour == 136
    assert last.rate_rps >= 0.9 * relax(offer, RATE, scenario.assignment).rate


def test_a_point_is_its_layouts_rent_watts_and_rate(found):
    scenario = priced()
    evaluator = evaluator_of(scenario)
    watts = {item.gpu.name: item.gpu.max_w for item in scenario.inventory.items}
    for point in found.points:
        used = dict.fromkeys(INVENTORY, 0)
        for island, count in point.layout.counts:
            used[island.gpu] += island.size * count
        assert dict(point.gpus) == used
        assert point.price_usd_per_hour == pytest.approx(sum(PRICES[gpu] * n for gpu, n in used.items()))
        assert point.price_usd_per_hour <= point.budget_usd_per_hour * (1 + 1e-6)
        assert point.watts == pytest.approx(sum(watts[gpu] * n for gpu, n in used.items()))
        assert point.rate_rps == evaluator.evaluate(point.layout).throughput_rps
        assert point.requests_per_usd == pytest.approx(3600 * point.rate_rps / point.price_usd_per_hour)
    assert found.most_per_dollar.requests_per_usd == max(p.requests_per_usd for p in found.points)


def test_points_have_bands_and_one_of_them_serves_most_per_usd(found):
    assert all(point.band is not None and point.band.low_rps < point.band.high_rps for point in found.points)
    likely = [point.most_per_usd_probability for point in found.points]
    assert sum(likely) == pytest.approx(1)


def test_every_budget_is_told(found, heard):
    assert [(done, total) for done, total, _ in heard] == [(k, POINTS) for k in range(1, POINTS + 1)]
    assert found.unsolved == ()
    assert {p.layout for p in found.points} <= {p.layout for _, _, p in heard if p}


def _point(price: float, rate: float, bound: float = 100.0) -> FrontierPoint:
    layout = Layout.of([IslandClass(gpu="H20", size=8)])
    return FrontierPoint(
        budget_usd_per_hour=price,
        price_usd_per_hour=price,
        rate_rps=rate,
        bound_rps=bound,
        gpus=(("H20", 8),),
        watts=1.0,
        layout=layout,
    )


def test_dominated_points_are_dropped():
    kept = undominated([_point(1, 5), _point(2, 5), _point(3, 4), _point(4, 9), _point(4, 8), _point(5, 9.5)])
    assert [(p.price_usd_per_hour, p.rate_rps) for p in kept] == [(1, 5), (4, 9), (5, 9.5)]


def test_bounds_come_down_to_those_of_larger_budgets():
    kept = undominated([_point(1, 5, 12), _point(2, 6, 8), _point(3, 7, 9)])
    assert [p.bound_rps for p in kept] == [8, 8, 9]


@pytest.mark.parametrize("points", [-1, 0, 1, 201])
def test_too_few_or_too_many_points_are_refused(points):
    with pytest.raises(InputError, match=rf"points: must lie in 2..200, got {points}"):
        frontier(priced(), points)


def test_without_prices_there_is_no_frontier():
    with pytest.raises(InputError, match="prices_usd_per_gpu_hour"):
        frontier(priced(prices_usd_per_gpu_hour={"H200": 0, "H20": 0}), 3)


def test_a_type_without_a_price_is_not_taken_for_free():
    unpriced = small({"H200": 24, "Rubin-NVL144": 144}, prices_usd_per_gpu_hour={"H200": 4})
    with pytest.raises(InputError, match="a frontier counts money: there is no price for Rubin-NVL144"):
        frontier(unpriced, 3)


def test_large_fleets_in_reference_mode_are_refused():
    scenario = priced()
    items = tuple(replace(item, count=2000) for item in scenario.inventory.items)
    cost = CostSettings(mode=CostMode.REFERENCE)
    with pytest.raises(InputError, match="at most 1,024 GPUs"):
        frontier(replace(scenario, cost=cost, inventory=replace(scenario.inventory, items=items)), 3)


def test_a_fleet_that_serves_nothing_has_no_frontier():
    with pytest.raises(InfeasibleError):
        frontier(small({"H20": 11}), 2)


def test_nothing_found_in_time_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """That nothing serves is said only where the solver has ended its search."""

    def late(*_: object) -> None:
        raise SolverError("found nothing in time", hint="")

    monkeypatch.setattr("planner.proposing.frontier.best_layout", late)
    with pytest.raises(SolverError, match=r"nor that there is none\. Raise search\.work_limit"):
        frontier(priced(), 2)
