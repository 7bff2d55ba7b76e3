"""Warm starts: layouts to begin with serve, fit, and reach a stated share of what is possible; what `auto` does."""

from dataclasses import replace
from typing import Any

import pytest
from pipeline_scenarios import by_deviation, shipped, small

from planner.assignment import relax
from planner.domain import Encoding, IslandClass, Layout, Scenario, SearchMethod, SearchSettings, WarmStart
from planner.errors import SolverError
from planner.evaluation.evaluator import Evaluator
from planner.pipeline import plan
from planner.proposing import choice, warm_starts
from planner.proposing.certificate import RATE, is_exact, layout_settings, offer_of, solve_layout
from planner.proposing.warm_starts import seeds_of
from planner.workload import question_of

FLEET = {"H200": 32, "H20": 64}
BOTH = (WarmStart.EXACT, WarmStart.RELAXATION)


def evaluator_of(scenario: Scenario) -> Evaluator:
    """An evaluator in this process."""
    return Evaluator(question_of(scenario))


def searching(scenario: Scenario, **search: Any) -> Scenario:
    """Two rounds of four, by chance unless told otherwise."""
    changes = {"method": SearchMethod.RANDOM, "iterations": 2, "batch_size": 4, "timings": False, **search}
    return replace(scenario, search=replace(scenario.search, **changes))


def spent(layout: Layout) -> dict[str, int]:
    """GPUs by type."""
    held: dict[str, int] = {}
    for island, count in layout.counts:
        held[island.gpu] = held.get(island.gpu, 0) + island.size * count
    return held


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("azure-code-512usd", 0.94),
        ("azure-code-128xH200-reference", 0.75),
    ],
)
def test_the_rounded_relaxation_serves_a_share_of_the_bound(name: str, share: float) -> None:
    """Rounding a relaxation gives no bound of its own: the shares are what it reaches on the shipped scenarios."""
    scenario = searching(shipped(name), warm_start=(WarmStart.RELAXATION,))
    evaluator = evaluator_of(scenario)
    (seed,) = seeds_of(scenario, evaluator)
    assert seed.generator == "relaxation"
    bound = relax(offer_of(scenario, evaluator), RATE, layout_settings(scenario)).rate
    assert share * bound <= evaluator.evaluate(seed.layout).throughput_rps <= bound * (1 + 1e-6)
    held = spent(seed.layout)
    assert all(held[item.gpu.name] <= item.count for item in scenario.inventory.items)
    assert all(island.size >= scenario.search.min_island_size for island, _ in seed.layout.counts)


@pytest.mark.parametrize("inventory", [{"H200": 16}, {"H200": 24, "H20": 16}, {"H200": 20, "H800": 40}])
@pytest.mark.parametrize("least", [2, 5])
def test_seeds_of_small_fleets_serve_and_fit(inventory: dict[str, int], least: int) -> None:
    scenario = searching(small(inventory), warm_start=BOTH, min_island_size=least)
    evaluator = evaluator_of(scenario)
    exact, *rest = seeds_of(scenario, evaluator)
    best = evaluator.evaluate(exact.layout).throughput_rps
    assert best > 0
    for seed in rest:
        rate = evaluator.evaluate(seed.layout).throughput_rps
        assert 0 < rate <= best * (1 + scenario.search.gap + 1e-6)
        assert all(count <= inventory[gpu] for gpu, count in spent(seed.layout).items())
        assert all(island.size >= least for island, _ in seed.layout.counts)


def test_seeds_come_in_order_and_once() -> None:
    scenario = searching(small(FLEET), warm_start=BOTH)
    evaluator = evaluator_of(scenario)
    exact = solve_layout(scenario, evaluator).layout
    other = Layout.of([IslandClass(gpu="H200", size=16)] * 2)
    again = replace(scenario, search=replace(scenario.search, earlier=(exact, other)))
    assert [seed.generator for seed in seeds_of(again, evaluator)] == ["exact", "relaxation", "earlier"]
    assert seeds_of(again, evaluator)[0].layout == exact
    assert seeds_of(searching(small(FLEET)), evaluator) == ()


def test_a_search_begins_with_its_seeds_and_ends_no_worse() -> None:
    earlier = (Layout.of([IslandClass(gpu="H200", size=16)] * 2 + [IslandClass(gpu="H20", size=32)] * 2),)
    scenario = searching(small(FLEET), method=SearchMethod.GENETIC, warm_start=BOTH, earlier=earlier)
    planned = plan(scenario)
    trials, evaluator = planned.search.trials, evaluator_of(scenario)
    begun = seeds_of(scenario, evaluator)
    assert len(trials) == 8
    assert [t.generator for t in trials if t.layout in [seed.layout for seed in begun]] == [s.generator for s in begun]
    planted = [t.generator in ("exact", "relaxation", "earlier") for t in trials]  # with what the space holds nearest
    assert planted == sorted(planted, reverse=True)
    assert planned.throughput_rps >= max(evaluator.evaluate(seed.layout).throughput_rps for seed in begun)


def test_auto_solves_what_the_programme_sees() -> None:
    scenario = searching(small(FLEET), method=SearchMethod.AUTO)
    assert is_exact(scenario)
    planned = plan(scenario)
    exact = plan(searching(small(FLEET), method=SearchMethod.EXACT))
    assert [trial.generator for trial in planned.search.trials] == ["exact"]
    assert planned.islands == exact.islands
    assert planned.certificate == exact.certificate


@pytest.mark.parametrize(
    "unseen",
    [
        pytest.param({"slo": {"ttft_ms": 3000}}, id="queues"),
        pytest.param({"slo": {"ranges": [{"from": 0, "to": 2048, "ttft_ms": 3000}]}}, id="queues of a range"),
        pytest.param({"assignment": {"formulation": "deviation"}}, id="deviation"),
    ],
)
def test_auto_searches_what_the_programme_does_not_see(unseen: dict[str, Any]) -> None:
    asked = {"kind": "budget", "budget_usd_per_hour": 100}
    searched = small(FLEET, search={"method": "auto"}, **unseen)
    assert not is_exact(searched)
    assert is_exact(replace(searched, search=SearchSettings(method=SearchMethod.EXACT)))
    assert not is_exact(replace(searched, search=SearchSettings(method=SearchMethod.DIVIDER)))
    if "assignment" not in unseen:
        assert is_exact(small(FLEET, search={"method": "auto"}, objective=asked, **unseen))


def test_auto_begins_its_search_with_both_answers() -> None:
    scenario = searching(by_deviation(small(FLEET)), method=SearchMethod.AUTO, encoding=Encoding.DIRECT, iterations=1)
    trials = plan(scenario).search.trials
    assert [trial.generator for trial in trials][:2] == ["exact", "relaxation"]
    assert len(trials) == 4
    assert all(name.startswith("slot_") for trial in trials for name, _ in trial.parameters)


def test_auto_searches_where_nothing_is_solved_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_slow(*_: object) -> None:
        raise SolverError("stopped at its work limit without a layout")

    for user in (choice, warm_starts):
        monkeypatch.setattr(user, "solve_layout", too_slow)
    scenario = searching(small(FLEET), method=SearchMethod.AUTO, iterations=1)
    trials = plan(scenario).search.trials
    assert trials[0].generator == "relaxation"
    assert len(trials) == 4
    with pytest.raises(SolverError):
        plan(searching(small(FLEET), method=SearchMethod.EXACT))
