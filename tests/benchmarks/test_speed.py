"""Speed as ratios within one run: they hold on any machine. `make bench` prints them; nothing is written."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

import numpy as np
import pytest

from planner.assignment import assign
from planner.assignment.max_rate import maximise_rate
from planner.assignment.solver import solve
from planner.assignment.variables import open_problem
from planner.cost import decode_time, prefill_time, tabulate
from planner.cost.parallelism import configurations
from planner.cost.rates import QUADRATURE_POINTS
from planner.cost.rules import DEFAULT
from planner.domain import Evaluation, GpuSpec, Layout, Phase, Scenario, SearchMethod, SearchSettings, Workload
from planner.evaluation import Evaluator
from planner.files import load_scenario, shipped_scenarios
from planner.search import optimize, space_of
from planner.workload import divide, summarize

pytestmark = pytest.mark.bench

LEAST_ISLAND = 2
EVERY = 16  # scalar calls are timed on every 16th class


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(shipped_scenarios()["azure-code-512usd"], summarize)


@pytest.fixture(scope="module")
def workload(scenario: Scenario) -> Workload:
    return divide(scenario.workload, scenario.ranges.width)


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Least wall time of some calls: what the code needs when nobody disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def show(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


def classes(scenario: Scenario) -> list[tuple[GpuSpec, int]]:
    """Every island class of the inventory."""
    return [(item.gpu, size) for item in scenario.inventory.items for size in range(LEAST_ISLAND, item.count + 1)]


def one_call_a_length(gpu: GpuSpec, size: int, scenario: Scenario, workload: Workload) -> None:
    """The table's row by scalar calls: every configuration, length and quadrature point by itself."""
    model, answer = scenario.model, workload.mean_output_tokens
    for degrees in configurations(gpu, model, DEFAULT, Phase.PREFILL, size):
        for span in workload.ranges:
            prefill_time(gpu, span.midpoint, tp=degrees.tp, dp=degrees.dp, model=model)
    for degrees in configurations(gpu, model, DEFAULT, Phase.DECODE, size):
        for span in workload.ranges:
            for k in range(QUADRATURE_POINTS):
                cached = span.midpoint + (k + 0.5) * answer / QUADRATURE_POINTS
                decode_time(gpu, cached, tp=degrees.tp, batch_size=64, devices=degrees.devices, model=model)


def test_performance_table_against_scalar_calls(scenario: Scenario, workload: Workload) -> None:
    every = classes(scenario)
    assert len(every) == 253

    def whole_table() -> None:
        for gpu, size in every:
            tabulate(gpu, size, model=scenario.model, workload=workload, settings=scenario.cost)

    sample = every[::EVERY]
    vectorised = seconds(whole_table) / len(every)

    def scalar_sample() -> None:
        for gpu, size in sample:
            one_call_a_length(gpu, size, scenario, workload)

    scalar = seconds(scalar_sample, repeats=1) / len(sample)
    show(f"performance table of {len(every)} classes: scalar calls / vectorised = {scalar / vectorised:.0f}")
    assert scalar / vectorised > 1


def layouts_of(scenario: Scenario, count: int) -> Iterator[Layout]:
    """Random layouts of the inventory."""
    space, rng = space_of(scenario.inventory, scenario.search), np.random.default_rng(0)
    return (space.layout(space.sample(rng)) for _ in range(count))


def solver_alone(scenario: Scenario, evaluator: Evaluator, layout: Layout) -> Callable[[], object]:
    """A call that has HiGHS solve the layout's model again from nothing."""
    problem = open_problem(evaluator.table(layout), layout)
    maximise_rate(problem)
    solve(problem.model, scenario.assignment)
    highs = problem.model.solverModel

    def again() -> None:
        highs.clearSolver()
        highs.run()

    return again


def test_inner_problem_against_its_solver_alone(scenario: Scenario, workload: Workload) -> None:
    evaluator, ratios = Evaluator(scenario, workload), []
    for layout in layouts_of(scenario, 16):
        if evaluator.evaluate(layout).throughput_rps > 0:
            table = evaluator.table(layout)
            whole = seconds(partial(assign, table, layout, scenario.assignment))
            ratios.append(whole / seconds(solver_alone(scenario, evaluator, layout)))
    show(f"inner problem of {len(ratios)} layouts: the whole / HiGHS alone = {median(ratios):.2f} (median)")
    assert median(ratios) > 1


def test_candidate_generation_against_evaluation(scenario: Scenario, workload: Workload) -> None:
    evaluator, spent = Evaluator(scenario, workload), [0.0]

    def evaluate(layouts: Sequence[Layout], /) -> list[Evaluation]:
        start = time.perf_counter()
        found = evaluator(layouts)
        spent[0] += time.perf_counter() - start
        return found

    def run(iterations: int) -> tuple[float, float]:
        """(candidate generation, evaluation) in seconds."""
        settings = SearchSettings(method=SearchMethod.DIVIDER, iterations=iterations, batch_size=16)
        spent[0], start = 0.0, time.perf_counter()
        optimize(scenario.inventory, settings, evaluate)
        return time.perf_counter() - start - spent[0], spent[0]

    run(1)  # imports, and the performance table
    generation, evaluation = run(4)
    show(f"a round of 16 layouts: candidate generation / evaluation = {generation / 3 / (evaluation / 4):.1f}")
    assert generation > 0
    assert evaluation > 0
