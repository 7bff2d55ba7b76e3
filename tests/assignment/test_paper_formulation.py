"""The paper's inner problem, family by family: what section 4.8.1 writes down is what the solver gets.

1, 2 capacity and one phase an island; 3 least throughput; 4, 5 deviation of decode and prefill; 6 match; 7 total.
"""

import re
from itertools import product

import numpy as np
import pulp
import pytest
from assignment_tables import expand, layout_of, random_problem, served, table_of
from scipy.optimize import linprog

from planner.assignment import assign
from planner.assignment.deviation import maximise_throughput_less_deviation
from planner.assignment.variables import Problem, open_problem
from planner.domain import PHASES, AssignmentSettings, Formulation, IslandClass, Layout, PerformanceTable, Phase
from planner.errors import InfeasibleError
from planner.milp import solve

EPSILON = 0.01
PAPER = AssignmentSettings(formulation=Formulation.DEVIATION, gap=0.0, tau=0.3, deviation_weight=40.0)
SHARES = (0.2, 0.3, 0.5)
PREFILL = ((4.0, 3.0, 2.0), (9.0, 6.0, 5.0))
DECODE = ((7.0, 5.0, 3.0), (12.0, 11.0, 8.0))
COUNTS = (2, 3)
RANGES = range(len(SHARES))
CLASSES = range(len(COUNTS))
RATES = {Phase.PREFILL: PREFILL, Phase.DECODE: DECODE}

Terms = dict[str, float]


def written() -> Problem:
    """The model of two classes (2 and 3 islands) over three ranges."""
    table = table_of(SHARES, PREFILL, DECODE)
    problem = open_problem(table, layout_of(table, COUNTS))
    maximise_throughput_less_deviation(problem, PAPER)
    return problem


def row(name: str) -> tuple[Terms, int, float]:
    """Coefficients by variable, sense (-1: <=, 0: =, 1: >=) and right-hand side of a constraint."""
    found = written().model.constraints[name]
    return terms(found), found.sense, -found.constant


def terms(expression: pulp.LpAffineExpression) -> Terms:
    """Coefficients that are not 0, by variable."""
    return {variable.name: number for variable, number in expression.items() if abs(number) > 1e-12}


def rate(phase: Phase, j: int, factor: float = 1.0) -> Terms:
    """factor R[phase, j]."""
    return {f"time_{c}_{phase}_{j}": factor * RATES[phase][c][j] for c in CLASSES}


def total(phase: Phase, factor: float = 1.0) -> Terms:
    """factor R[phase]."""
    return {name: number for j in RANGES for name, number in rate(phase, j, factor).items()}


def plus(*expressions: Terms) -> Terms:
    """Their sum."""
    names = {name for expression in expressions for name in expression}
    return {name: sum(expression.get(name, 0.0) for expression in expressions) for name in names}


def minus_slack(kind: str, j: int) -> Terms:
    """-delta[kind, j]."""
    return {f"deviation_{kind}_{j}": -1.0}


@pytest.mark.parametrize("c", CLASSES)
def test_1_each_island_gives_exactly_its_time(c: int) -> None:
    (own, sense, right), (other, sense_too, right_too) = (row(f"capacity_{phase}_{c}") for phase in PHASES)
    assert sense == sense_too == pulp.LpConstraintEQ
    assert plus(own, other) == {**{f"time_{c}_{phase}_{j}": 1.0 for phase in PHASES for j in RANGES}, **_split(c, 0.0)}
    assert right + right_too == COUNTS[c]


def _split(c: int, factor: float) -> Terms:
    return {f"prefill_islands_{c}": factor}


@pytest.mark.parametrize("c", CLASSES)
def test_2_an_island_has_one_phase(c: int) -> None:
    """x_prefill <= 1 - z and x_decode <= z, summed over the equal islands of a class: time only where islands are."""
    prefill, _, none = row(f"capacity_prefill_{c}")
    decode, _, every = row(f"capacity_decode_{c}")
    assert prefill == {**{f"time_{c}_prefill_{j}": 1.0 for j in RANGES}, **_split(c, -1.0)}
    assert decode == {**{f"time_{c}_decode_{j}": 1.0 for j in RANGES}, **_split(c, 1.0)}
    assert (none, every) == (0, COUNTS[c])
    islands = written().prefill_islands[c]
    assert (islands.cat, islands.lowBound, islands.upBound) == (pulp.LpInteger, 0, COUNTS[c])
    assert all(variable.lowBound == 0 for variable in written().time.values())


@pytest.mark.parametrize("phase", PHASES)
def test_3_no_phase_stands_still(phase: Phase) -> None:
    found, sense, right = row(f"least_{phase}")
    assert found == pytest.approx(total(phase))
    assert (sense, right) == (pulp.LpConstraintGE, EPSILON)


@pytest.mark.parametrize("j", RANGES)
def test_4_deviation_of_decode(j: int) -> None:
    _deviation(Phase.DECODE, j)


@pytest.mark.parametrize("j", RANGES)
def test_5_deviation_of_prefill(j: int) -> None:
    _deviation(Phase.PREFILL, j)


def _deviation(phase: Phase, j: int) -> None:
    above = plus(rate(phase, j), total(phase, -SHARES[j]), minus_slack(phase, j))
    below = plus(rate(phase, j, -1.0), total(phase, SHARES[j]), minus_slack(phase, j))
    strayed = plus({f"deviation_{phase}_{j}": 1.0}, total(phase, -PAPER.tau * SHARES[j]))
    for name, expected in (("above", above), ("below", below), ("tau", strayed)):
        found, sense, right = row(f"{name}_{phase}_{j}")
        assert found == pytest.approx(expected)
        assert (sense, right) == (pulp.LpConstraintLE, 0)


@pytest.mark.parametrize("j", RANGES)
def test_6_both_phases_match(j: int) -> None:
    above = plus(rate(Phase.DECODE, j), rate(Phase.PREFILL, j, -1.0), minus_slack("match", j))
    below = plus(rate(Phase.PREFILL, j), rate(Phase.DECODE, j, -1.0), minus_slack("match", j))
    for name, expected in (("above", above), ("below", below)):
        found, sense, right = row(f"match_{name}_{j}")
        assert found == pytest.approx(expected)
        assert (sense, right) == (pulp.LpConstraintLE, 0)


@pytest.mark.parametrize("seed", range(6))
def test_7_total_deviation_is_the_sum_of_all_slack(seed: int) -> None:
    table, layout = random_problem(np.random.default_rng(seed), islands=5, ranges=3)
    problem = open_problem(table, layout)
    maximise_throughput_less_deviation(problem, PAPER)
    slack = [v for v in problem.model.variables() if re.fullmatch(r"deviation_(prefill|decode|match)_\d+", v.name)]
    assert len(slack) == 3 * len(table.ranges)
    solve(problem.model, PAPER)
    assert assign(table, layout, PAPER).deviation_rps == pytest.approx(sum(v.varValue for v in slack), abs=1e-5)


def test_objective_is_both_throughputs_less_weighted_deviation() -> None:
    weights = {
        f"deviation_{kind}_{j}": -PAPER.deviation_weight / (1 + SHARES[j])
        for kind in ("prefill", "decode", "match")
        for j in RANGES
    }
    model = written().model
    assert model.sense == pulp.LpMaximize
    assert terms(model.objective) == pytest.approx(plus(total(Phase.PREFILL), total(Phase.DECODE), weights))


def test_nothing_else_constrains() -> None:
    families = r"(capacity|above|below|tau)_(prefill|decode)_\d|least_(prefill|decode)|match_(above|below)_\d"
    model = written().model
    assert all(re.fullmatch(families, name) for name in model.constraints)
    assert len(model.constraints) == 2 * len(COUNTS) + 2 + 2 * 3 * len(SHARES) + 2 * len(SHARES)


def best_without(dropped: str, table: PerformanceTable, layout: Layout, settings: AssignmentSettings) -> float:
    """Optimum of the model without the constraints whose names match `dropped`; inf where it has none."""
    problem = open_problem(table, layout)
    maximise_throughput_less_deviation(problem, settings)
    for name in [name for name in problem.model.constraints if re.fullmatch(dropped, name)]:
        del problem.model.constraints[name]
    try:
        solve(problem.model, settings)
    except InfeasibleError:  # said of unbounded programmes, too
        return float("inf")
    return float(pulp.value(problem.model.objective))


@pytest.mark.parametrize(
    "family",
    [
        "capacity_prefill_.*",
        "capacity_decode_.*",
        "least_.*",
        "(above|below)_decode_.*",
        "tau_decode_.*",
        "(above|below)_prefill_.*",
        "tau_prefill_.*",
        "match_.*",
    ],
)
def test_every_family_matters_somewhere(family: str) -> None:
    """Without it the optimum rises on one of these: unlike phases, cheap deviation, or dear deviation."""
    lopsided = table_of([0.5, 0.5], [[1.0, 1.0]], [[100.0, 100.0]])
    mixed, layout = random_problem(np.random.default_rng(2), islands=4, ranges=3)
    cases = [
        (lopsided, layout_of(lopsided, [2]), PAPER),
        *((mixed, layout, AssignmentSettings(gap=0.0, tau=0.2, deviation_weight=m)) for m in (0.05, 100.0)),
    ]
    gains = [best_without(family, *case) - best_without("", *case) for case in cases]
    assert min(gains) >= -1e-5
    assert max(gains) > 1e-2


def by_enumeration(table: PerformanceTable, layout: Layout, settings: AssignmentSettings) -> float | None:
    """Best objective over all 2^n choices of z, each with a linear programme; None where none is feasible.

    An island's time in its own phase sums to 1 over all ranges, those it serves at rate 0 too, as the paper has it.
    """
    islands = expand(layout)
    found = [_of_phases(table, islands, split, settings) for split in product(PHASES, repeat=len(islands))]
    return max((value for value in found if value is not None), default=None)


def _of_phases(
    table: PerformanceTable, islands: list[IslandClass], split: tuple[Phase, ...], settings: AssignmentSettings
) -> float | None:
    """Columns: x (island, range), then the deviations of prefill, decode and match (range)."""
    p = np.array([span.probability for span in table.ranges])
    n, m = len(islands), len(p)
    width = n * m + 3 * m
    rates = np.zeros((2, m, width))
    for i, (island, phase) in enumerate(zip(islands, split, strict=True)):
        for j, b in enumerate(table.row(island).phase(phase).rates_rps):
            rates[list(PHASES).index(phase), j, i * m + j] = b
    slack = np.eye(width)[n * m :].reshape(3, m, width)
    whole = rates.sum(axis=1)
    gaps = np.array([*(rates[k] - np.outer(p, whole[k]) for k in (0, 1)), rates[1] - rates[0]])
    upper = np.concatenate(
        [
            (gaps - slack).reshape(-1, width),
            (-gaps - slack).reshape(-1, width),
            *(slack[k] - settings.tau * np.outer(p, whole[k]) for k in (0, 1)),
            -whole,
        ]
    )
    right = np.concatenate([np.zeros(len(upper) - 2), [-EPSILON, -EPSILON]])
    time = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.zeros((n, 3 * m))], axis=1)
    weight = settings.deviation_weight / (1 + p)
    value = whole.sum(axis=0) - np.einsum("j,kjw->w", weight, slack)
    solved = linprog(-value, A_ub=upper, b_ub=right, A_eq=time, b_eq=np.ones(n), bounds=(0, None))
    return -float(solved.fun) if solved.status == 0 else None


def _objective(table: PerformanceTable, layout: Layout, settings: AssignmentSettings) -> float:
    """The objective of the answer, from its duties alone."""
    found = assign(table, layout, settings)
    rates = {phase: np.array(served(table, found, phase)) for phase in PHASES}
    p = np.array([span.probability for span in table.ranges])
    strayed = sum(abs(own - p * own.sum()) for own in rates.values()) + abs(rates[Phase.DECODE] - rates[Phase.PREFILL])
    weighted = settings.deviation_weight / (1 + p) * strayed
    return float(sum(own.sum() for own in rates.values()) - weighted.sum())


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize(("tau", "weight"), [(0.5, 100.0), (0.1, 0.1), (0.9, 1.0)])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_every_choice_of_phases(seed: int, tau: float, weight: float, zeros: float) -> None:
    rng = np.random.default_rng(900 + seed)
    table, layout = random_problem(rng, islands=int(rng.integers(2, 5)), ranges=int(rng.integers(2, 4)), zeros=zeros)
    settings = AssignmentSettings(formulation=Formulation.DEVIATION, gap=0.0, tau=tau, deviation_weight=weight)
    expected = by_enumeration(table, layout, settings)
    if expected is None:
        with pytest.raises(InfeasibleError):
            assign(table, layout, settings)
        return
    assert _objective(table, layout, settings) == pytest.approx(expected, rel=1e-5, abs=1e-4)
