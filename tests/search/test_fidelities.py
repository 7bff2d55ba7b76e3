"""Where a cheap judge errs in a pattern, few looks of the dear one tell the order of the rest."""

import numpy as np

from planner.proposing.search import Judgement, most_promising

DIALS = 3


def _judged(features: np.ndarray) -> list[tuple[tuple[float, ...], float, float]]:
    """The cheap judge likes the first coordinate and does not see that the second costs more than that gives."""
    return [(tuple(map(float, row)), 100 + 5 * row[0], (100 + 5 * row[0]) * (1 - 0.2 * row[1])) for row in features]


def test_the_dear_judges_favourite_comes_first() -> None:
    rows = _judged(np.random.default_rng(1).random((60, DIALS)))
    seen = [Judgement(features=f, cheap_rps=c, dear_rps=d) for f, c, d in rows[:15]]
    features, cheap, dear = zip(*rows[15:], strict=True)
    order = most_promising(seen, features, cheap, 8, seed=0)
    assert len(set(order)) == 8
    assert dear[order[0]] >= sorted(dear)[-3]
    assert max(dear[place] for place in order[:4]) == max(dear)


def test_before_there_is_anything_to_learn_the_cheap_judge_decides() -> None:
    assert most_promising([], [(0.0,), (0.5,), (1.0,)], [1.0, 3.0, 2.0], 2, seed=0) == [1, 2]
    lone = [Judgement(features=(0.0,), cheap_rps=1, dear_rps=9)]
    assert most_promising(lone, [(0.0,), (0.5,)], [2.0, 2.0], 5, seed=0) == [0, 1]
    assert most_promising(lone, [], [], 5, seed=0) == []


def test_equal_seeds_give_equal_orders() -> None:
    rows = _judged(np.random.default_rng(2).random((20, DIALS)))
    seen = [Judgement(features=f, cheap_rps=c, dear_rps=d) for f, c, d in rows[:6]]
    features, cheap, _ = zip(*rows[6:], strict=True)
    assert most_promising(seen, features, cheap, 4, seed=5) == most_promising(seen, features, cheap, 4, seed=5)


def test_judges_that_agree_leave_the_cheap_ones_order() -> None:
    rows = _judged(np.random.default_rng(3).random((20, DIALS)))
    seen = [Judgement(features=f, cheap_rps=c, dear_rps=c) for f, c, _ in rows[:6]]
    features, cheap, _ = zip(*rows[6:], strict=True)
    assert most_promising(seen, features, cheap, 1, seed=0)[0] == int(np.argmax(cheap))


def test_of_several_each_tells_something_else() -> None:
    seen = [Judgement(features=(x, 0.5), cheap_rps=100, dear_rps=100 + 5 * x) for x in (0.0, 0.2, 0.4, 0.6)]
    twins = [(0.8, 0.5), (0.8, 0.501), (0.8, 0.502), (0.8, 1.0)]
    assert 3 in most_promising(seen, twins, [100.0] * 4, 2, seed=0)
