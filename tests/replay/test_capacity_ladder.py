"""The highest rate that holds, by few questions."""

import pytest

from planner.evaluation.replay.pooled import STEP, Ladder

LADDER = Ladder(base_rps=100.0)
MOST_ASKED = 8


def asked_for(limit_rps: float, guess_rps: float, to_beat_rps: float = 0.0) -> tuple[float, list[float]]:
    """(what is found where rates up to `limit_rps` hold, the rates that were asked for)."""
    asked: list[float] = []

    def holds(rate_rps: float) -> bool:
        asked.append(rate_rps)
        return rate_rps <= limit_rps

    return LADDER.highest(holds, guess_rps, to_beat_rps), asked


@pytest.mark.parametrize("limit", [3.0, 61.0, 99.5, 100.0, 104.2, 180.0])
@pytest.mark.parametrize("guess", [80.0, 100.0, 110.0])
def test_it_is_the_highest_rung_that_holds(limit: float, guess: float) -> None:
    highest, asked = asked_for(limit, guess)
    assert highest <= limit < highest * (1 + STEP)
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("limit", [91.0, 97.0, 100.0, 104.0, 110.0])
def test_near_the_guess_few_rates_are_asked_for(limit: float) -> None:
    assert len(asked_for(limit, 100.0)[1]) <= MOST_ASKED


def test_what_cannot_be_the_best_is_not_told_to_the_last_rung() -> None:
    exact, all_asked = asked_for(90.0, 100.0)
    rough, few_asked = asked_for(90.0, 100.0, to_beat_rps=100.0)
    assert rough <= exact <= rough * (1 + STEP) ** 4
    assert len(few_asked) < len(all_asked)


def test_what_beats_the_best_is_told_to_the_last_rung() -> None:
    assert asked_for(107.3, 100.0, to_beat_rps=104.0)[0] == asked_for(107.3, 100.0)[0]


def test_where_no_rate_holds_there_is_none() -> None:
    assert asked_for(0.0, 100.0)[0] == 0.0


def test_where_every_rate_holds_it_ends() -> None:
    assert asked_for(float("inf"), 100.0)[0] > 10 * 100.0


def test_neighbouring_guesses_stand_on_the_same_rungs() -> None:
    assert asked_for(123.4, 97.3)[0] == asked_for(123.4, 104.9)[0]
