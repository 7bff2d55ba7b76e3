"""Keys that may change before a search is resumed: none of them changes what is evaluated, or what comes of it."""

from dataclasses import replace
from typing import Any

import pytest

from planner.domain import (
    Encoding,
    GpuSpec,
    PlacementSettings,
    Plan,
    RoutingForm,
    RoutingSettings,
    Scenario,
    SearchMethod,
    SizeSet,
    Surrogate,
    SurvivalSettings,
    Trial,
    WarmStart,
)
from planner.evaluation.evaluator import Evaluator
from planner.files import all_differences, deciding_differences, scenario_hash
from planner.placement import synthesize
from planner.proposing.search import optimize
from planner.workload import question_of


@pytest.fixture(scope="module")
def trials(plan: Plan) -> tuple[Trial, ...]:
    return _trials(plan.scenario)


def _trials(scenario: Scenario) -> tuple[Trial, ...]:
    evaluator = Evaluator(question_of(scenario))
    return optimize(scenario.inventory, scenario.search, evaluator).record.trials


def _searching(scenario: Scenario, **changes: Any) -> Scenario:
    return replace(scenario, search=replace(scenario.search, **changes))


def _free(scenario: Scenario) -> dict[str, Scenario]:
    items = scenario.inventory.items

    def selected(gpu: GpuSpec) -> GpuSpec:
        return replace(gpu, node_selector=(("pool", "dear"),))

    stocked = {
        "prices_usd_per_gpu_hour": tuple(replace(item, price_usd_per_gpu_hour=7.0) for item in items),
        "node_selectors": tuple(replace(item, gpu=selected(item.gpu)) for item in items),
    }
    searches: dict[str, Any] = {
        "processes": 7,
        "iterations": scenario.search.iterations,
        "failure_limit": 0.9,
        "work_limit": 7.0,
        "timings": not scenario.search.timings,
        "gap": 0.1,
        "sizes": (8, 16),
    }
    return {
        "name": replace(scenario, name="other"),
        "assignment.work_limit": replace(scenario, assignment=replace(scenario.assignment, work_limit=77.0)),
        **{key: replace(scenario, inventory=replace(scenario.inventory, items=row)) for key, row in stocked.items()},
        **{f"search.{key}": _searching(scenario, **{key: value}) for key, value in searches.items()},
    }


FREE = ("name", "assignment.work_limit", "prices_usd_per_gpu_hour", "node_selectors", "search.processes",
        "search.failure_limit", "search.work_limit", "search.timings", "search.gap", "search.sizes")  # fmt: skip


@pytest.mark.parametrize("key", FREE)
def test_a_free_key_leaves_the_trials_as_they_are(plan: Plan, trials: tuple[Trial, ...], key: str) -> None:
    changed = _free(plan.scenario)[key]
    assert deciding_differences(plan.scenario, changed) == ()
    assert scenario_hash(changed) == scenario_hash(plan.scenario)
    assert (all_differences(plan.scenario, changed) == ()) == (key == "search.processes")
    assert _trials(_searching(changed, processes=1)) == trials


@pytest.mark.parametrize("method", [SearchMethod.RANDOM, SearchMethod.SOBOL, SearchMethod.GENETIC])
def test_more_rounds_begin_with_the_same(plan: Plan, method: SearchMethod) -> None:
    few = _searching(plan.scenario, method=method, iterations=2)
    more = _searching(few, iterations=3)
    assert deciding_differences(few, more) == ()
    first = _trials(few)
    assert _trials(more)[: len(first)] == first


def test_a_grid_is_as_fine_as_its_rounds_are_many(plan: Plan) -> None:
    few = _searching(plan.scenario, method=SearchMethod.GRID, iterations=2)
    more = _searching(few, iterations=3)
    assert deciding_differences(few, more) == ("search.iterations 2, got 3",)
    first = _trials(few)
    assert _trials(more)[: len(first)] != first


@pytest.mark.parametrize(
    ("changes", "phrases"),
    [
        ({"seed": 6}, ("search.seed 5, got 6",)),
        ({"batch_size": 3, "skew": 2.0}, ("search.batch_size 4, got 3", "search.skew 5.0, got 2.0")),
        ({"surrogate": Surrogate.SAASBO}, ("search.surrogate gp, got saasbo",)),
        ({"encoding": Encoding.DIRECT, "slots": 3}, ("search.encoding divider, got direct", "search.slots 8, got 3")),
        ({"warm_start": (WarmStart.EXACT,)}, ("search.warm_start [], got ['exact']",)),
    ],
)
def test_keys_that_decide_are_told_with_both_values(
    plan: Plan, changes: dict[str, Any], phrases: tuple[str, ...]
) -> None:
    changed = _searching(plan.scenario, **changes)
    assert deciding_differences(plan.scenario, changed) == phrases
    assert scenario_hash(changed) != scenario_hash(plan.scenario)


def test_what_is_solved_for_to_begin_with_decides(plan: Plan) -> None:
    warm = _searching(plan.scenario, warm_start=(WarmStart.RELAXATION,))
    assert deciding_differences(warm, _searching(warm, gap=0.1, sizes=(8, 16))) == (
        "search.sizes all, got [8, 16]",
        "search.gap 0.002, got 0.1",
    )


def test_sizes_decide_where_a_search_counts_nodes(plan: Plan) -> None:
    whole_nodes = _searching(plan.scenario, sizes=SizeSet.WHOLE_NODES)
    for first, second, phrase in (
        (plan.scenario, whole_nodes, "search.sizes all, got whole_nodes"),
        (whole_nodes, plan.scenario, "search.sizes whole_nodes, got all"),
    ):
        assert deciding_differences(first, second) == (phrase,)
        assert scenario_hash(first) != scenario_hash(second)


@pytest.mark.parametrize("form", RoutingForm)
def test_what_buckets_alone_know_decides_where_there_are_any(plan: Plan, form: RoutingForm) -> None:
    begun = replace(plan.scenario, routing=RoutingSettings(form=form))
    changed = replace(
        begun, routing=replace(begun.routing, most=3, margin=0.5), simplicity=0.5, survive=SurvivalSettings(nodes=2)
    )
    deciding = (
        "routing.most 2, got 3",
        "routing.margin 0.9, got 0.5",
        "simplicity 0.01, got 0.5",
        "survive.nodes 1, got 2",
    )
    assert deciding_differences(begun, changed) == (deciding if form is RoutingForm.BUCKETS else ())
    assert deciding_differences(plan.scenario, begun) == (
        () if form is plan.scenario.routing.form else (f"routing.form table, got {form.value}",)
    )


def test_long_values_and_many_keys_are_told_in_short(plan: Plan) -> None:
    other = replace(plan.scenario.workload, input_tokens=tuple(k + 1 for k in plan.scenario.workload.input_tokens))
    changed = _searching(
        replace(plan.scenario, workload=other), seed=6, batch_size=3, skew=2.0, slots=3, min_island_size=7
    )
    phrases = deciding_differences(plan.scenario, changed)
    assert len(phrases) == 6
    assert phrases[-1].startswith("and ")
    assert all(len(phrase) < 80 for phrase in phrases)


def test_input_files_names_make_no_other_search(plan: Plan) -> None:
    assert scenario_hash(replace(plan.scenario, inputs=())) == scenario_hash(plan.scenario)


def test_where_gpus_lie_decides_a_search_that_cuts_their_graph(plan: Plan) -> None:
    tolerant = PlacementSettings(cpus_per_gpu=3)
    for encoding, phrases in ((Encoding.DIVIDER, 0), (Encoding.GRAPH, 1)):
        scenario = _searching(plan.scenario, encoding=encoding)
        scenario = replace(scenario, cluster=synthesize(4, seed=0, load=0.0))
        assert len(deciding_differences(scenario, replace(scenario, placement=tolerant))) == phrases
