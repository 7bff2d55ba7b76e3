"""A server that takes prompts in, in steps.

Ranks take prompts first in, first out, up to the token budget, the last one in part. The ranks of a server start their
steps together: a step takes the mean of what the fullest rank and the mean one need (facts on bucketed plans), and the
next one starts after 1 / (pace stages) of that.
"""

from collections.abc import Callable

from planner.domain.fleet import ReplayPool
from planner.replay.curves import PromptTimes
from planner.replay.requests import Events, RequestLog, RequestTable
from planner.replay.stations.caches import Stores
from planner.replay.stations.usage import PromptQueues

_Step = tuple[list[tuple[int, int]], float]  # requests that end with their ranks, tokens


class PrefillServer(PromptQueues):
    """One copy of the model. `work`: outstanding prompt tokens over its speed (ms); `queue`: outstanding requests."""

    __slots__ = (
        "_busy_until",
        "_handed",
        "_pace",
        "_speed",
        "_starting",
        "_steps",
        "_times",
        "_token_ms",
        "queue",
        "running",
        "speed",
        "work",
    )

    def __init__(
        self,
        number: int,
        pool: ReplayPool,
        requests: RequestTable,
        log: RequestLog,
        events: Events,
        handed: Callable[[float, int, "PrefillServer", int], None],
        mean_row: int,
        stores: Stores | None = None,
    ) -> None:
        assert pool.prompts is not None, "prefill servers have curves of their steps"
        super().__init__(number, pool, requests, log, events, stores or {})
        self.work = 0.0
        self.queue = 0
        self.running: dict[int, _Step] = {}
        self._pace = pool.pace * pool.stages
        self._times = PromptTimes(pool.prompts)
        self._handed = handed
        self._busy_until = 0.0
        self._starting = False
        self._steps = 0
        full_ms = self._times.step_ms(self._budget, ((mean_row, 1.0),), 1.0)
        self.speed = pool.ranks * self._pace * self._budget / full_ms
        self._speed, self._token_ms = self.speed, full_ms / self._budget

    def emptiest_rank(self) -> int:
        """The rank with the fewest waiting tokens."""
        # Running tokens are not counted: ranks that step together would take turns at being full.
        waiting = self._waiting
        return waiting.index(min(waiting))

    def add(self, now: float, request: int, rank: int, tokens: float) -> None:
        """A prompt with `tokens` that are in no cache joins a rank's queue."""
        self._waiting[rank] += tokens
        self.work += tokens / self._speed
        self.queue += 1
        self._queue(now, rank, [request, tokens], tokens * self._token_ms)

    def _joined(self, now: float) -> None:
        if not self._starting:
            self._starting = True
            self._events.at(max(now, self._busy_until), self._start, self._version)

    def _start(self, now: float, version: int) -> None:
        if version != self._version:
            return  # the server died since
        self._starting = False
        parts: list[tuple[int, float]] = []
        ending: list[tuple[int, int]] = []
        fullest = all_tokens = 0.0
        rows, waiting, budget = self._requests.row, self._waiting, self._budget
        started = self._log.started
        for rank, queue in enumerate(self.queues):
            if not queue:
                continue
            room = budget
            while queue and room > 0:
                head = queue[0]
                request, unread = int(head[0]), head[1]
                if started[request] != started[request]:  # NaN: not yet
                    started[request] = now
                if unread <= room:
                    queue.popleft()
                    ending.append((request, rank))
                    part = unread
                else:
                    head[1] = unread - room
                    part = room
                room -= part
                parts.append((rows[request], part))
            load = budget - room
            all_tokens += load
            fullest = max(fullest, load)
            # Differences leave rounding behind: an empty queue sheds it.
            waiting[rank] = waiting[rank] - load if queue or self._loading[rank] else 0.0
        if not parts:
            return
        times, mean = self._times, all_tokens / self.ranks
        step = times.step_ms(fullest, parts, all_tokens)
        if self.ranks > 1:
            step = (step + times.step_ms(mean, parts, all_tokens)) / 2
        cycle = step / self._pace
        self._busy_until = now + cycle
        self.usage.step(now, cycle, all_tokens / self.ranks)
        self._steps += 1
        self.running[self._steps] = (ending, all_tokens)
        self._events.at(now + step, self._end, self._steps)
        if any(self.queues):
            self._starting = True
            self._events.at(self._busy_until, self._start, self._version)

    def _end(self, now: float, number: int) -> None:
        if number not in self.running:
            return  # lost with its server
        ending, all_tokens = self.running.pop(number)
        self.queue -= len(ending)
        # As above: no work is left where nobody is.
        self.work = self.work - all_tokens / self._speed if self.queue else 0.0
        prefilled = self._log.prefilled
        for request, rank in ending:
            prefilled[request] = now
            self._handed(now, request, self, rank)

    def lose(self, _: float) -> list[int]:
        """The server dies: the requests that were with it, each once."""
        lost = [request for ending, _ in self.running.values() for request, _ in ending]
        self.running.clear()
        self.work, self.queue, self._starting = 0.0, 0, False
        return lost + self._lose_queues()

    def come_back(self, now: float) -> None:
        """The server takes prompts again."""
        self.alive, self._busy_until = True, now
