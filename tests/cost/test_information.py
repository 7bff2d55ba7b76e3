"""What runs would tell of a decision: held against theory of preposterior analysis, and against made-up outcomes."""

import math

import numpy as np
import pytest

from planner.cost.residuals.band_draws import SHARED
from planner.cost.residuals.band_table import TOLD
from planner.cost.residuals.information import Decisions, shown_noise
from planner.cost.residuals.pace_draws import pace_dimensions, pace_scores, uniform_draws
from planner.domain import Band, Phase, Relation

A, B, OTHER = ("A", Phase.DECODE), ("B", Phase.DECODE), ("A", Phase.PREFILL)
KEYS = [A, B, OTHER]
SD = 0.5


def decisions(noise: float = 0.5, draws: int = 1024, seed: int = 0) -> Decisions:
    """Two decisions: the first rests on type A in decode alone, the second is worth 1 for sure."""
    scores = pace_scores(KEYS, uniform_draws(draws, pace_dimensions(KEYS), seed))
    values = np.column_stack([1.0 + SD * scores[A], np.ones(draws)])
    return Decisions(values, scores, dict.fromkeys(KEYS, noise), seed)


def gamble(noise: float, correlation: float = 1.0) -> float:
    """E max(E[x | y], 1) - 1 of x ~ N(1, SD), of which y tells so much."""
    return correlation * SD / math.sqrt(1 + noise**2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("noise", [0.3, 0.9, 2.8])
def test_a_run_is_worth_what_theory_says(noise: float) -> None:
    made = decisions(noise, draws=2048)
    assert made.worth([A]) == pytest.approx(gamble(noise), rel=0.05, abs=0.003)
    assert made.regret == pytest.approx(gamble(0.0), rel=0.02)


def test_a_run_of_another_type_tells_what_a_phase_shares() -> None:
    made = decisions(0.4, draws=2048)
    assert made.worth([B]) == pytest.approx(gamble(0.4, SHARED), rel=0.1)
    assert made.worth([OTHER]) < 0.03 * made.worth([A])


def test_runs_together_are_worth_what_theory_says() -> None:
    """Of A and B the posterior of A has the variance that Bayes leaves."""
    noise = 0.6
    shown = np.array([[1.0, SHARED], [SHARED, 1.0]]) + noise**2 * np.eye(2)
    told = np.array([1.0, SHARED])
    explained = math.sqrt(told @ np.linalg.solve(shown, told))
    made = decisions(noise)
    assert made.worth([A, B]) == pytest.approx(SD * explained / math.sqrt(2 * math.pi), rel=0.05)


@pytest.mark.parametrize("seed", range(2))
def test_worth_is_what_deciding_by_made_up_outcomes_gains(seed: int) -> None:
    """Machines are drawn, a run of each is made up, and the decision that is then best is judged on them."""
    rng = np.random.default_rng(seed)
    scores = pace_scores(KEYS, uniform_draws(1024, pace_dimensions(KEYS), seed))
    slopes = rng.normal(0.0, 1.0, size=(3, 3))

    def values(z: np.ndarray) -> np.ndarray:
        return np.exp(0.2 * z @ slopes)

    z = np.stack([scores[key] for key in KEYS], axis=1)
    made = Decisions(values(z), scores, dict.fromkeys(KEYS, 0.7), seed)
    true = pace_scores(KEYS, rng.uniform(size=(4000, pace_dimensions(KEYS))))
    machines = np.stack([true[key] for key in KEYS], axis=1)
    truth, now = values(machines), int(made.means.argmax())
    shown = machines[:, 0] + 0.7 * rng.standard_normal(len(machines))
    weights = np.exp(-0.5 * ((shown[:, None] - z[:, 0]) / 0.7) ** 2)
    then = (weights @ made.values / weights.sum(axis=1, keepdims=True)).argmax(axis=1)
    gained = truth[np.arange(len(truth)), then] - truth[:, now]
    assert made.worth([A]) == pytest.approx(gained.mean(), abs=3 * gained.std() / math.sqrt(len(gained)) + 0.003)


def test_what_rests_on_no_run_is_worth_nothing_in_few_draws() -> None:
    """Values of chance in 64 draws: without what is taken off each run would look useful."""
    shares = []
    for seed in range(12):
        made = decisions(draws=64, seed=seed)
        luck = np.random.default_rng(seed).standard_normal(64)
        by_chance = Decisions(np.column_stack([1 + SD * luck, np.ones(64)]), made.scores, made.noises, seed)
        shares.append(by_chance.worth([A]) / by_chance.regret)
    assert np.mean(shares) < 0.05


def test_worth_lies_between_nothing_and_the_regret_and_falls_with_noise() -> None:
    worths = [decisions(noise).worth([A]) for noise in (0.2, 0.6, 1.5, 4.0)]
    assert worths == sorted(worths, reverse=True)
    assert all(0 <= worth <= decisions().regret for worth in worths)
    dominated = Decisions(np.add(decisions().values, [5.0, 0.0]), decisions().scores, decisions().noises)
    assert dominated.regret == pytest.approx(0.0, abs=1e-12)
    assert dominated.best_runs(2, lambda _, worth: worth) == []


def test_runs_are_chosen_one_after_the_other_for_what_they_add() -> None:
    made = decisions(0.6)
    first, second = made.best_runs(2, lambda _, worth: worth)
    assert (first.key, second.key) == (A, B)
    assert first.worth + second.worth == pytest.approx(made.worth([A, B]))
    dear = made.best_runs(1, lambda key, worth: worth - (10 if key == A else 0))
    assert dear[0].key == B  # what it costs counts, too


def test_a_run_tells_more_where_less_was_measured() -> None:
    assert list(TOLD) == [r for r in Relation if r is not Relation.OWN]
    assert TOLD[Relation.SAME] < TOLD[Relation.MODEL] <= TOLD[Relation.ENGINE] < TOLD[Relation.FORMULAS] < 1
    noises = {relation: shown_noise(Band(low=0.8, high=1.2, relation=relation)) for relation in Relation}
    assert noises[Relation.OWN] == noises[Relation.SAME] > 2 * noises[Relation.MODEL]
    assert noises[Relation.FORMULAS] ** 2 == pytest.approx(1 / TOLD[Relation.FORMULAS] ** 2 - 1)
