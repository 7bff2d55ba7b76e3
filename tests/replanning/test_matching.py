"""Pairs of largest gain, held against every way to pair."""

from collections.abc import Iterator

import numpy as np
import pytest

from planner.replanning.matching import best_pairs


def pairings(supplies: list[int], demands: list[int], gains: list[list[int | None]]) -> Iterator[int]:
    """The gains of every way to pair."""
    if not supplies:
        yield 0
        return
    for counts in _rows(supplies[0], demands, gains[0]):
        unmet = [count - used for count, used in zip(demands, counts, strict=True)]
        gain = sum((g or 0) * n for g, n in zip(gains[0], counts, strict=True))
        yield from (gain + other for other in pairings(supplies[1:], unmet, gains[1:]))


def _rows(count: int, demands: list[int], gains: list[int | None]) -> Iterator[tuple[int, ...]]:
    if not demands:
        yield ()
        return
    for used in range(min(count, demands[0]) + 1 if gains[0] is not None else 1):
        yield from ((used, *others) for others in _rows(count - used, demands[1:], gains[1:]))


@pytest.mark.parametrize("seed", range(20))
def test_the_gain_is_the_largest_there_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    supplies = rng.integers(0, 4, rng.integers(1, 4)).tolist()
    demands = rng.integers(0, 4, rng.integers(1, 4)).tolist()
    gains = [[None if rng.random() < 0.3 else int(rng.integers(1, 12)) for _ in demands] for _ in supplies]
    pairs = best_pairs(supplies, demands, gains)
    for number, count in enumerate(supplies):
        assert sum(n for (i, _), n in pairs.items() if i == number) <= count
    for number, count in enumerate(demands):
        assert sum(n for (_, j), n in pairs.items() if j == number) <= count
    assert all(gains[i][j] is not None and n > 0 for (i, j), n in pairs.items())
    assert sum((gains[i][j] or 0) * n for (i, j), n in pairs.items()) == max(pairings(supplies, demands, gains))


def test_a_good_pair_gives_way_to_two() -> None:
    """Greedy takes 10 and is left with nothing; 9 + 9 is more."""
    assert best_pairs([1, 1], [1, 1], [[10, 9], [9, None]]) == {(0, 1): 1, (1, 0): 1}


def test_nothing_is_paired_with_nothing() -> None:
    assert best_pairs([], [], []) == {}
    assert best_pairs([2], [3], [[None]]) == {}
