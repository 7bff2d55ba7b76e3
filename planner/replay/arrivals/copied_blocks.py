"""Blocks of the prompts of a stream, told from those of the trace without a copy of them."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import overload

import numpy as np

from planner.domain import PromptBlocks
from planner.replay.arrivals.parts import Places

_LARGEST = 2**63


class CopiedIds(Sequence[int]):
    """The ids of all prompts behind each other: those of the trace's request `rows[i]`, `shifts[i]` added.

    Kept are 24 bytes a request and the trace's ids, not the stream's, of which there may be a hundred a request.
    """

    def __init__(self, ids: Places, starts: Places, rows: Places, shifts: Places, ends: "array[int]") -> None:
        self._ids, self._starts, self._rows, self._shifts, self._ends = ids, starts, rows, shifts, ends

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        """An id, or those of a slice as a list."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return self._between(start, stop) if step == 1 else [self[i] for i in range(start, stop, step)]
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(place)
        return self._between(at, at + 1)[0]

    def _between(self, start: int, stop: int) -> list[int]:
        ids: list[int] = []
        request = bisect_right(self._ends, start)
        while start < stop:
            end = min(self._ends[request], stop)
            first = self._starts[self._rows[request]] + start - (self._ends[request - 1] if request else 0)
            ids += (self._ids[first : first + end - start] + self._shifts[request]).tolist()
            start, request = end, request + 1
        return ids


def copied_blocks(blocks: PromptBlocks, rows: Places, users: Places) -> PromptBlocks:
    """The blocks of requests `rows` of a trace, ids of different `users` (from 0 on) kept apart.

    The ids of user 0 are the trace's, unless those leave no room for others: then all are numbered anew.
    """
    ids = np.asarray(blocks.ids, dtype=np.int64)
    stops = np.asarray(blocks.ends, dtype=np.int64)
    counts = np.diff(stops, prepend=0)
    most_users = int(users.max(initial=0)) + 1
    distinct = int(ids.max(initial=0)) + 1
    # A user's ids are the trace's and a shift: they must neither meet another's nor overflow.
    if ids.min(initial=0) < 0 or distinct * most_users >= _LARGEST:
        names, ids = np.unique(ids, return_inverse=True)
        distinct = len(names)
    ends = array("q", np.cumsum(counts[rows]).tobytes())
    copied = CopiedIds(ids, stops - counts, rows, users * distinct, ends)
    return PromptBlocks(block_tokens=blocks.block_tokens, ids=copied, ends=ends)
