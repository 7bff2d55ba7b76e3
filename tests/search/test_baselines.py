"""Baselines: the sequence, the grid and the selection against their definitions; evolution against chance."""

from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import qmc
from search_cases import OF_COUNTS, Bowl, inventory, search

from planner.domain import Encoding, Goal, Layout, SearchMethod, Trial
from planner.proposing.search import optimize, space_of
from planner.proposing.search.baselines import GeneticProposer, GridProposer, SobolProposer, by_fronts, grid_levels
from planner.proposing.search.space import Parameter

COUNTS = {"H200": 64, "GB200-NVL72": 72}
WISHES = {"H200": (5, 0.4), "GB200-NVL72": (3, 0.8)}
RNG = np.random.default_rng(0)


def axes(*ranges: tuple[float, bool]) -> list[Parameter]:
    """Axes from 0 to a height, whole or not."""
    return [Parameter(name=f"a{k}", gpu="g", low=0.0, high=top, whole=whole) for k, (top, whole) in enumerate(ranges)]


def test_sobol_rounds_are_parts_of_one_sequence() -> None:
    space = space_of(inventory(COUNTS), search(SearchMethod.SOBOL))
    proposer = SobolProposer(space, 7, 16)
    points = [point for k in range(4) for point in proposer.propose(16, k, RNG)]
    whole = qmc.Sobol(4, rng=np.random.default_rng(7)).random_base2(6)
    assert points == [space.at(row.tolist()) for row in whole]
    assert proposer.propose(5, 2, RNG) == points[32:37]


def test_sobol_covers_the_box_better_than_chance() -> None:
    """Every quarter of every axis, crossed with every quarter of the next, is met by 64 points (a net in base 2)."""
    space = space_of(inventory(COUNTS), search(SearchMethod.SOBOL))
    points = [point for k in range(4) for point in SobolProposer(space, 0, 16).propose(16, k, RNG)]
    box = space.parameters
    unit = np.array([[(point[a.name] - a.low) / (a.high - a.low) for a in box] for point in points])
    chance = np.random.default_rng(0).random(unit.shape)
    assert qmc.discrepancy(unit) < qmc.discrepancy(chance) / 2
    assert all(len({int(4 * u) for u in column}) == 4 for column in unit.T)


@pytest.mark.parametrize(
    ("ranges", "budget", "levels"),
    [
        ([(64, True), (10, False)], 12, (12, 1)),
        ([(64, True), (10, False)], 240, (40, 6)),
        ([(3, True), (3, False)], 1000, (4, 250)),
        ([(1, True), (1, True)], 1000, (2, 2)),
        ([(8, True), (8, True), (8, True)], 8, (2, 2, 2)),
        ([(8, True), (8, True)], 1, (1, 1)),
    ],
)
def test_levels_by_hand(ranges: list[tuple[float, bool]], budget: int, levels: tuple[int, ...]) -> None:
    assert grid_levels(axes(*ranges), budget) == levels


@given(st.lists(st.tuples(st.integers(1, 99), st.booleans()), min_size=1, max_size=6), st.integers(1, 500))
def test_no_finer_grid_is_within_the_budget(ranges: list[tuple[int, bool]], budget: int) -> None:
    box = axes(*ranges)
    levels = grid_levels(box, budget)
    points = int(np.prod(levels))
    assert points <= budget
    for axis, n in zip(box, levels, strict=True):
        assert points // n * (n + 1) > budget or (axis.whole and n == axis.high + 1)


@pytest.mark.parametrize("encoding", OF_COUNTS)
def test_the_grid_is_used_up_once(encoding: Encoding) -> None:
    space = space_of(inventory(COUNTS), search(SearchMethod.GRID, encoding=encoding, slots=3))
    proposer = GridProposer(space, 0, 5, 16)
    points = [tuple(point.values()) for k in range(5) for point in proposer.propose(16, k, RNG)]
    assert len(set(points)) == len(points) == np.prod(proposer.levels)
    assert 40 <= len(points) <= 80
    assert proposer.propose(16, 5, RNG) == []
    other = GridProposer(space, 1, 5, 16)
    assert {tuple(p.values()) for k in range(5) for p in other.propose(16, k, RNG)} == set(points)
    assert [tuple(p.values()) for p in other.propose(16, 0, RNG)] != points[:16]


@pytest.mark.parametrize("encoding", OF_COUNTS)
def test_evolution_beats_chance_on_average(encoding: Encoding) -> None:
    def reached(method: SearchMethod) -> float:
        settings = [search(method, encoding=encoding, iterations=8, batch_size=8, slots=8, seed=k) for k in range(5)]
        results = [optimize(inventory(COUNTS), one, Bowl(WISHES)) for one in settings]
        return mean(max(trial.throughput_rps for trial in result.record.trials) for result in results)

    assert reached(SearchMethod.GENETIC) > reached(SearchMethod.RANDOM) + 5


def ranks(values: list[tuple[int, int]]) -> dict[int, int]:
    """Fronts by definition: peel off what nothing left beats."""
    left, found, rank = set(range(len(values))), {}, 0
    while left:
        front = {
            k
            for k in left
            if not any(
                all(a >= b for a, b in zip(values[o], values[k], strict=True)) and values[o] != values[k] for o in left
            )
        }
        found.update(dict.fromkeys(front, rank))
        left, rank = left - front, rank + 1
    return found


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=24), st.integers(1, 12))
def test_the_fittest_are_of_the_first_fronts(values: list[tuple[int, int]], most: int) -> None:
    chosen = by_fronts(np.array(values, dtype=float), most)
    rank = ranks(values)
    assert len(chosen) == len(set(chosen)) == min(most, len(values))
    assert [rank[k] for k in chosen] == sorted(rank[k] for k in chosen)
    assert max(rank[k] for k in chosen) <= min((rank[k] for k in set(rank) - set(chosen)), default=99)


def test_of_a_front_the_ends_and_the_lonely_come_first() -> None:
    front = np.array([[0.0, 10.0], [1.0, 9.0], [1.5, 8.5], [2.0, 8.0], [9.0, 1.0], [10.0, 0.0]])
    assert set(by_fronts(front, 2)) == {0, 5}
    assert set(by_fronts(front, 3)) == {0, 5, 4}


def told(rate: float, *, failed: bool = False, goals: tuple[tuple[str, float], ...] = ()) -> Trial:
    return Trial(
        index=0,
        iteration=0,
        parameters=(("islands_H20", rate), ("skew_H20", 0.0)),
        layout=Layout(counts=()),
        throughput_rps=rate,
        generator="test",
        failed=failed,
        goals=goals,
    )


def test_failed_trials_and_layouts_without_a_point_are_no_parents() -> None:
    proposer = GeneticProposer(space_of(inventory({"H20": 64}), search()), ())
    proposer.tell([told(0.0, failed=True), told(3.0)])
    assert [trial.throughput_rps for trial in proposer.told] == [3.0]
    assert not proposer.ready
    proposer.tell([told(5.0)])
    assert proposer.ready


def test_layouts_that_serve_nothing_are_beaten_in_every_goal() -> None:
    """A price of 0 is the best there is, but not of a fleet that serves nothing."""
    proposer = GeneticProposer(space_of(inventory({"H20": 64}), search()), (Goal.RATE, Goal.PRICE))
    nothing = told(0.0, goals=(("rate", 0.0), ("price", 0.0)))
    proposer.tell([nothing, told(5.0, goals=(("rate", 5.0), ("price", 60.0))), nothing, nothing])
    assert proposer._fittest()[0] == 1
