"""Layouts under bounds on TTFT: whole nodes do not collapse, no simple plan is better, and the bound stays a bound."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.assignment import assign, best_layout, relax
from planner.domain import Evaluation, IslandClass, Layout, Phase, Plan, Scenario
from planner.errors import InfeasibleError
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goodput import goodput_of
from planner.files import scenario_from_document
from planner.files.plan.plan_document import encode_plan
from planner.files.plan.plan_reader import decode_plan
from planner.pipeline import place, plan
from planner.placement import NodeType, synthesize
from planner.proposing.certificate import RATE, layout_settings, offer_of
from planner.workload import question_of, summarize

CODE, CONVERSATION = ("code", (2000, 40)), ("conv", (4000, 60))
MIXED = {"H200": 64, "H800": 64, "H20": 128}
LEAST = 0.8  # of what islands of any size serve
GAP = 0.005  # to which the programme with queues is solved


def scenario(
    inventory: Mapping[str, int], trace: str, levels: tuple[float, float], width: int = 1024, **search: Any
) -> Scenario:
    document = {
        "name": "levels",
        "model": "deepseek-v3",
        "workload": f"azure-{trace}-2023",
        "inventory": dict(inventory),
        "ranges": {"width": width},
        "slo": {"ttft_ms": levels[0], "tpot_ms": levels[1], "percentile": 99},
        "routing": {"form": "table"},
        "search": {"method": "exact", "timings": False, **search},
    }
    return scenario_from_document(document, origin="test", base=Path(), summarize=summarize)


def evaluator_of(problem: Scenario) -> Evaluator:
    return Evaluator(question_of(problem))


def uniform(inventory: Mapping[str, int]) -> Iterator[Layout]:
    """Every layout of one size of whole nodes per GPU type, types left out included."""
    sizes = [[0, *range(8, count + 1, 8)] for count in inventory.values()]
    for chosen in product(*sizes):
        pairs = [(gpu, size) for gpu, size in zip(inventory, chosen, strict=True) if size]
        if pairs:
            yield Layout.of(
                IslandClass(gpu=gpu, size=size) for gpu, size in pairs for _ in range(inventory[gpu] // size)
            )


@pytest.fixture(scope="module")
def whole_nodes() -> Plan:
    return plan(scenario({"H200": 48}, *CODE, sizes="whole_nodes"))


@pytest.mark.study
def test_chosen_sizes_reach_most_of_what_all_sizes_do(whole_nodes: Plan) -> None:
    """One configuration a size would leave no island of whole nodes that prefills long prompts within the bound."""
    every = plan(scenario({"H200": 48}, *CODE, gap=0.05))
    powers = plan(scenario({"H200": 48}, *CODE, sizes="powers_of_two"))
    for chosen in (whole_nodes, powers):
        assert LEAST * every.throughput_rps <= chosen.throughput_rps
    assert every.throughput_rps >= whole_nodes.throughput_rps * (1 - GAP)


@pytest.mark.parametrize(
    ("inventory", "case", "width"),
    [
        ({"H200": 32}, CODE, 2048),
        pytest.param({"H200": 64}, CODE, 256, marks=pytest.mark.study),
        pytest.param(MIXED, CONVERSATION, 256, marks=pytest.mark.study),
    ],
)
def test_whole_nodes_reach_most_of_what_all_sizes_do(
    inventory: dict[str, int], case: tuple[str, tuple[float, float]], width: int
) -> None:
    chosen, every = (plan(scenario(inventory, *case, width=width, sizes=sizes)) for sizes in ("whole_nodes", "all"))
    assert LEAST * every.throughput_rps <= chosen.throughput_rps <= every.throughput_rps * (1 + GAP)
    judge = evaluator_of(chosen.scenario)
    for gpus in (dict.fromkeys(inventory, 16), dict.fromkeys(inventory, 32)):
        simple = Layout.of(IslandClass(gpu=g, size=z) for g, z in gpus.items() for _ in range(inventory[g] // z))
        assert chosen.throughput_rps >= judge.evaluate(simple).throughput_rps * (1 - 1e-9)


def test_no_simple_layout_is_better_in_the_example(whole_nodes: Plan) -> None:
    judge = evaluator_of(whole_nodes.scenario)
    for simple in uniform({"H200": 48}):
        assert judge.evaluate(simple).throughput_rps <= whole_nodes.throughput_rps * (1 + 1e-9), simple.label


@st.composite
def small_cases(draw: st.DrawFn) -> Scenario:
    gpus = draw(st.lists(st.sampled_from(["H200", "H800", "H20"]), min_size=1, max_size=2, unique=True))
    inventory = {gpu: draw(st.sampled_from([16, 24])) for gpu in gpus}
    levels = (draw(st.sampled_from([1500, 2000, 3000, 4000, 6000])), draw(st.sampled_from([40, 60, 80])))
    return scenario(inventory, draw(st.sampled_from(["code", "conv"])), levels, width=2048, sizes="whole_nodes")


@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(small_cases())
def test_no_simple_layout_is_better_and_none_passes_the_bound(problem: Scenario) -> None:
    judge = evaluator_of(problem)
    inventory = {item.gpu.name: item.count for item in problem.inventory.items}
    judged = [judge.evaluate(layout) for layout in uniform(inventory)]
    best = max(one.throughput_rps for one in judged)
    try:
        found = plan(problem)
    except InfeasibleError:
        assert best == 0
        return
    assert found.throughput_rps >= best * (1 - 1e-9)
    assert found.certificate.bound_rps is not None
    assert found.certificate.bound_rps >= found.throughput_rps
    offer = offer_of(problem, judge)
    bounds = (
        relax(offer, RATE, layout_settings(problem)).value,
        best_layout(offer, RATE, layout_settings(problem)).bound,
    )
    assert max(best, found.throughput_rps) <= min(bounds) * (1 + 1e-6)


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(2, 16), min_size=2, max_size=6), st.sampled_from([1500, 2500, 5000]))
def test_no_layout_of_any_sizes_passes_the_bound(sizes: list[int], ttft_ms: float) -> None:
    problem = scenario({"H200": 32, "H20": 32}, "code", (ttft_ms, 60), width=2048)
    judge = evaluator_of(problem)
    layout = _fitting(sizes)
    bound = relax(offer_of(problem, judge), RATE, layout_settings(problem)).value
    assert judge.evaluate(layout).throughput_rps <= bound * (1 + 1e-6)


def _fitting(sizes: list[int]) -> Layout:
    """Islands of these sizes, by turns of either type, while there are GPUs."""
    left, islands = {"H200": 32, "H20": 32}, []
    for k, size in enumerate(sizes):
        gpu = ("H200", "H20")[k % 2]
        if size <= left[gpu]:
            left[gpu] -= size
            islands.append(IslandClass(gpu=gpu, size=size))
    return Layout.of(islands)


def test_no_pool_of_a_fixed_layout_is_dragged_down_by_a_range_it_could_leave() -> None:
    """Every way to close prefill classes to long prompts is tried by hand; none may be better than what is found."""
    problem = scenario({"H200": 48, "H20": 48}, "conv", (4000, 60))
    judge = evaluator_of(problem)
    layout = Layout.of(
        [IslandClass(gpu="H200", size=8)] * 3
        + [IslandClass(gpu="H200", size=24)]
        + [IslandClass(gpu="H20", size=16)] * 3
    )
    found = judge.evaluate(layout).throughput_rps
    by_hand = max(one.throughput_rps for one in _closed_by_hand(judge, layout))
    assert found >= by_hand * (1 - GAP)
    as_it_is = assign(judge.table(layout), layout, problem.assignment)
    dragged = goodput_of(as_it_is, judge.table(layout), problem.slo, judge.question.workload.mean_output_tokens)
    assert dragged.goodput_rps < found / 2


def _closed_by_hand(judge: Evaluator, layout: Layout) -> Iterator[Evaluation]:
    table, slo = judge.table(layout), judge.question.scenario.slo
    edges = [len(table.ranges) - k for k in range(0, len(table.ranges), 3)]
    for ends in product(edges, repeat=len(table.classes)):
        rows = tuple(
            replace(row, prefill=row.prefill.among([j < end for j in range(len(table.ranges))]))
            for row, end in zip(table.classes, ends, strict=True)
        )
        try:
            assignment = assign(replace(table, classes=rows), layout, judge.question.scenario.assignment)
        except InfeasibleError:
            continue
        if assignment.throughput_rps > 0:
            service = goodput_of(assignment, table, slo, judge.question.workload.mean_output_tokens)
            yield Evaluation(layout=layout, throughput_rps=service.goodput_rps, assignment=assignment)


def test_islands_in_roles_are_told_apart_in_the_plan(whole_nodes: Plan) -> None:
    """Equal islands at several configurations have names and degrees of their own."""
    prefill = [island for island in whole_nodes.islands if island.phase is Phase.PREFILL]
    assert len({(island.parallel.tp, island.longest_prompt) for island in prefill if island.parallel}) > 1
    assert len({island.id for island in whole_nodes.islands}) == len(whole_nodes.islands)
    assert sum(island.size for island in whole_nodes.islands) <= 48
    assert decode_plan(encode_plan(whole_nodes), Path("plan.json")) == whole_nodes
    assert whole_nodes.service is not None
    assert all(
        row.percentile_ms is None or row.bound_ms is None or row.percentile_ms <= row.bound_ms * (1 + 1e-6)
        for row in whole_nodes.service.ranges
    )


def test_a_plan_in_roles_is_placed_as_it_is(whole_nodes: Plan) -> None:
    cluster = synthesize(6, seed=0, load=0.0, types=(NodeType(gpu="H200", share=1.0),))
    placed = place(whole_nodes, replace(whole_nodes.scenario, cluster=cluster))
    assert placed.placement.unplaced_rps == pytest.approx(whole_nodes.throughput_rps, rel=1e-6)
    assert placed.throughput_rps >= 0.8 * whole_nodes.throughput_rps


def test_without_bounds_on_ttft_islands_have_one_configuration() -> None:
    problem = scenario({"H200": 32}, *CODE)
    island = IslandClass(gpu="H200", size=8)
    assert evaluator_of(problem).row(island).further
    loose = replace(problem, slo=replace(problem.slo, ttft_ms=None))
    assert evaluator_of(loose).row(island).further == ()
