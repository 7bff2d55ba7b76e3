"""Where a cheap judge errs in a pattern, few looks of the dear one tell the order of the rest."""

import numpy as np

from planner.search import Judgement, by_improvement

DIALS = 3


def _judged(features: np.ndarray) -> list[tuple[tuple[float, ...], float, float]]:
    """The cheap judge likes the first coordinate and does not see that the second costs more than that gives."""
    return [(tuple(map(float, row)), 100 + 5 * row[0], (100 + 5 * row[0]) * (1 - 0.2 * row[1])) for row in features]


def test_the_dear_judges_favourite_comes_first() -> None:
    rows = _judged(np.random.default_rng(1).random((60, DIALS)))
    seen = [Judgement(features=f, cheap_rps=c, dear_rps=d) for f, c, d in rows[:15]]
    features, cheap, dear = zip(*rows[15:], strict=True)
    order = by_improvement(seen, features, cheap, seed=0)
    assert sorted(order) == list(range(len(features)))
    assert dear[order[0]] >= sorted(dear)[-3]
    assert max(dear[place] for place in order[:4]) == max(dear)


def test_before_there_is_anything_to_learn_the_cheap_judge_decides() -> None:
    assert by_improvement([], [(0.0,), (0.5,), (1.0,)], [1.0, 3.0, 2.0], seed=0) == [1, 2, 0]
    assert by_improvement([Judgement(features=(0.0,), cheap_rps=1, dear_rps=9)], [(0.0,), (0.5,)], [2.0, 2.0], 0) == [0, 1]


def test_equal_seeds_give_equal_orders() -> None:
    rows = _judged(np.random.default_rng(2).random((20, DIALS)))
    seen = [Judgement(features=f, cheap_rps=c, dear_rps=d) for f, c, d in rows[:6]]
    features, cheap, _ = zip(*rows[6:], strict=True)
    assert by_improvement(seen, features, cheap, seed=5) == by_improvement(seen, features, cheap, seed=5)


def test_judges_that_agree_leave_the_cheap_ones_order() -> None:
    rows = _judged(np.random.default_rng(3).random((20, DIALS)))
    seen = [Judgement(features=f, cheap_rps=c, dear_rps=c) for f, c, _ in rows[:6]]
    features, cheap, _ = zip(*rows[6:], strict=True)
    assert by_improvement(seen, features, cheap, seed=0)[0] == int(np.argmax(cheap))
