"""The switching programme against all sequences of plans, counted out."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InfeasibleError
from planner.replanning.schedules.switching import best_switching, least_usd


def cheapest_of_all(
    demands: list[float],
    promises: list[float],
    window_usd: np.ndarray,
    change_usd: np.ndarray,
    days: list[int],
    most_changes: int,
) -> float:
    """USD of the cheapest sequence that is allowed; infinite where none is."""
    best = float("inf")
    for plans in product(range(len(promises)), repeat=len(demands)):
        moves = [(window, pair) for window, pair in enumerate(pairwise(plans), start=1) if pair[0] != pair[1]]
        by_day = [sum(days[window] == day for window, _ in moves) for day in set(days)]
        if max(by_day) > most_changes or any(promises[k] < d for k, d in zip(plans, demands, strict=True)):
            continue
        usd = sum(window_usd[t, k] for t, k in enumerate(plans)) + sum(change_usd[pair] for _, pair in moves)
        best = min(best, usd)
    return best


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, object]:
    windows, plans = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    numbers = st.integers(0, 9)

    def matrix(rows: int) -> np.ndarray:
        row = st.lists(numbers, min_size=plans, max_size=plans)
        return np.array(draw(st.lists(row, min_size=rows, max_size=rows)), dtype=float)

    change = matrix(plans)
    np.fill_diagonal(change, 0.0)
    return {
        "demands": draw(st.lists(numbers, min_size=windows, max_size=windows)),
        "promises": draw(st.lists(numbers, min_size=plans, max_size=plans)),
        "window_usd": matrix(windows),
        "change_usd": change,
        "days": sorted(draw(st.lists(st.integers(0, 1), min_size=windows, max_size=windows))),
        "most_changes": draw(st.integers(0, 3)),
    }


@given(schedules())
def test_no_sequence_is_cheaper(case: dict) -> None:
    due = cheapest_of_all(**case)
    arguments = (case["demands"], case["promises"], case["window_usd"])
    limits = {"days": case["days"], "most_changes": case["most_changes"]}
    if due == float("inf"):
        with pytest.raises(InfeasibleError):
            best_switching(*arguments, case["change_usd"], **limits)
        return
    answer = best_switching(*arguments, case["change_usd"], **limits)
    assert answer.usd == pytest.approx(due)
    pairs = list(pairwise(answer.plans))
    spent = sum(case["window_usd"][t, k] for t, k in enumerate(answer.plans)) + sum(
        case["change_usd"][p] for p in pairs
    )
    assert spent == pytest.approx(answer.usd)
    assert all(case["promises"][k] >= d for k, d in zip(answer.plans, case["demands"], strict=True))
    assert answer.changes == tuple(t for t, (j, k) in enumerate(pairs, start=1) if j != k)
    limited = least_usd(*arguments, **limits)
    assert least_usd(*arguments, days=case["days"]) <= limited + 1e-9
    assert limited <= answer.usd + 1e-9


def test_a_week_of_ten_minutes_is_quick_to_follow() -> None:
    """A day that doubles at noon, twelve plans: two changes a day, each where the rate crosses a plan's promise."""
    windows = np.arange(7 * 144)
    demands = np.where((windows % 144 >= 48) & (windows % 144 < 120), 20.0, 10.0)
    promises = [10.0, 20.0]
    answer = best_switching(demands, promises, [1.0, 2.0], [[0, 3], [3, 0]], days=list(windows // 144), most_changes=4)
    assert answer.usd == 7 * (72 * 1 + 72 * 2) + 14 * 3
    assert len(answer.changes) == 14


def test_a_rate_beyond_all_plans_names_its_window() -> None:
    with pytest.raises(InfeasibleError, match="window 1 needs 30"):
        best_switching([1, 30], [10.0], [1.0], [[0.0]], days=[0, 0], most_changes=1)
