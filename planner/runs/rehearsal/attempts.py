"""Requests as engines meet them: a row each time that a router brings one to a server which takes prompts in, as it may
send a request again."""

import asyncio
import math
from collections.abc import Sequence

from planner.domain.arrivals import Requests
from planner.domain.fleet import Row
from planner.replay.curves import nearest_rows
from planner.replay.requests import NEVER, RequestLog, RequestTable
from planner.replay.stations.decode import DecodeServer
from planner.replay.stations.prefill import PrefillServer


class AttemptTable(RequestTable):
    """The rows of all attempts, in the order in which they came; `numbers`: of the request behind each."""

    __slots__ = ("_request_rows", "numbers", "requests")

    def __init__(self, requests: Requests, lengths: Row) -> None:
        super().__init__((), (), (), lengths, requests.blocks)
        self.requests = requests
        self.numbers: list[int] = []
        self._request_rows = nearest_rows(lengths, requests.prompt_tokens)

    def begin(self, number: int, now_ms: float) -> int:
        """A row for the request with that number, which came now."""
        self.arrival_ms.append(now_ms)
        self.prompt.append(self.requests.prompt_tokens[number])
        self.answer.append(self.requests.answer_tokens[number])
        self.row.append(self._request_rows[number])
        self.numbers.append(number)
        return len(self.numbers) - 1

    def blocks_of(self, request: int) -> Sequence[int]:
        """Ids of the blocks of an attempt's prompt."""
        return super().blocks_of(self.numbers[request])


class AttemptLog(RequestLog):
    """A log that grows."""

    __slots__ = ()

    def __init__(self, tiers: Sequence[str] = ()) -> None:
        super().__init__(0, tiers)

    def begin(self) -> None:
        """A row more."""
        for moments in (self.started, self.prefilled, self.arrived, self.placed, self.first, self.ended):
            moments.append(NEVER)
        for pools in (self.prefill, self.decode):
            pools.append(-1)
        for counts in (self.hits, *self.loads.values(), self.tries, self.preempted):
            counts.append(0)


LOST = math.nan
"""The moment of what does not come any more."""


class Attempt:
    """One row while it is served. `prefilled`, `first`, `ended`: the moments (plan ms) once they are there, LOST where
    a server died. `sender`: who took the prompt in, with its rank and how often it had died by then."""

    __slots__ = (
        "ended",
        "first",
        "prefilled",
        "row",
        "sender",
        "sender_deaths",
        "sender_rank",
        "target",
        "target_rank",
    )

    def __init__(self, row: int) -> None:
        loop = asyncio.get_running_loop()
        self.row = row
        self.prefilled, self.first, self.ended = (loop.create_future() for _ in range(3))
        self.sender: PrefillServer | None = None
        self.sender_rank = self.sender_deaths = 0
        self.target: DecodeServer | None = None
        self.target_rank = -1

    def reach(self, stage: "asyncio.Future[float]", moment_ms: float) -> None:
        """A stage came at that moment; the first word counts."""
        if not stage.done():
            stage.set_result(moment_ms)

    def lose(self) -> None:
        """Nothing more comes of it."""
        for stage in (self.prefilled, self.first, self.ended):
            self.reach(stage, LOST)
