"""A server that answers what others took in: continuous batching, first in, first out, as far as places and KV memory
reach. Sequences join between passes; where caches outgrow a rank's room the youngest gives up its place and is taken in
anew when there is room again, before all others.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from planner.domain.fleet import ReplayPool
from planner.replay.requests import Events, RequestLog, RequestTable
from planner.replay.stations.batch import Batch
from planner.replay.stations.usage import Usage


class Sequence(NamedTuple):
    """Who waits for a place: `tokens` of its context, `answer` tokens to come, `redo` tokens to be taken in anew;
    `rank` where it came to an endpoint of a rank, which alone may answer it (-1: whichever)."""

    request: int
    tokens: int
    answer: int
    redo: int
    rank: int = -1


class DecodeServer:
    """One copy of the model. `load`: sequences in answer, waiting and on their way, over its places."""

    __slots__ = (
        "_batch",
        "_bound",
        "_boundary",
        "_events",
        "_joined",
        "_log",
        "_planned",
        "_redo_ms",
        "_requests",
        "_version",
        "_waiting",
        "alive",
        "coming",
        "deaths",
        "done",
        "load",
        "places",
        "pool",
        "ranks",
        "usage",
    )

    def __init__(
        self,
        number: int,
        pool: ReplayPool,
        requests: RequestTable,
        log: RequestLog,
        events: Events,
        done: Callable[[float, int], None],
    ) -> None:
        self.pool, self.alive, self.done = number, True, done
        self.usage = Usage()
        self.coming = 0
        self.load = 0.0
        self._batch = Batch(pool)
        self.ranks, self.places = pool.ranks, pool.ranks * pool.batch
        self._redo_ms = pool.redo_ms
        self._requests, self._log, self._events = requests, log, events
        self._boundary = 0.0
        self._version = self._planned = self.deaths = 0
        self._bound: dict[int, int] = {}  # sequences that only one rank may answer
        self._joined: list[int] = []
        self._waiting: deque[Sequence] = deque()

    def expect(self, sequences: int) -> None:
        """So many more are on their way; fewer, where a cache is lost."""
        self.coming += sequences
        self._count()

    def _count(self) -> None:
        self.load = (self._batch.load + len(self._waiting) + self.coming) / self.places

    def add(self, now: float, request: int, rank: int = -1) -> None:
        """A sequence whose cache has come: it was expected. `rank`: whose endpoint it came to, -1: the server's."""
        self.coming -= 1
        self._log.arrived[request] = now
        answer = self._requests.answer[request]
        self._waiting.append(Sequence(request, self._requests.prompt[request], answer, 0, rank))
        if rank >= 0:
            self._bound[request] = rank
        self._catch_up(now)
        ending = self._batch.load and not self._planned  # places become free at this boundary: `_change` gives them
        if not ending and self._admit():
            self._plan()

    def _catch_up(self, now: float) -> None:
        """To the first boundary between passes that is not before `now`."""
        batch = self._batch
        if not batch.load:
            self._boundary = max(self._boundary, now)
            return
        span = now - self._boundary
        if span > 0:
            self._pass(min(batch.passes_within(span), self._planned))

    def _pass(self, passes: int) -> None:
        if not passes:
            return
        batch = self._batch
        length, before = batch.time_of(passes), batch.kv_share
        self._planned -= passes
        self._joined.clear()
        batch.advance(passes)
        self.usage.passes(self._boundary, length, batch.load / batch.ranks, (before, batch.kv_share))
        self._boundary += length

    def _admit(self) -> bool:
        """Give places to those who wait; whether anybody got one."""
        batch, waiting, placed = self._batch, self._waiting, []
        place = 0
        while place < len(waiting):
            request, tokens, answer, redo, bound = waiting[place]
            rank = batch.rank_for(tokens) if bound < 0 else bound if batch.takes(bound, tokens) else -1
            if rank < 0 and bound < 0:
                break
            if rank < 0:  # its own rank is full, others may not be
                place += 1
                continue
            del waiting[place]
            if redo:
                self._take_in_anew(redo)
            batch.place(request, rank, tokens, answer)
            placed.append(request)
        if not placed:
            return False
        batch.measure()
        log, joined = self._log, self._joined
        # NaN, which is unlike itself: no first token yet.
        joined += [request for request in placed if log.first[request] != log.first[request]]
        moment, first = self._boundary, self._boundary + batch.next_ms
        for request in joined:  # those that came before for the same pass wait for all of it
            log.placed[request], log.first[request] = moment, first
        return True

    def _take_in_anew(self, tokens: int) -> None:
        """The context of a preempted sequence; the others wait."""
        length, share = tokens * self._redo_ms, self._batch.kv_share
        self.usage.passes(self._boundary, length, self._batch.load / self._batch.ranks, (share, share))
        self._boundary += length

    def _plan(self) -> None:
        """The next event is where the batch changes by itself."""
        self._version += 1
        if self._batch.load:
            self._planned = self._batch.until_change()
            self._events.at(self._boundary + self._batch.time_of(self._planned), self._change, self._version)

    def _change(self, _: float, version: int) -> None:
        # The batch changed since: another event stands for it.
        if version != self._version:
            return
        batch, log = self._batch, self._log
        self._pass(self._planned)
        # Who ends makes room first, so that fewer must give theirs up.
        for request in batch.ended():
            log.ended[request] = self._boundary
            self._bound.pop(request, None)
            self.done(self._boundary, request)
        self._count()
        for request in batch.overfull():
            tokens, answer = batch.drop(request)
            self._waiting.appendleft(Sequence(request, tokens, answer, tokens, self._bound.get(request, -1)))
            log.preempted[request] += 1
            self.usage.preemption(self._boundary)
        # `_admit` measures where somebody came; who left counts, too.
        if not self._admit():
            batch.measure()
        self._plan()

    def lose(self, now: float) -> list[int]:
        """The server dies: the requests that were with it."""
        self._catch_up(now)
        lost = [*self._batch.running, *(sequence.request for sequence in self._waiting)]
        self._batch.clear()
        self._waiting.clear()
        self._bound.clear()
        self._joined.clear()
        self._planned = 0
        self._version += 1
        self.deaths += 1
        self.alive = False
        self._count()
        return lost

    def come_back(self, now: float) -> None:
        """The server answers again."""
        self.alive, self._boundary = True, now
