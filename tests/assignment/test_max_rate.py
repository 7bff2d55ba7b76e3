"""The default formulation against enumeration, and what every answer must keep."""

from dataclasses import replace

import numpy as np
import pytest
from assignment_tables import expand, layout_of, random_problem, served, table_of
from enumerated_problem import best_rate
from hypothesis import given
from hypothesis import strategies as st

from planner.assignment import assign
from planner.domain import PHASES, Assignment, AssignmentSettings, Layout, PerformanceTable, Phase
from planner.errors import InfeasibleError

EXACT = AssignmentSettings(gap=0.0)


def check(table: PerformanceTable, layout: Layout, found: Assignment) -> None:
    """Times within each island's time, every range served at the reported rates, every island in one phase at most."""
    for duty in found.duties:
        assert duty.count > 0
        assert min(duty.time_shares) >= 0
        assert sum(duty.time_shares) <= 1 + 1e-9
    for island, count in layout.counts:
        assert sum(duty.count for duty in found.duties if duty.island == island) <= count
    for phase in PHASES:
        mix = [rate / span.probability for rate, span in zip(served(table, found, phase), table.ranges, strict=True)]
        assert min(mix) == pytest.approx(found.phase_rps(phase), rel=1e-9)
    assert found.throughput_rps == min(found.prefill_rps, found.decode_rps)


@pytest.mark.parametrize("seed", range(20))
def test_random_problems_match_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, layout = random_problem(rng, islands=int(rng.integers(2, 5)), ranges=int(rng.integers(2, 4)))
    found = assign(table, layout, EXACT)
    assert found.throughput_rps == pytest.approx(best_rate(table, layout), rel=1e-6)
    assert found.optimal
    assert found.objective_rps >= found.throughput_rps * (1 - 1e-9)
    check(table, layout, found)


@pytest.mark.parametrize("seed", range(14))
def test_islands_that_cannot_serve_everything_match_enumeration(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    table, layout = random_problem(rng, islands=4, ranges=3, zeros=0.4)
    best = best_rate(table, layout)
    servable = all(
        any(table.row(island).phase(phase).rates_rps[j] > 0 for island in expand(layout))
        for phase in PHASES
        for j in range(3)
    )
    if not servable:
        with pytest.raises(InfeasibleError):
            assign(table, layout, EXACT)
        return
    found = assign(table, layout, EXACT)
    assert found.throughput_rps == pytest.approx(best, rel=1e-6, abs=1e-9)
    check(table, layout, found)


@given(
    seed=st.integers(0, 10**6), islands=st.integers(2, 9), ranges=st.integers(1, 8), zeros=st.sampled_from([0.0, 0.2])
)
def test_any_answer_keeps_its_promises(seed: int, islands: int, ranges: int, zeros: float) -> None:
    table, layout = random_problem(np.random.default_rng(seed), islands=islands, ranges=ranges, zeros=zeros)
    try:
        found = assign(table, layout, AssignmentSettings())
    except InfeasibleError:
        assert zeros > 0  # where every island can do everything there is always an answer
        return
    check(table, layout, found)


@given(seed=st.integers(0, 10**6), islands=st.integers(2, 5), ranges=st.integers(1, 5))
def test_twice_the_islands_serve_at_least_twice_the_rate(seed: int, islands: int, ranges: int) -> None:
    table, layout = random_problem(np.random.default_rng(seed), islands=islands, ranges=ranges)
    doubled = Layout(counts=tuple((island, 2 * count) for island, count in layout.counts))
    once, twice = (assign(table, one, EXACT).throughput_rps for one in (layout, doubled))
    assert twice >= 2 * once * (1 - 1e-6)


@given(seed=st.integers(0, 10**6), factor=st.floats(0.1, 50))
def test_rates_scale(seed: int, factor: float) -> None:
    table, layout = random_problem(np.random.default_rng(seed), islands=4, ranges=3)
    rows = tuple(
        replace(
            row,
            prefill=replace(row.prefill, rates_rps=tuple(factor * r for r in row.prefill.rates_rps)),
            decode=replace(row.decode, rates_rps=tuple(factor * r for r in row.decode.rates_rps)),
        )
        for row in table.classes
    )
    scaled = assign(replace(table, classes=rows), layout, EXACT).throughput_rps
    assert scaled == pytest.approx(factor * assign(table, layout, EXACT).throughput_rps, rel=1e-5)


def test_by_hand_each_island_takes_what_it_is_best_at() -> None:
    """Two prefill islands, each ten times better at one range; two that can only decode, 8 requests/s each."""
    table = table_of([0.5, 0.5], [[10, 1], [1, 10], [0, 0]], [[0, 0], [0, 0], [8, 8]])
    found = assign(table, layout_of(table, [1, 1, 2]), EXACT)
    assert found.prefill_rps == pytest.approx(20)
    assert found.decode_rps == pytest.approx(16)
    assert found.throughput_rps == pytest.approx(16)
    shares = {duty.island.size: duty.time_shares for duty in found.duties}
    assert shares[1] == pytest.approx((1, 0))
    assert shares[2] == pytest.approx((0, 1))


def test_one_range_by_hand() -> None:
    """Three equal islands, prefill twice as fast as decode: one prefills, two decode."""
    table = table_of([1.0], [[12.0]], [[6.0]])
    found = assign(table, layout_of(table, [3]), EXACT)
    assert {(duty.phase, duty.count) for duty in found.duties} == {(Phase.PREFILL, 1), (Phase.DECODE, 2)}
    assert found.throughput_rps == pytest.approx(12)


def test_useless_islands_have_no_duty() -> None:
    table = table_of([0.3, 0.7], [[9, 9], [0, 0]], [[9, 9], [0, 0]])
    found = assign(table, layout_of(table, [2, 5]), EXACT)
    assert {duty.island.size for duty in found.duties} == {1}
    assert found.throughput_rps == pytest.approx(9)


@pytest.mark.parametrize("phase", PHASES)
def test_a_range_that_nobody_serves_is_named_with_its_phase(phase: Phase) -> None:
    rates = {Phase.PREFILL: [[5.0, 5.0], [5.0, 5.0]], Phase.DECODE: [[5.0, 5.0], [5.0, 5.0]]}
    rates[phase] = [[5.0, 0.0], [5.0, 0.0]]
    table = table_of([0.5, 0.5], rates[Phase.PREFILL], rates[Phase.DECODE])
    with pytest.raises(InfeasibleError) as caught:
        assign(table, layout_of(table, [1, 1]), EXACT)
    assert f"no island can {phase} prompts of 256-511 tokens" in caught.value.message
    assert caught.value.hint


def test_a_single_island_cannot_do_both_phases() -> None:
    table = table_of([1.0], [[5.0]], [[5.0]])
    assert assign(table, layout_of(table, [1]), EXACT).throughput_rps == 0
