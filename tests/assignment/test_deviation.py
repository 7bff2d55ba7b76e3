"""The paper's formulation, aggregated over equal islands, against one binary an island."""

from dataclasses import replace

import numpy as np
import pytest
from assignment_tables import layout_of, random_problem, served, table_of
from enumerated_problem import DeviationProblem

from planner.assignment import assign
from planner.domain import PHASES, Assignment, AssignmentSettings, Formulation, PerformanceTable, Phase
from planner.errors import InfeasibleError

PAPER = AssignmentSettings(formulation=Formulation.DEVIATION, gap=0.0)


def objective(table: PerformanceTable, found: Assignment, settings: AssignmentSettings) -> float:
    """R_prefill + R_decode - sum over ranges of M / (1 + p) times the three deviations, from the duties."""
    prefill, decode = (served(table, found, phase) for phase in PHASES)
    value = sum(prefill) + sum(decode)
    for span, own, other in zip(table.ranges, prefill, decode, strict=True):
        p = span.probability
        deviation = abs(own - p * sum(prefill)) + abs(other - p * sum(decode)) + abs(other - own)
        value -= settings.deviation_weight / (1 + p) * deviation
    return value


@pytest.mark.parametrize("weight", [0.3, 100.0])
@pytest.mark.parametrize("seed", range(8))
def test_same_objective_as_with_a_binary_an_island(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    table, layout = random_problem(rng, islands=int(rng.integers(2, 6)), ranges=int(rng.integers(2, 4)))
    settings = AssignmentSettings(formulation=Formulation.DEVIATION, gap=0.0, deviation_weight=weight)
    expected = DeviationProblem(table, layout, settings).best_objective()
    if expected is None:
        with pytest.raises(InfeasibleError):
            assign(table, layout, settings)
        return
    found = assign(table, layout, settings)
    assert objective(table, found, settings) == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_same_objective_where_islands_cannot_serve_every_range(seed: int) -> None:
    rng = np.random.default_rng(500 + seed)
    table, layout = random_problem(rng, islands=5, ranges=3, zeros=0.25)
    expected = DeviationProblem(table, layout, PAPER).best_objective()
    if expected is None:
        with pytest.raises(InfeasibleError):
            assign(table, layout, PAPER)
        return
    found = assign(table, layout, PAPER)
    assert objective(table, found, PAPER) == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_reported_figures_follow_from_the_duties(seed: int) -> None:
    table, layout = random_problem(np.random.default_rng(seed), islands=6, ranges=3)
    found = assign(table, layout, PAPER)
    prefill, decode = (served(table, found, phase) for phase in PHASES)
    spread = sum(
        abs(a - r.probability * sum(prefill)) + abs(b - r.probability * sum(decode)) + abs(a - b)
        for r, a, b in zip(table.ranges, prefill, decode, strict=True)
    )
    assert found.objective_rps == pytest.approx(min(sum(prefill), sum(decode)))
    assert found.deviation_rps == pytest.approx(spread, abs=1e-6)
    mix = [min(r / s.probability for r, s in zip(rates, table.ranges, strict=True)) for rates in (prefill, decode)]
    assert (found.prefill_rps, found.decode_rps) == pytest.approx(mix)
    assert found.throughput_rps == pytest.approx(min(mix))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tau", [0.05, 0.5])
def test_no_range_strays_further_than_tau(seed: int, tau: float) -> None:
    settings = AssignmentSettings(formulation=Formulation.DEVIATION, tau=tau, deviation_weight=0.01)
    table, layout = random_problem(np.random.default_rng(seed), islands=4, ranges=3)
    found = assign(table, layout, settings)
    for phase in PHASES:
        rates = served(table, found, phase)
        for span, rate in zip(table.ranges, rates, strict=True):
            target = span.probability * sum(rates)
            assert abs(rate - target) <= tau * target + 1e-6


def test_a_heavy_weight_approaches_the_mix_and_a_light_one_the_raw_throughput() -> None:
    """One phase pair by hand: a range that is served five times faster draws the load once deviation is cheap."""
    table = table_of([0.5, 0.5], [[50.0, 10.0]], [[50.0, 10.0]])
    layout = layout_of(table, [2])
    loose = AssignmentSettings(formulation=Formulation.DEVIATION, tau=0.9, gap=0.0)
    light, heavy = (assign(table, layout, replace(loose, deviation_weight=weight)) for weight in (0.001, 1000.0))
    assert heavy.deviation_rps == pytest.approx(0, abs=1e-6)
    assert heavy.throughput_rps == pytest.approx(heavy.objective_rps) == pytest.approx(2 / (1 / 50 + 1 / 10))
    assert light.objective_rps > heavy.objective_rps
    assert light.throughput_rps < heavy.throughput_rps


def test_an_island_may_sit_idle_but_not_half_idle() -> None:
    """As in the paper: one decoder that serves every range must run at full rate, though prefill cannot keep up."""
    table = table_of([0.5, 0.5], [[10, 0], [0, 1], [0, 0]], [[0, 0], [0, 0], [5, 5]])
    settings = AssignmentSettings(formulation=Formulation.DEVIATION, tau=0.0, gap=0.0)
    found = assign(table, layout_of(table, [1, 1, 1]), settings)
    assert served(table, found, Phase.PREFILL) == pytest.approx([1, 1])
    assert served(table, found, Phase.DECODE) == pytest.approx([2.5, 2.5])
    spare = assign(table, layout_of(table, [1, 1, 2]), settings)
    assert sum(served(table, spare, Phase.DECODE)) == pytest.approx(5)  # the second one would only deviate further


def test_unreachable_mix_is_infeasible_not_a_bad_plan() -> None:
    """The only prefill island serves one range of two, so that any rate strays beyond tau."""
    table = table_of([0.5, 0.5], [[10, 0], [0, 0.001], [0, 0]], [[0, 0], [0, 0], [5, 5]])
    settings = AssignmentSettings(formulation=Formulation.DEVIATION, tau=0.0)
    layout = layout_of(table, [1, 1, 1])
    assert DeviationProblem(table, layout, settings).best_objective() is None  # 0.002 requests/s, below the least rate
    with pytest.raises(InfeasibleError) as caught:
        assign(table, layout, settings)
    assert "assignment.tau" in caught.value.hint


@pytest.mark.parametrize(("idle", "decoded"), [(True, [5, 4]), (False, [10, 4])])
def test_who_serves_one_range_alone_may_stand_still_or_must_not(idle: bool, decoded: list[float]) -> None:
    """By hand: of two decoders, each for one range, the faster one waits for prefill (5 + 5), or works for nothing."""
    table = table_of([0.5, 0.5], [[10, 10], [0, 0], [0, 0]], [[0, 0], [10, 0], [0, 4]])
    found = assign(table, layout_of(table, [1, 1, 1]), replace(PAPER, tau=0.5, idle=idle))
    assert served(table, found, Phase.DECODE) == pytest.approx(decoded)
