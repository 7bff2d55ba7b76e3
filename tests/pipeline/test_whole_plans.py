"""From a scenario to a plan: sound, repeatable, within memory, and honest where nothing can serve."""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_scenarios import by_deviation, require_whole, shipped, short, small

from planner.cost import smallest_island
from planner.domain import (
    PHASES,
    CostMode,
    CostSettings,
    IslandClass,
    Layout,
    Origin,
    Phase,
    Plan,
    PlannedIsland,
    Question,
    Route,
    Scenario,
    SearchMethod,
    Workload,
)
from planner.errors import ExportError, InfeasibleError
from planner.evaluation.evaluator import Evaluator
from planner.export import ExportOptions, render
from planner.files import encode_plan
from planner.pipeline import check, plan
from planner.plans.audit import audit
from planner.report import summary
from planner.workload import divide


def in_reference_mode(scenario: Scenario) -> Scenario:
    return replace(scenario, cost=CostSettings(mode=CostMode.REFERENCE, engine=scenario.cost.engine))


MIXED = {"H200": 32, "H20": 64}
LARGE_ISLANDS = {"method": "random", "iterations": 2, "batch_size": 4, "min_island_size": 16}
SCENARIOS = [
    pytest.param(in_reference_mode(by_deviation(small(MIXED))), id="reference-deviation"),
    pytest.param(short(small(MIXED), SearchMethod.DIVIDER), id="divider"),
    pytest.param(small({"GB200-NVL72": 72}), id="rack"),
    pytest.param(small({"H200": 16, "A100": 16}, model="llama-3.1-70b"), id="dense"),
    pytest.param(small({"A100": 64}, model="llama-3.1-405b", search=LARGE_ISLANDS), id="stages"),
    pytest.param(small({"H200": 32}, cost={"max_pipeline_stages": 4}), id="stages-of-experts"),
    pytest.param(small(MIXED, cost={"mtp_tokens": 2, "redundant_experts": 32}), id="drafts"),
    pytest.param(small({"RTX-PRO-6000": 16, "H100-NVL": 16}, model="gpt-oss-120b"), id="PCIe-FP4"),
    pytest.param(small({"A10": 16, "A10G": 16, "L4": 16}, model="qwen3-30b-a3b"), id="24-GB"),
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_any_scenario_ends_in_a_plan_that_is_audited_read_back_and_exported(scenario: Scenario, tmp_path: Path) -> None:
    found = plan(scenario)
    audit(found, divide(scenario.workload, scenario.ranges.width))
    assert found.throughput_rps == max(trial.throughput_rps for trial in found.search.trials)
    require_whole(found, tmp_path)
    if scenario.cost.mode is CostMode.REFERENCE:
        return  # its parallel degrees may be such as no engine takes
    assert exported(found, "vllm") == ""
    assert "SGLang cannot load" in exported(found, "sglang") or not exported(found, "sglang")


def exported(found: Plan, engine: str) -> str:
    """Why the engine cannot run the plan; empty where there are manifests."""
    try:
        files = render(found, engine=engine, options=ExportOptions(images=(("AMD", "example/engine:1"),)))
    except ExportError as error:
        return error.message
    return "" if files else "nothing"


def test_a_dense_model_too_large_for_a_host_gets_stages() -> None:
    islands = plan(small({"A100": 64}, model="llama-3.1-405b", search=LARGE_ISLANDS)).islands
    degrees = [one.parallel for one in islands if one.parallel]
    assert {(d.dp, d.pp > 1) for d in degrees} == {(1, True)}


def test_islands_are_those_of_the_best_layout(example: Plan) -> None:
    best = example.search.trials[example.search.best_trial]
    assert Layout.of(IslandClass(gpu=one.gpu, size=one.size) for one in example.islands) == best.layout
    price = {item.gpu.name: item.price_usd_per_gpu_hour for item in example.scenario.inventory.items}
    due = sum(price[one.gpu] * one.size * count for one, count in best.layout.counts)
    assert sum(one.price_usd_per_hour for one in example.islands) == pytest.approx(due)
    assert due <= example.price_usd_per_hour


def test_islands_sum_up_their_routes(example: Plan) -> None:
    mine: dict[str, list[Route]] = defaultdict(list)
    for route in example.routing:
        mine[route.island].append(route)
    for one in example.islands:
        routes = mine.pop(one.id, [])
        assert one.rate_rps == pytest.approx(sum(r.rate_rps for r in routes))
        assert one.utilisation == pytest.approx(sum(r.rate_rps / r.capacity_rps for r in routes))
        assert one.utilisation <= 1 + 1e-6
        assert one.batch_size == max((r.batch_size for r in routes), default=0)
        assert one.longest_prompt == max((r.range_end - 1 for r in routes), default=0)
        assert (one.phase is None) == (not routes) == bool(one.note)
    assert not mine


def test_routes_carry_every_request_once_a_phase(example: Plan, workload: Workload) -> None:
    for phase in PHASES:
        routes = [route for route in example.routing if route.phase is phase]
        assert sum(route.rate_rps for route in routes) == pytest.approx(example.throughput_rps)
        for span in workload.ranges:
            cells = [route for route in routes if route.range_start == span.start]
            assigned = sum(route.assigned_rps for route in cells)
            assert assigned >= example.throughput_rps * span.probability * (1 - 1e-6)
            for route in cells:
                assert route.share == pytest.approx(route.assigned_rps / assigned)
                assert route.probability == span.probability
                assert route.assigned_rps <= route.capacity_rps * (1 + 1e-9)


def held_gb(plan: Plan, island: PlannedIsland, route: Route) -> float:
    """Weights and KV of one GPU of the island while it serves the route's range, from the model's shape."""
    model, degrees = plan.scenario.model, island.parallel
    (attention, *_), experts = dict(model.attentions), model.experts
    per_layer = (
        model.hidden_size * (attention.query_rank + attention.kv_rank + attention.rope_dim)
        + attention.query_rank * attention.heads * (attention.nope_dim + attention.rope_dim)
        + attention.kv_rank * attention.heads * (attention.nope_dim + attention.value_dim)
        + attention.heads * attention.value_dim * model.hidden_size
    )
    dense = model.dense_layers * 3 * model.hidden_size * model.widest_dense_ffn
    embeddings = 2 * 2 * model.vocab_size * model.hidden_size
    of_a_group = model.layers * per_layer + dense + embeddings
    held = -(-experts.routed // (degrees.tp * degrees.dp)) + experts.shared
    of_experts = model.moe_layers * held * 3 * model.hidden_size * experts.ffn_size
    answer = plan.scenario.workload.max_output_tokens if route.phase is Phase.DECODE else 0
    tokens = route.batch_size * ((route.range_start + route.range_end) // 2 + answer)
    kv = tokens * model.layers * (attention.kv_rank + attention.rope_dim)
    return float(of_a_group / degrees.tp + of_experts + kv) / 1e9


def overflows(plan: Plan) -> list[str]:
    """Routes whose island's GPUs would hold more than nine tenths of their memory."""
    islands = {island.id: island for island in plan.islands}
    return [
        f"{route.island} {route.range_start}"
        for route in plan.routing
        if held_gb(plan, islands[route.island], route)
        > 0.9 * plan.scenario.inventory.item(islands[route.island].gpu).gpu.device_gb
    ]


def test_default_mode_never_overflows_memory(example: Plan) -> None:
    assert example.scenario.cost.mode is CostMode.DEFAULT
    assert overflows(example) == []


@pytest.mark.parametrize("inventory", [{"H800": 64, "H20": 32}, {"H200": 24, "MI300X": 16}, {"GB300-NVL72": 36}])
def test_no_small_fleet_overflows_memory(inventory: dict[str, int]) -> None:
    assert overflows(plan(small(inventory))) == []


def test_the_memory_test_can_fail() -> None:
    """Reference mode prefills without asking whether the weights fit."""
    assert overflows(plan(in_reference_mode(small(MIXED)))) != []


def test_equal_scenarios_give_equal_bytes(example: Plan) -> None:
    assert encode_plan(plan(example.scenario)) == encode_plan(example)


def test_bayesian_search_repeats_to_the_byte() -> None:
    scenario = short(small(MIXED), SearchMethod.DIVIDER)
    assert encode_plan(plan(scenario)) == encode_plan(plan(scenario))


def test_another_seed_gives_another_search(example: Plan) -> None:
    other = replace(example.scenario, search=replace(example.scenario.search, seed=1))
    assert plan(other).search.trials != example.search.trials


def test_processes_do_not_change_the_plan() -> None:
    alone, together = (plan(short(small(MIXED), processes=count)) for count in (1, 2))
    assert replace(together, scenario=alone.scenario) == alone


def test_progress_is_told_round_by_round() -> None:
    heard: list[tuple[int, int]] = []
    serves = {"method": "random", "iterations": 2, "batch_size": 4, "seed": 1}
    found = plan(small(MIXED, search=serves), lambda done, total, _best: heard.append((done, total)))
    assert heard == [(4, 8), (8, 8)]
    assert len(found.search.trials) == 8


def test_two_h200s_are_told_how_many_gpus_it_takes() -> None:
    scenario = small({"H200": 2})
    with pytest.raises(InfeasibleError) as caught:
        plan(scenario)
    gpu, load = scenario.inventory.items[0].gpu, divide(scenario.workload, scenario.ranges.width)
    needs = [
        smallest_island(gpu, phase, model=scenario.model, workload=load, settings=scenario.cost) for phase in PHASES
    ]
    assert None not in needs
    assert f"at least {needs[0]} to prefill and at least {needs[1]} to decode" in caught.value.message
    assert "H200 (the inventory has 2)" in caught.value.message
    assert f"{scenario.model.weights_gb:.0f} GB of weights" in caught.value.message
    assert caught.value.hint


def test_as_many_gpus_as_it_said_do_serve() -> None:
    scenario = small({"H200": 2})
    gpu, load = scenario.inventory.items[0].gpu, divide(scenario.workload, scenario.ranges.width)
    least = [
        smallest_island(gpu, phase, model=scenario.model, workload=load, settings=scenario.cost) or 0
        for phase in PHASES
    ]
    layout = Layout.of(IslandClass(gpu="H200", size=size) for size in least)
    assert Evaluator(Question(scenario=small({"H200": sum(least)}), workload=load)).evaluate(layout).throughput_rps > 0
    assert (
        Evaluator(Question(scenario=small({"H200": sum(least)}), workload=load)).evaluate(Layout.of([])).throughput_rps
        == 0
    )


def test_check_agrees_with_plan_before_any_search() -> None:
    with pytest.raises(InfeasibleError):
        check(small({"H200": 2}))
    scenario = small(MIXED)
    assert check(scenario) == divide(scenario.workload, scenario.ranges.width)


def test_a_layout_that_serves_nothing_says_why() -> None:
    scenario = shipped("azure-code-512usd")
    load = divide(scenario.workload, scenario.ranges.width)
    evaluator = Evaluator(Question(scenario=scenario, workload=load))
    layouts = [Layout.of([IslandClass(gpu="H200", size=2)] * 32), Layout.of([IslandClass(gpu="H20", size=64)])]
    found = list(evaluator(layouts))
    assert [one.throughput_rps for one in found] == [0, 0]
    assert all(one.error and one.assignment is None for one in found)
    assert "no island can prefill" in found[0].error


def test_rates_of_a_model_that_nobody_measured_are_called_carried_over() -> None:
    """DeepSeek's runs on H100 are SGLang's, among others; Mixtral there has what comes nearest."""
    mixtral = plan(small({"H100": 16}, model="mixtral-8x7b"))
    origins = {(one.gpu, one.phase): one.origin for one in mixtral.provenance.estimates}
    assert origins == {("H100", phase): Origin.CARRIED for phase in PHASES}
    told = [line for line in summary(mixtral).splitlines() if line.startswith("| H100 |")]
    for phase in PHASES:
        (row,) = (line for line in told if line.startswith(f"| H100 | {phase} | carried over |"))
        assert re.search(rf"no measurement of this model: \d+ left-out points of {phase}.*, each model left out", row)
        assert "mixtral" not in row
    assert "published measurement" not in summary(mixtral)
    deepseek = plan(small({"H100": 48}, engine={"name": "sglang"}))
    assert {one.origin for one in deepseek.provenance.estimates} == {Origin.PUBLISHED}
    (row,) = (line for line in summary(deepseek).splitlines() if line.startswith("| H100 | prefill | published meas"))
    assert "left-out points of prefill of deepseek-r1" in row
