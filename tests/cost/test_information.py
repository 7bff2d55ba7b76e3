"""What measurements are worth: theory of preposterior analysis, on made-up decisions."""

import numpy as np
import pytest

from planner.cost.benchmarks.draws import NOISE, choose_measurements, reduction, regret

DRAWS = 4000
Table = list[list[float]]


def two_types(seed: int = 0, sds: tuple[float, float] = (0.5, 0.5)) -> tuple[Table, Table]:
    """Two decisions; the first rests on type A alone, the second is worth 1 for sure. B plays no part."""
    logs = np.random.default_rng(seed).normal(0.0, sds, size=(DRAWS, 2))
    return np.column_stack([1.0 + logs[:, 0], np.ones(DRAWS)]).tolist(), logs.tolist()


def test_the_type_that_decides_is_the_one_to_measure() -> None:
    values, shown = two_types()
    (first, *others) = choose_measurements(values, shown, 2)
    assert first.measurement == 0
    assert first.reduction > 0.9 * regret(values)
    assert sum(choice.reduction for choice in others) < 0.02 * first.reduction


def test_a_perfect_measurement_of_a_gamble_is_worth_what_theory_says() -> None:
    """E max(x, 0) - max(E x, 0) of x ~ N(0, s) is s / sqrt(2 pi); noise e leaves s^2 / sqrt(s^2 + e^2) of s."""
    values, shown = two_types()
    expected = 0.5 / np.sqrt(2 * np.pi)
    assert regret(values) == pytest.approx(expected, rel=0.05)
    assert reduction(values, shown, [0], noise=0.0) == pytest.approx(expected, rel=0.05)
    assert reduction(values, shown, [0], noise=0.5) == pytest.approx(expected / np.sqrt(2), rel=0.06)


def test_where_one_decision_is_best_throughout_nothing_is_regretted() -> None:
    values, shown = two_types(sds=(0.1, 0.1))
    dominated = [[row[0] + 5.0, row[1]] for row in values]
    assert regret(dominated) == 0.0
    assert choose_measurements(dominated, shown, 2) == ()


def test_one_decision_alone_regrets_nothing() -> None:
    values, shown = two_types()
    assert regret([[row[0]] for row in values]) == 0.0
    assert choose_measurements([[row[0]] for row in values], shown, 2) == ()


def test_the_more_is_known_the_less_a_measurement_is_worth() -> None:
    worth = []
    for sd in (0.6, 0.3, 0.15, 0.05):
        values, shown = two_types(sds=(sd, 0.5))
        worth.append(reduction(values, shown, [0]))
    assert worth == sorted(worth, reverse=True)
    assert worth[0] > 8 * worth[-1]


def test_a_noisier_measurement_is_worth_less() -> None:
    values, shown = two_types()
    worth = [reduction(values, shown, [0], noise=noise) for noise in (0.0, NOISE, 0.5, 5.0)]
    assert worth == sorted(worth, reverse=True)


def rivals(seed: int, decisions: int = 4, types: int = 5, draws: int = 60) -> tuple[Table, Table]:
    """Decisions that rest on all types by chance, in few draws, as a scenario's are."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(0.0, rng.uniform(0.05, 0.4, size=types), size=(draws, types))
    values = 10 + logs @ rng.normal(0.0, 1.0, size=(types, decisions)) + rng.normal(0.0, 0.1, size=decisions)
    return values.tolist(), logs.tolist()


@pytest.mark.parametrize("seed", range(8))
def test_one_greedy_choice_is_the_best_of_all(seed: int) -> None:
    values, shown = rivals(seed)
    by_enumeration = [reduction(values, shown, [m]) for m in range(len(shown[0]))]
    (chosen,) = choose_measurements(values, shown, 1)
    assert chosen.reduction == max(by_enumeration)
    assert chosen.measurement == by_enumeration.index(max(by_enumeration))


@pytest.mark.parametrize("seed", range(8))
def test_reductions_lie_between_nothing_and_the_regret(seed: int) -> None:
    values, shown = rivals(seed)
    chosen = choose_measurements(values, shown, 5)
    assert all(choice.reduction > 0 for choice in chosen)
    assert sum(choice.reduction for choice in chosen) <= regret(values) * (1 + 1e-9)
    assert len({choice.measurement for choice in chosen}) == len(chosen)
    assert choose_measurements(values, shown, 5) == chosen


def test_chance_agreement_of_few_draws_is_worth_little() -> None:
    """A type that plays no part, in 48 draws: mostly nothing, where without correction it always looked useful."""
    worth = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = np.column_stack([1 + rng.normal(0.0, 0.5, 48), np.ones(48)]).tolist()
        worth.append(reduction(values, rng.normal(0.0, 0.3, size=(48, 1)).tolist(), [0]) / regret(values))
    assert np.median(worth) < 0.1


def test_what_two_tell_together_is_chosen_one_after_the_other() -> None:
    """A difference of two types: the second is worth what it adds to the first."""
    logs = np.random.default_rng(3).normal(0.0, 0.3, size=(DRAWS, 3))
    values = np.column_stack([1 + logs[:, 0], 1 + logs[:, 1]]).tolist()
    chosen = choose_measurements(values, logs.tolist(), 2)
    assert {choice.measurement for choice in chosen} == {0, 1}
    both = reduction(values, logs.tolist(), [0, 1])
    assert sum(choice.reduction for choice in chosen) == pytest.approx(both)
    assert both > 0.9 * regret(values)
