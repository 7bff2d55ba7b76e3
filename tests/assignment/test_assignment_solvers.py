"""Solvers: both agree, a limit of time never makes an answer wrong, and constraints carry names."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pulp
import pytest
from assignment_tables import layout_of, random_problem, served, table_of

from planner.assignment import assign
from planner.assignment.deviation import maximise_throughput_less_deviation
from planner.assignment.inner_problem import maximise_rate
from planner.assignment.variables import open_problem
from planner.domain import PHASES, Assignment, AssignmentSettings, Formulation, Layout, PerformanceTable
from planner.errors import InfeasibleError, SolverError
from planner.milp import available_solver

EXACT = AssignmentSettings(gap=0.0)
NO_CBC = not pulp.getSolver("PULP_CBC_CMD", msg=False).available()
needs_cbc = pytest.mark.skipif(NO_CBC, reason="CBC does not run on this machine")


@needs_cbc
@pytest.mark.parametrize("formulation", Formulation)
@pytest.mark.parametrize("seed", range(4))
def test_cbc_agrees_with_highs(seed: int, formulation: Formulation) -> None:
    table, layout = random_problem(np.random.default_rng(seed), islands=6, ranges=4)
    highs, cbc = (
        assign(table, layout, replace(EXACT, formulation=formulation, solver=name)) for name in ("highs", "cbc")
    )
    assert (highs.solver, cbc.solver) == ("highs", "cbc")
    assert highs.objective_rps == pytest.approx(cbc.objective_rps, rel=1e-4)
    if formulation is Formulation.MAX_RATE:
        assert highs.throughput_rps == pytest.approx(cbc.throughput_rps, rel=1e-5)


@needs_cbc
def test_cbc_knows_the_infeasible_too() -> None:
    table = table_of([0.5, 0.5], [[10, 0], [0, 0.001], [0, 0]], [[0, 0], [0, 0], [5, 5]])
    settings = AssignmentSettings(formulation=Formulation.DEVIATION, tau=0.0, solver="cbc")
    with pytest.raises(InfeasibleError):
        assign(table, layout_of(table, [1, 1, 1]), settings)


@pytest.fixture(scope="module")
def large() -> tuple[PerformanceTable, Layout]:
    """40 islands in 20 classes over 16 ranges: more than is done in the time that is given."""
    rng, shape = np.random.default_rng(0), (20, 16)
    prefill, decode = (rng.uniform(1, 20, shape).tolist() for _ in PHASES)
    table = table_of(rng.dirichlet(np.full(16, 2.0)).tolist(), prefill, decode)
    return table, layout_of(table, [2] * 20)


def in_little_time(table: PerformanceTable, layout: Layout, settings: AssignmentSettings) -> Assignment | SolverError:
    """The answer, or the error that there is none yet."""
    try:
        return assign(table, layout, settings)
    except SolverError as error:
        return error


@pytest.mark.parametrize("solver", ["highs", pytest.param("cbc", marks=needs_cbc)])
@pytest.mark.parametrize("limit_s", [1e-6, 0.02])
@pytest.mark.parametrize("formulation", Formulation)
def test_too_little_time_gives_a_valid_answer_or_says_so(
    large: tuple[PerformanceTable, Layout], formulation: Formulation, limit_s: float, solver: str
) -> None:
    table, layout = large
    settings = AssignmentSettings(formulation=formulation, work_limit=limit_s, solver=solver, gap=0.0)
    found = in_little_time(table, layout, settings)
    if isinstance(found, SolverError):
        assert f"no solution within {limit_s:g} units of work" in found.message
        assert "assignment.work_limit" in found.hint
        return
    assert not found.optimal
    assert all(sum(duty.time_shares) <= 1 + 1e-9 for duty in found.duties)
    for phase in PHASES:
        rates = served(table, found, phase)
        mix = [rate / span.probability for rate, span in zip(rates, table.ranges, strict=True)]
        assert min(mix) == pytest.approx(found.phase_rps(phase))
    assert found.throughput_rps == min(found.prefill_rps, found.decode_rps)


def test_equal_problems_give_equal_answers() -> None:
    table, layout = random_problem(np.random.default_rng(3), islands=8, ranges=5)
    assert assign(table, layout, AssignmentSettings()) == assign(table, layout, AssignmentSettings())


@pytest.mark.parametrize(("runs", "used"), [("HiGHS", "highs"), ("PULP_CBC_CMD", "cbc")])
def test_the_other_solver_stands_in(monkeypatch: pytest.MonkeyPatch, runs: str, used: str) -> None:
    monkeypatch.setattr(pulp, "getSolver", lambda name, **_: SimpleNamespace(available=lambda: name == runs))
    assert available_solver("highs") == available_solver("cbc") == used


def test_no_solver_at_all_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulp, "getSolver", lambda *_, **__: SimpleNamespace(available=lambda: False))
    with pytest.raises(SolverError) as caught:
        available_solver("highs")
    assert "assignment.solver" in caught.value.message
    assert "highspy" in caught.value.hint


@pytest.mark.parametrize("formulation", Formulation)
def test_every_constraint_is_named_after_its_family(formulation: Formulation) -> None:
    table, layout = random_problem(np.random.default_rng(1), islands=5, ranges=3)
    problem = open_problem(table, layout)
    if formulation is Formulation.MAX_RATE:
        maximise_rate(problem)
        families = r"(serve|capacity)_(prefill|decode)_\d+"
        count = 2 * 3 + 2 * len(table.classes)
    else:
        maximise_throughput_less_deviation(problem, AssignmentSettings(formulation=formulation))
        families = r"(capacity|above|below|tau)_(prefill|decode)_\d+|least_(prefill|decode)|match_(above|below)_\d+"
        count = 2 * len(table.classes) + 2 + 2 * 3 * 3 + 2 * 3
    names = list(problem.model.constraints)
    assert len(names) == len(set(names)) == count
    assert all(re.fullmatch(families, name) for name in names)
