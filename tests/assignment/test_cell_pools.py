"""Cells of a router's grid to pools of islands, against enumeration."""

import math
import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.assignment import busy_times, pool_cells
from planner.assignment.cells.pools import least_busy, programmed_cells


def _partitions(items: list[int]) -> list[list[list[int]]]:
    if not items:
        return [[]]
    first, rest = items[0], items[1:]
    found = []
    for parts in _partitions(rest):
        found.append([[first], *parts])
        found += [[[first, *parts[k]], *parts[:k], *parts[k + 1 :]] for k in range(len(parts))]
    return found


def _busiest(times: list[list[float]], pools: list[list[int]], cells: tuple[int, ...]) -> float:
    """By hand: a pool of several islands serves one request of its mix in 1 / sum(1 / T)."""
    worst = 0.0
    for p, pool in enumerate(pools):
        whole = [sum(times[i][c] for c, q in enumerate(cells) if q == p) for i in pool]
        if any(math.isinf(t) for t in whole):
            return math.inf
        worst = max(worst, 1 / sum(1 / t for t in whole) if all(whole) else 0.0)
    return worst


def _best(times: list[list[float]]) -> float:
    n, k = len(times), len(times[0])
    return min(
        _busiest(times, pools, cells)
        for pools in _partitions(list(range(n)))
        for cells in product(range(len(pools)), repeat=k)
    )


TIMES = st.lists(st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4), min_size=2, max_size=3)


@settings(max_examples=20, deadline=None)
@given(TIMES)
def test_close_to_the_best_of_all_pools_and_cells(times: list[list[float]]) -> None:
    found = pool_cells(times)
    assert found.busy_s == pytest.approx(_busiest(times, [list(p) for p in found.pools], found.cells))
    assert found.busy_s == pytest.approx(max(busy_times(times, found.pools, found.cells)))
    assert sorted(i for pool in found.pools for i in pool) == list(range(len(times)))
    assert set(found.cells) == set(range(len(found.pools)))
    # islands alike in speed are pooled by their distance, not by every partition: near the best, not at it
    assert _best(times) * (1 - 1e-9) <= found.busy_s


def test_islands_that_differ_by_a_factor_lose_nothing_together() -> None:
    times = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    found = pool_cells(times)
    assert found.pools == ((0, 1),)
    assert found.busy_s == pytest.approx(1 / (1 / 6 + 1 / 12))


def test_specialists_keep_to_their_cells() -> None:
    times = [[1.0, 1.0, 9.0, 9.0], [9.0, 9.0, 1.0, 1.0]]
    found = pool_cells(times)
    assert found.pools == ((0,), (1,))
    assert found.cells == (0, 0, 1, 1)


def test_cells_that_only_some_islands_take() -> None:
    times = [[1.0, 1.0, math.inf], [1.0, 1.0, 1.0]]
    found = pool_cells(times)
    assert found is not None
    assert found.cells[2] == next(p for p, pool in enumerate(found.pools) if pool == (1,))
    assert pool_cells([[1.0, math.inf], [1.0, math.inf]]) is None


def test_the_same_times_give_the_same_answer() -> None:
    times = [[float(1 + (7 * i + 3 * c) % 11) for c in range(16)] for i in range(5)]
    assert pool_cells(times) == pool_cells(times)


def test_near_the_best_on_average() -> None:
    """Unrelated random speeds, the hardest there are."""
    chance = random.Random(1)
    gaps = []
    for _ in range(40):
        times = [[chance.uniform(0.1, 10) for _ in range(5)] for _ in range(chance.choice([2, 3]))]
        found = pool_cells(times)
        assert found is not None
        gaps.append(found.busy_s / _best(times) - 1)
    assert sum(gaps) / len(gaps) < 0.03


def test_kinds_keep_pools_of_their_own_within_a_cell_of_the_bound() -> None:
    """Three kinds of two islands each: no pool is busier than the bound by more than the cell that it cannot share."""
    shapes = ([1.0] * 24, [1 + c / 12 for c in range(24)], [2 - c / 24 for c in range(24)])
    times = [[scale * t for t in shape] for shape in shapes for scale in (0.4, 1.0)]
    bound, found = least_busy(times, 1.0), pool_cells(times)
    assert found.pools == ((0, 1), (2, 3), (4, 5))
    assert bound <= found.busy_s <= bound + max(1 / (1 / (0.4 * t) + 1 / t) for t in (1.0, 2.0))


@given(TIMES)
def test_no_pools_and_cells_beat_the_bound(times: list[list[float]]) -> None:
    assert least_busy(times, 1.0) <= _best(times) * (1 + 1e-6)


def test_the_programme_finds_the_best_cells_of_given_pools() -> None:
    chance = random.Random(2)
    for _ in range(15):
        alone = [[chance.uniform(0.1, 5) for _ in range(6)] for _ in range(3)]
        cells = programmed_cells(alone, 1.0)
        assert cells is not None
        best = min(max(_sums(alone, c)) for c in product(range(3), repeat=6))
        assert max(_sums(alone, cells)) <= best * 1.003


def _sums(alone: list[list[float]], cells: tuple[int, ...]) -> list[float]:
    return [sum(row[c] for c, q in enumerate(cells) if q == p) for p, row in enumerate(alone)]
