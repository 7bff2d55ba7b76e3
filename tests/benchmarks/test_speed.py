"""Speed as ratios within one run: they hold on any machine. `make bench` prints them; nothing is written."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

import numpy as np
import pytest
from test_cost_speed import GPUS, SIZES
from test_cost_speed import workload as table_workload

from planner.assignment import Offer, assign, best_layout, relax
from planner.assignment.inner_problem import maximise_rate
from planner.assignment.variables import open_problem
from planner.cost import tabulate_sizes
from planner.domain import (
    AssignmentSettings,
    CostSettings,
    Evaluation,
    InventoryItem,
    Layout,
    ObjectiveSettings,
    PerformanceTable,
    Question,
    Scenario,
    SearchMethod,
    SearchSettings,
    Workload,
)
from planner.evaluation.evaluator import Evaluator
from planner.files import load_gpu_spec, load_model, load_scenario, shipped_scenarios
from planner.milp import solve
from planner.proposing.search import optimize, space_of
from planner.workload import divide, summarize

pytestmark = pytest.mark.bench


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


@pytest.mark.long
def test_inner_problem_against_its_solver_alone(scenario: Scenario, workload: Workload) -> None:
    evaluator, ratios = Evaluator(Question(scenario=scenario, workload=workload)), []
    for layout in layouts_of(scenario, 16):
        if evaluator.evaluate(layout).throughput_rps > 0:
            table = evaluator.table(layout)
            whole = seconds(partial(assign, table, layout, scenario.assignment))
            ratios.append(whole / seconds(solver_alone(scenario, evaluator, layout)))
    show(f"inner problem of {len(ratios)} layouts: the whole / HiGHS alone = {median(ratios):.2f} (median)")
    assert median(ratios) > 1


@pytest.mark.long
def test_candidate_generation_against_evaluation(scenario: Scenario, workload: Workload) -> None:
    evaluator, spent = Evaluator(Question(scenario=scenario, workload=workload)), [0.0]

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


def fleet(times: int) -> Offer:
    """Four GPU types of 128 each, every island size from 2, 32 ranges; `times` as many GPUs."""
    gpus, model = [load_gpu_spec(name) for name in GPUS], load_model("deepseek-v3")
    rows = [
        row
        for gpu in gpus
        for row in tabulate_sizes(gpu, SIZES, model=model, workload=table_workload(), settings=CostSettings())
    ]
    items = [InventoryItem(gpu=gpu, count=128 * times, price_usd_per_gpu_hour=1) for gpu in gpus]
    return Offer.of(items, rows, [span.probability for span in table_workload().ranges])


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def test_exact_layout_against_its_bound() -> None:
    settings = AssignmentSettings(gap=0.005, work_limit=60)
    one, hundred = fleet(1), fleet(100)
    bound = min(cpu_seconds(lambda: relax(one, ObjectiveSettings(), settings)) for _ in range(5))
    whole = cpu_seconds(lambda: best_layout(one, ObjectiveSettings(), settings))
    large = cpu_seconds(lambda: best_layout(hundred, ObjectiveSettings(), settings))
    show(
        f"layout of 4 types, sizes 2-128, 32 ranges: optimum to 0.5 % / bound = {whole / bound:.0f}, "
        f"a hundred times the GPUs / as they are = {large / whole:.2f} "
        f"(bound {bound:.3f}, optimum {whole:.2f} CPU-seconds)"
    )
    assert large <= 2 * whole


@pytest.mark.long
def test_inner_problem_of_64_islands() -> None:
    model, rng, spent = load_model("deepseek-v3"), np.random.default_rng(0), []
    rows = {
        row.island: row
        for name in GPUS
        for row in tabulate_sizes(
            load_gpu_spec(name),
            [16, 20, 24, 32, 40, 48, 64],
            model=model,
            workload=table_workload(),
            settings=CostSettings(),
        )
    }
    for _ in range(12):
        islands = [list(rows)[k] for k in rng.choice(len(rows), 8, replace=False)]
        layout = Layout.of(island for island in islands for _ in range(8))
        table = PerformanceTable(ranges=table_workload().ranges, classes=tuple(rows[island] for island in islands))
        spent.append(cpu_seconds(partial(assign, table, layout, AssignmentSettings())))
    bound = min(cpu_seconds(lambda: relax(fleet(1), ObjectiveSettings(), AssignmentSettings())) for _ in range(2))
    show(
        f"inner problem of 64 islands in 8 classes, 32 ranges: median {median(spent) * 1000:.0f} ms CPU, "
        f"{median(spent) / bound:.1f} times the relaxation with its table"
    )
    assert median(spent) > 0
