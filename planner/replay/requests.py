"""The state of one run that its stations share: requests as plain lists, what each went through, and what comes next.

The log has a column a moment (ms; nan: not reached); events are a heap of moments in virtual time (ms), equal ones in
the order in which they were asked for.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from planner.domain.arrivals import StreamTurns
from planner.domain.fleet import Row
from planner.domain.workload import PromptBlocks
from planner.replay.curves import nearest_rows


class RequestTable:
    """Arrivals (ms, ascending), tokens of prompts and answers (at least 1), and each prompt's row of the curves.
    `sessions`: the number of each request's; None where they are not known."""

    __slots__ = ("answer", "arrival_ms", "blocks", "prompt", "row", "sessions", "turns")

    def __init__(
        self,
        arrival_ms: Sequence[float],
        prompt: Sequence[int],
        answer: Sequence[int],
        lengths: Row,
        blocks: PromptBlocks | None = None,
        turns: StreamTurns | None = None,
    ) -> None:
        self.arrival_ms = list(arrival_ms)
        self.prompt = list(prompt)
        self.answer = list(answer)
        self.row = nearest_rows(lengths, self.prompt)
        self.blocks, self.turns = blocks, turns
        self.sessions = None if turns is None else turns.sessions

    def __len__(self) -> int:
        return len(self.prompt)

    def blocks_of(self, request: int) -> Sequence[int]:
        """Ids of the blocks of a prompt."""
        assert self.blocks is not None, "asked for where prompts have blocks"
        start = self.blocks.ends[request - 1] if request else 0
        return self.blocks.ids[start : self.blocks.ends[request]]

    def next_turns(self) -> dict[int, int]:
        """The turn that each request's end is waited for by; none where turns come at times of their own."""
        following: dict[int, int] = {}
        if self.turns is None or not self.turns.pause_s:
            return following
        last: dict[int, int] = {}
        for request, session in enumerate(self.turns.sessions):
            if session in last:
                following[last[session]] = request
            last[session] = request
        return following


NEVER = math.nan


class RequestLog:
    """Columns over requests. `started`: its prefill began; `prefilled`: ended; `arrived`: its cache is with the decode
    server; `placed`: it has a place in a batch; `first`, `ended`: first and last token. All are those of the last try.
    `prefill`, `decode`: numbers of the pools that served it (-1: none yet). `hits`: tokens found in a prefix cache;
    `loads`: those of them that came from a tier, by its name. `tries`: how often it began anew after losses.
    """

    __slots__ = (
        "arrived",
        "decode",
        "ended",
        "first",
        "hits",
        "loads",
        "placed",
        "preempted",
        "prefill",
        "prefilled",
        "started",
        "tries",
    )

    def __init__(self, requests: int, tiers: Sequence[str] = ()) -> None:
        self.started, self.prefilled, self.arrived, self.placed, self.first, self.ended = (
            array("d", [NEVER]) * requests for _ in range(6)
        )
        self.prefill, self.decode = (array("i", [-1]) * requests for _ in range(2))
        self.hits = array("i", [0]) * requests
        self.loads = {tier: array("i", [0]) * requests for tier in tiers}
        self.tries, self.preempted = (array("H", [0]) * requests for _ in range(2))

    def begin_anew(self, request: int) -> None:
        """What was done of a request is lost."""
        for moments in (self.started, self.prefilled, self.arrived, self.placed, self.first, self.ended):
            moments[request] = NEVER
        self.prefill[request] = self.decode[request] = -1
        for tokens in (self.hits, *self.loads.values()):
            tokens[request] = 0
        self.tries[request] += 1


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
    def next_ms(self) -> float:
        """The moment of the next one; infinite where none is to come."""
        return self._heap[0][0] if self._heap else math.inf

    @property
    def pending(self) -> int:
        """How many are to come."""
        return len(self._heap)
