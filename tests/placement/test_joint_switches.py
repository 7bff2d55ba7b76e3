"""Several jobs over the same switches: every small instance against its optimum by enumeration."""

import random
from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement, permutations
from math import inf, log
from time import process_time

import pulp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_switches import spreads

from planner.errors import SolverError
from planner.placement.islands.joint_switches import allocate_jointly
from planner.placement.islands.switches import entropy

Instance = tuple[tuple[int, ...], tuple[int, ...]]


@cache
def small_instances() -> tuple[Instance, ...]:
    """2-3 switches of 2-7 GPUs, 2-3 jobs of 1-6 GPUs, none twice, all that fit: (jobs, capacities)."""
    return tuple(
        (tuple(reversed(jobs)), capacities)
        for switches in (2, 3)
        for capacities in combinations_with_replacement(range(2, 8), switches)
        for count in (2, 3)
        for jobs in combinations_with_replacement(range(1, 7), count)
        if sum(jobs) <= sum(capacities)
    )


every_spread = cache(lambda job, capacities: tuple(spreads(job, capacities)))


@cache
def least_sum(jobs: tuple[int, ...], capacities: tuple[int, ...]) -> float:
    """The optimum by enumeration."""
    if not jobs:
        return 0.0
    return min(
        (
            entropy(taken)
            + least_sum(jobs[1:], tuple(sorted(have - used for have, used in zip(capacities, taken, strict=True))))
            for taken in every_spread(jobs[0], capacities)
        ),
        default=inf,
    )


def total(found: Sequence[tuple[int, ...] | None]) -> float:
    return sum(entropy(parts) for parts in found if parts)


def require_valid(jobs: Sequence[int], capacities: Sequence[int], found: Sequence[tuple[int, ...] | None]) -> None:
    assert len(found) == len(jobs)
    for job, parts in zip(jobs, found, strict=True):
        assert parts is None or (sum(parts) == job and min(parts, default=0) >= 0)
    for s, capacity in enumerate(capacities):
        assert sum(parts[s] for parts in found if parts) <= capacity


def test_the_counter_example() -> None:
    greedy = allocate_jointly((4, 3), (2, 2, 3), trials=0, exact_cells=0)
    assert greedy == ((1, 0, 3), (1, 2, 0))
    assert total(greedy) == pytest.approx(1.1988, abs=5e-5)
    for found in (allocate_jointly((4, 3), (2, 2, 3), exact_cells=0), allocate_jointly((4, 3), (2, 2, 3), trials=0)):
        assert found == ((2, 2, 0), (0, 0, 3))
        assert total(found) == pytest.approx(log(2))


def test_largest_first_misses_102_of_4325_and_improvement_mends_99() -> None:
    missed = mended = 0
    for jobs, capacities in small_instances():
        least = least_sum(jobs, capacities)
        greedy = allocate_jointly(jobs, capacities, trials=0, exact_cells=0)
        require_valid(jobs, capacities, greedy)
        if total(greedy) > least + 1e-9:
            missed += 1
            better = allocate_jointly(jobs, capacities, exact_cells=0)
            require_valid(jobs, capacities, better)
            mended += total(better) <= least + 1e-9
    assert (len(small_instances()), missed, mended) == (4325, 102, 99)


def test_exact_is_optimal_wherever_largest_first_is_not_and_on_a_sample_of_the_rest() -> None:
    """The programme alone, without improvement."""
    asked = 0
    for at, (jobs, capacities) in enumerate(small_instances()):
        least = least_sum(jobs, capacities)
        if at % 60 and total(allocate_jointly(jobs, capacities, trials=0, exact_cells=0)) < least + 1e-9:
            continue
        asked += 1
        found = allocate_jointly(jobs, capacities, trials=0)
        require_valid(jobs, capacities, found)
        assert total(found) == pytest.approx(least, abs=1e-9)
    assert asked > 150


def test_together_they_are_optimal_on_every_fifth_instance() -> None:
    for jobs, capacities in small_instances()[::5]:
        assert total(allocate_jointly(jobs, capacities)) == pytest.approx(least_sum(jobs, capacities), abs=1e-9)


@given(st.lists(st.integers(0, 9), max_size=5), st.lists(st.integers(0, 9), max_size=4))
def test_never_worse_than_largest_first_and_never_over_a_capacity(jobs: list[int], capacities: list[int]) -> None:
    greedy = allocate_jointly(jobs, capacities, trials=0, exact_cells=0)
    better = allocate_jointly(jobs, capacities, exact_cells=0)
    best = allocate_jointly(jobs, capacities)
    for found in (greedy, better, best):
        require_valid(jobs, capacities, found)
        assert [parts is None for parts in found] == [parts is None for parts in greedy]
    assert total(best) <= total(better) + 1e-9
    assert total(better) <= total(greedy) + 1e-9
    assert best == allocate_jointly(jobs, capacities)


def test_what_does_not_fit_is_left_out_largest_first() -> None:
    assert allocate_jointly((5, 9, 2), (4, 4)) == ((4, 1), None, (0, 2))
    assert allocate_jointly((0, 3), ()) == ((), None)
    assert allocate_jointly((), (3,)) == ()


def test_the_order_of_the_jobs_does_not_matter_to_the_sum() -> None:
    sums = {round(total(allocate_jointly(jobs, (3, 3, 4))), 9) for jobs in permutations((6, 2, 2))}
    assert sums == {round(log(2), 9)}


def test_amounts_are_scaled_by_their_common_divisor() -> None:
    """32 times the counter-example: too many columns unless divided."""
    found = allocate_jointly((128, 96), (64, 64, 96), trials=0, exact_cells=30)
    assert found == ((64, 64, 0), (0, 0, 96))


def full_case(seed: int) -> tuple[list[int], list[int]]:
    """About 95 % of 60 switches wanted by some 100 jobs."""
    rng = random.Random(seed)
    capacities = [rng.randint(1, 512) for _ in range(60)]
    jobs = [rng.choice((8, 16, 32, 64, 64, 128, 256, 320)) for _ in range(300)]
    while sum(jobs) > 0.95 * sum(capacities):
        jobs.pop()
    return jobs, capacities


def test_full_clusters_gain_within_bounded_work() -> None:
    before = after = 0.0
    start = process_time()
    for jobs, capacities in map(full_case, range(4)):
        found = allocate_jointly(jobs, capacities)
        require_valid(jobs, capacities, found)
        before += total(allocate_jointly(jobs, capacities, trials=0, exact_cells=0))
        after += total(found)
    assert process_time() - start < 10
    assert after < 0.9 * before


def test_a_solver_that_breaks_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise pulp.PulpSolverError("gone")

    monkeypatch.setattr(pulp.LpProblem, "solve", broken)
    with pytest.raises(SolverError, match="broke down on the programme"):
        allocate_jointly((4, 3), (2, 2, 3), trials=0)
