"""Frontiers against brute force, hypervolumes against known ones and BoTorch's, and the plan's pick by its rule."""

import time
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_cases import islands

from planner.domain import Goal, ObjectiveKind, ObjectiveSettings, Pick, Trial
from planner.proposing.search.pareto import frontier, hypervolume, picked

ALL = tuple(Goal)[:5]
LAYOUT = islands(("H200", 8))


def trial(index: int, values: Sequence[float], goals: Sequence[Goal] = ALL, rate: float = 1.0) -> Trial:
    return Trial(
        index=index,
        iteration=0,
        parameters=(),
        layout=LAYOUT,
        throughput_rps=rate,
        generator="test",
        goals=tuple((goal.value, float(value)) for goal, value in zip(goals, values, strict=True)) if rate else (),
    )


def trials(rows: Sequence[Sequence[float]], goals: Sequence[Goal] = ALL) -> list[Trial]:
    return [trial(k, row, goals) for k, row in enumerate(rows)]


def as_good(one: Trial, other: Trial) -> bool:
    pairs = zip(one.goals, other.goals, strict=True)
    return all(a >= b if Goal(name).maximised else a <= b for (name, a), (_, b) in pairs)


def by_brute_force(found: Sequence[Trial]) -> tuple[int, ...]:
    def beaten(t: Trial) -> bool:
        better = any(as_good(o, t) and not as_good(t, o) for o in found)
        return better or any(o.goals == t.goals and o.index < t.index for o in found)

    return tuple(t.index for t in found if not beaten(t))


few = st.integers(0, 4)
some_rows = st.integers(2, 5).flatmap(
    lambda n: st.lists(st.lists(few, min_size=n, max_size=n), min_size=1, max_size=14)
)


@given(rows=some_rows)
def test_the_frontier_is_what_brute_force_leaves(rows: list[list[int]]) -> None:
    found = trials(rows, ALL[: len(rows[0])])
    front = frontier(found, ALL[: len(rows[0])])
    assert front == by_brute_force(found)
    assert all(not as_good(found[a], found[b]) for a, b in product(front, front) if a != b)


def test_less_is_better_for_price_watts_and_changes() -> None:
    assert [goal for goal in Goal if not goal.maximised] == [
        Goal.PRICE,
        Goal.WATTS,
        Goal.CHANGES,
        Goal.CHANGE_COST,
    ]
    found = trials([(10, 5), (10, 4), (9, 4), (12, 9)], (Goal.RATE, Goal.PRICE))
    assert frontier(found, (Goal.RATE, Goal.PRICE)) == (1, 3)


def test_layouts_that_serve_nothing_never_enter() -> None:
    goals = (Goal.RATE, Goal.PRICE)
    found = [trial(0, (), (), rate=0.0), trial(1, (3, 2), goals), trial(2, (), (), rate=0.0)]
    assert frontier(found, goals) == (1,)
    assert frontier(found[:1], goals) == ()
    assert hypervolume(found[:1], goals, (0.0, 4.0)) == 0.0
    assert hypervolume(found, goals, (0.0, 4.0)) == pytest.approx(3 * (4 - 2) / 4)


@pytest.mark.parametrize(
    ("rows", "volume"),
    [
        ([(2, 0.5)], 1.0),
        ([(2, 0.5), (1, 0.25)], 1.25),  # 2 x 0.5, and 1 x 0.25 above it
        ([(2, 0.5), (1, 0.25), (1, 0.25), (1, 0.9)], 1.25),
        ([(3, 1.0), (0, 0.0), (5, 1.5)], 0.0),  # at the reference or beyond it
    ],
)
def test_areas_by_hand(rows: list[tuple[float, float]], volume: float) -> None:
    goals = (Goal.RATE, Goal.PRICE)
    assert hypervolume(trials(rows, goals), goals, (0.0, 1.0)) == pytest.approx(volume)


def test_headroom_spans_two_and_others_their_reference() -> None:
    goals = (Goal.RATE, Goal.HEADROOM, Goal.WATTS)
    box = hypervolume(trials([(7, 0.5, 300)], goals), goals, (0.0, -1.0, 1200.0))
    assert box == pytest.approx(7 * (0.5 + 1) / 2 * (1200 - 300) / 1200)


def test_boxes_are_added_by_inclusion_and_exclusion() -> None:
    rows = np.random.default_rng(4).uniform(0.1, 1.0, size=(6, 4))
    goals = (Goal.RATE, Goal.PRICE, Goal.WATTS, Goal.CHANGES)
    due = 0.0
    for chosen in range(1, 2 ** len(rows)):
        members = [row for k, row in enumerate(rows) if chosen >> k & 1]
        due -= (-1) ** len(members) * np.min(members, axis=0).prod()
    told = [(row[0], *(1 - row[1:])) for row in rows]
    assert hypervolume(trials(told, goals), goals, (0.0, 1.0, 1.0, 1.0)) == pytest.approx(due)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_botorch_agrees(count: int) -> None:
    torch = pytest.importorskip("torch")
    from botorch.utils.multi_objective.hypervolume import Hypervolume
    from botorch.utils.multi_objective.pareto import is_non_dominated

    goals = (Goal.RATE, Goal.PRICE, Goal.WATTS, Goal.CHANGES, Goal.HEADROOM)[:count]
    rng = np.random.default_rng(count)
    gains = rng.uniform(-0.1, 1.0, size=(40, count))
    gains[5] = gains[3]
    told = [(row[0], *(1 - row[1:4]), *(2 * row[4:] - 1)) for row in gains]
    found, reference = trials(told, goals), (0.0, 1.0, 1.0, 1.0, -1.0)[:count]
    values = torch.tensor(gains)
    kept = is_non_dominated(values, deduplicate=False)
    assert set(frontier(found, goals)) == set(np.flatnonzero(kept.numpy())) - {5}
    theirs = Hypervolume(ref_point=torch.zeros(count, dtype=values.dtype)).compute(values[kept])
    assert hypervolume(found, goals, reference) == pytest.approx(theirs, rel=1e-9)


@given(rows=some_rows, row=st.lists(few, min_size=5, max_size=5))
def test_another_trial_never_takes_volume_away(rows: list[list[int]], row: list[int]) -> None:
    goals = ALL[: len(rows[0])]
    reference = (0.0, 4.5, 4.5, -1.0, 4.5)[: len(goals)]
    before = trials(rows, goals)
    after = [*before, trial(len(before), row[: len(goals)], goals)]
    small, large = (hypervolume(found, goals, reference) for found in (before, after))
    assert large >= small * (1 - 1e-12)
    beaten = any(as_good(one, after[-1]) for one in before)
    assert not beaten or large == pytest.approx(small)
    assert hypervolume(after[::-1], goals, reference) == pytest.approx(large)


def test_two_hundred_layouts_of_five_goals_take_no_time() -> None:
    gains = np.abs(np.random.default_rng(0).normal(size=(200, 5)))
    gains /= np.linalg.norm(gains, axis=1, keepdims=True)  # on a sphere: none is beaten
    found = trials([(r[0], *(1 - r[1:3]), 2 * r[3] - 1, 1 - r[4]) for r in gains])
    assert len(frontier(found, ALL)) == len(gains)
    start = time.process_time()
    volume = hypervolume(found, ALL, (0.0, 1.0, 1.0, -1.0, 1.0))
    assert time.process_time() - start < 5
    # within the orthant of the unit ball
    assert 0.3 * (np.pi**2 * 8 / 15) / 2**5 < volume < (np.pi**2 * 8 / 15) / 2**5


def objective(goals: tuple[Goal, ...], pick: Pick = Pick.KNEE, within: float = 0.05) -> ObjectiveSettings:
    return ObjectiveSettings(kind=ObjectiveKind.PARETO, goals=goals, pick=pick, within=within)


TWO = (Goal.RATE, Goal.PRICE)


def test_the_knee_is_nearest_to_the_ideal_in_spans() -> None:
    # spans 100 and 10: distances to (100, 0) are 1, sqrt(0.2^2 + 0.3^2), 1
    found = trials([(100, 10), (80, 3), (0, 0)], TWO)
    assert picked(found, objective(TWO)) == 1
    # in raw units the cheapest would be nearest
    far = trials([(1000, 10), (900, 9.5), (990, 6), (500, 5)], TWO)
    assert picked(far, objective(TWO)) == 2


def test_ties_go_by_rate_then_index() -> None:
    even = [trial(4, (10, 1), TWO, rate=10), trial(7, (20, 2), TWO, rate=20)]
    assert picked(even, objective(TWO)) == 7
    same = [trial(4, (10, 1), TWO), trial(3, (10, 1), TWO)]
    assert picked(same, objective(TWO)) == 3
    assert picked(same[:1], objective(TWO)) == 4


@pytest.mark.parametrize(("within", "best"), [(0.0, 0), (0.05, 1), (0.1, 2), (0.99, 3)])
def test_within_takes_the_best_second_goal_of_the_near_best(within: float, best: int) -> None:
    found = trials([(100, 10), (96, 8), (91, 5), (2, 0)], TWO)
    assert picked(found, objective(TWO, Pick.WITHIN, within)) == best


def test_within_of_a_minimised_first_goal_and_a_third() -> None:
    goals = (Goal.PRICE, Goal.CHANGES, Goal.RATE)
    found = trials([(10, 4, 50), (10.4, 2, 60), (10.5, 2, 70), (11, 0, 80)], goals)
    assert picked(found, objective(goals, Pick.WITHIN, 0.05)) == 2
    assert picked(found, objective(goals, Pick.WITHIN, 0.1)) == 3


def test_layouts_that_do_not_bear_the_demand_come_last() -> None:
    goals = (Goal.RATE, Goal.PRICE, Goal.HEADROOM)
    found = trials([(100, 10, 0.1), (99, 1, -0.01), (90, 8, 0.0)], goals)
    assert picked(found, objective(goals, Pick.WITHIN, 0.2)) == 2
    assert picked(found, objective(goals)) != 1
    assert picked(found[1:2], objective(goals)) == 1


@given(rows=some_rows, pick=st.sampled_from(Pick), within=st.floats(0, 0.99))
def test_the_plan_is_on_the_frontier(rows: list[list[int]], pick: Pick, within: float) -> None:
    goals = ALL[: len(rows[0])]
    found = trials(rows, goals)
    front = frontier(found, goals)
    assert picked([found[index] for index in front], objective(goals, pick, within)) in front
