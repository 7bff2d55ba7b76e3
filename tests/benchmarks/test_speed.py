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
from planner.domain import Evaluation, Layout, Scenario, SearchMethod, SearchSettings, Workload
from planner.evaluation import Evaluator
from planner.files import load_scenario, shipped_scenarios
from planner.search import optimize, space_of
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
