"""What happens next: a heap of moments in virtual time (ms), equal ones in the order in which they were asked for."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[[float, Any], None]


class Events:
    """Actions to come; each is handed its moment and what it was asked for with."""

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Action, Any]] = []
        self._number = 0

    def at(self, moment: float, action: Action, subject: Any = None) -> None:
        """`action(moment, subject)` at that moment."""
        self._number += 1
        heappush(self._heap, (moment, self._number, action, subject))

    def until(self, moment: float) -> None:
        """Let everything happen before `moment`; what happens at it comes after an arrival then."""
        heap = self._heap
        while heap and heap[0][0] < moment:
            now, _, action, subject = heappop(heap)
            action(now, subject)

    @property
    def pending(self) -> int:
        """How many are to come."""
        return len(self._heap)
