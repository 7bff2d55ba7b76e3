"""Ways of choosing one of some endpoints by their weights alone.

Sources: Waldspurger 1995 (stride scheduling).
"""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate
from random import Random


class Drawn:
    """At random, by weight."""

    def __init__(self, weights: Sequence[float], random: Random) -> None:
        self._sums = list(accumulate(weights))
        self._random = random
        self._last = len(weights) - 1

    def pick(self) -> int:
        """The place of a draw."""
        # Rounding may put a draw at the very end of the sums, behind the last.
        return min(bisect_right(self._sums, self._random.random() * self._sums[-1]), self._last)


class InTurn:
    """One after the other, each as often as its weight says."""

    def __init__(self, weights: Sequence[float]) -> None:
        heaviest = max(weights)
        self._strides = [heaviest / weight if weight > 0 else float("inf") for weight in weights]
        # Half a stride: turns come as by Sainte-Lague, which favours neither heavy nor light ones.
        self._turns = [(stride / 2, place) for place, stride in enumerate(self._strides)]
        heapify(self._turns)

    def pick(self) -> int:
        """The place of the next one."""
        turn, place = self._turns[0]
        heapreplace(self._turns, (turn + self._strides[place], place))
        return place
