"""A server that takes prompts in with the passes that answer others.

Every pass carries the running sequences and, of each rank's queue, up to the budget of prompt tokens, first in, first
out. A prompt begins when its rank has a place and room for its cache. Where no prompts wait, passes are counted in one
go until a sequence ends, as in decode.
"""

from collections.abc import Callable
from typing import Any

from planner.domain.fleet import ReplayPool
from planner.replay.curves import ChunkTimes
from planner.replay.requests import Events, RequestLog, RequestTable
from planner.replay.stations.batch import Batch
from planner.replay.stations.caches import Stores
from planner.replay.stations.usage import PromptQueues

_PromptTaken = tuple[int, int, int, int]  # request, rank, tokens of its context, tokens to come


class MixedServer(PromptQueues):
    """One copy of the model. `work`: outstanding prompt tokens over its speed (ms), and what its running sequences
    weigh beside them; `queue`: requests that are here."""

    __slots__ = (
        "_batch",
        "_begun",
        "_boundary",
        "_chunks",
        "_coming",
        "_first",
        "_heard",
        "_planned",
        "_taking",
        "_token_ms",
        "_tokens",
        "done",
        "speed",
    )

    def __init__(
        self,
        number: int,
        pool: ReplayPool,
        requests: RequestTable,
        log: RequestLog,
        events: Events,
        done: Callable[[float, int], None],
        mean_row: int,
        taken_in: Callable[[int], None] = lambda _: None,
        stores: Stores | None = None,
    ) -> None:
        assert pool.chunks is not None, "mixed servers have curves of their chunks"
        super().__init__(number, pool, requests, log, events, stores or {})
        self.done, self._heard = done, taken_in
        self._begun: dict[int, float] = {}  # requests whose prompts are taken in, with their caches (GB)
        self._coming = [0] * pool.ranks  # how many of them a rank has
        self._taking: list[_PromptTaken] = []
        self._batch = Batch(pool)
        self._chunks = ChunkTimes(pool.chunks)
        self._first = (pool.first_ms, pool.first_passes)
        self._boundary = self._tokens = 0.0
        self._planned = 0
        # Routers know one speed: that of full chunks beside a batch that is half full.
        half = max(1.0, pool.batch / 2)
        added = self._chunks.added_ms(half, self._budget, ((mean_row, 1.0),), 1.0)
        self.speed, self._token_ms = pool.ranks * self._budget / added, added / self._budget

    @property
    def work(self) -> float:
        """Prompt tokens that wait, over the speed (ms); the share of places in use decides between equals."""
        return self._tokens / self.speed + self._batch.load / (self.ranks * self._batch.limit)

    @property
    def queue(self) -> int:
        """Requests that are here."""
        return self._batch.load + len(self._taking) + sum(map(len, self.queues)) + sum(map(len, self._loading))

    @property
    def load(self) -> float:
        """Sequences that are here, over places."""
        return self.queue / (self.ranks * self._batch.limit)

    def emptiest_rank(self) -> int:
        """The rank with the fewest waiting tokens, among equals that with the fewest sequences."""
        if self.ranks == 1:
            return 0
        # Running tokens are not counted: ranks that step together would take turns at being full.
        counts, waiting = self._batch.counts, self._waiting
        return min(range(self.ranks), key=lambda rank: (waiting[rank], counts[rank]))

    def add(self, now: float, request: int, rank: int, tokens: float) -> None:
        """A prompt with `tokens` that are in no cache joins a rank's queue."""
        self._waiting[rank] += tokens
        self._tokens += tokens
        prompt = [request, tokens, self._requests.prompt[request], self._requests.answer[request]]
        self._queue(now, rank, prompt, tokens * self._token_ms)

    def _joined(self, now: float) -> None:
        if self._planned < 0:
            return  # a pass with prompts is under way, and looks at the queues when it ends
        self._catch_up(now)
        self._version += 1
        self._planned = -1
        self._events.at(self._boundary, self._pass, self._version)

    def _catch_up(self, now: float) -> None:
        """To the first boundary between passes that is not before `now`."""
        if not self._batch.load:
            self._boundary = max(self._boundary, now)
        elif now > self._boundary:
            self._count(min(self._batch.passes_within(now - self._boundary), self._planned))

    def _count(self, passes: int) -> None:
        """Passes of sequences alone are done."""
        length = self._batch.time_of(passes)
        self._planned -= passes
        self._advance(passes, length)

    def _advance(self, passes: int, length_ms: float) -> None:
        batch = self._batch
        before = batch.kv_share
        batch.advance(passes)
        self.usage.passes(self._boundary, length_ms, batch.load / batch.ranks, (before, batch.kv_share))
        self._boundary += length_ms

    def _change(self, _: float, version: int) -> None:
        """Passes of sequences alone come to an end."""
        if version == self._version:
            self._count(self._planned)
            self._pass(self._boundary, version)

    def _pass(self, _: Any, version: int) -> None:
        """Between two passes: who has ended leaves, prompts are taken in, and the next pass begins."""
        if version != self._version:
            return
        batch = self._batch
        self._leave()
        parts, ending, fullest, all_tokens = self._take()
        batch.measure()
        if parts:
            load = (max(batch.counts) + batch.load / self.ranks) / 2
            chunk = (fullest + all_tokens / self.ranks) / 2
            length = batch.next_ms + self._chunks.added_ms(load, chunk, parts, all_tokens)
            self.usage.step(self._boundary, 0.0, all_tokens / self.ranks)
            self._planned, self._taking = -1, ending
            self._events.at(self._boundary + length, self._taken_in, (version, length))
        elif batch.load:
            self._planned = batch.until_change()
            self._events.at(self._boundary + batch.time_of(self._planned), self._change, version)
        else:
            self._planned = 0

    def _leave(self) -> None:
        batch, log = self._batch, self._log
        for request in batch.ended():
            self._end(request)
        for request in batch.overfull():
            tokens, answer = batch.drop(request)
            rank = min(range(self.ranks), key=self._waiting.__getitem__)
            queue = self.queues[rank]
            # Before all others, but for a prompt that is half taken in: it holds its room already.
            queue.insert(1 if queue and queue[0][0] in self._begun else 0, [request, tokens, tokens, answer])
            self._waiting[rank] += tokens
            self._tokens += tokens
            log.preempted[request] += 1
            self.usage.preemption(self._boundary)

    def _end(self, request: int) -> None:
        """A last token comes; what the first one takes beside its prompt's passes delays all tokens alike."""
        log = self._log
        log.ended[request] = self._boundary + (log.first[request] - log.placed[request])
        self.done(log.ended[request], request)

    def _take(self) -> tuple[list[tuple[int, float]], list[_PromptTaken], float, float]:
        """(parts of prompts, prompts that end with rank, context and answer, tokens of the fullest rank, of all)."""
        parts: list[tuple[int, float]] = []
        ending: list[_PromptTaken] = []
        fullest = tokens_of_all = 0.0
        rows, started = self._requests.row, self._log.started
        for rank, queue in enumerate(self.queues):
            room = self._budget
            while queue and room > 0:
                head = queue[0]
                request, unread, context = int(head[0]), head[1], int(head[2])
                if request not in self._begun:
                    if not self._begins(request, rank, context):
                        break
                    if started[request] != started[request]:  # NaN: not yet
                        started[request] = self._boundary
                part = min(unread, room)
                if part < unread:
                    head[1] = unread - part
                else:
                    queue.popleft()
                    ending.append((request, rank, context, int(head[3])))
                room -= part
                parts.append((rows[request], part))
            load = self._budget - room
            tokens_of_all += load
            fullest = max(fullest, load)
            # Differences leave rounding behind: an empty queue sheds it.
            self._waiting[rank] = self._waiting[rank] - load if queue or self._loading[rank] else 0.0
        return parts, ending, fullest, tokens_of_all

    def _begins(self, request: int, rank: int, context: int) -> bool:
        """Whether a prompt gets a place and room for its cache; one alone on its rank always does."""
        batch = self._batch
        sequences = batch.counts[rank] + self._coming[rank]
        needed = batch.gb_of(context)
        if sequences >= batch.limit or (sequences and batch.used_gb(rank) + needed > batch.free_gb):
            return False
        self._begun[request] = needed
        self._coming[rank] += 1
        batch.held_gb[rank] += needed
        return True

    def _ends(self, request: int, rank: int) -> None:
        """A prompt is taken in."""
        self._coming[rank] -= 1
        self._batch.held_gb[rank] -= self._begun.pop(request)
        if not self._coming[rank]:
            self._batch.held_gb[rank] = 0.0

    def _taken_in(self, now: float, step: tuple[int, float]) -> None:
        version, length = step
        if version != self._version:
            return
        batch, log = self._batch, self._log
        self._advance(1, length)
        now = self._boundary
        # Added up anew, as differences would pile up rounding pass by pass.
        self._tokens = sum(self._waiting)
        ending, self._taking = self._taking, []
        fixed, passes = self._first
        for request, rank, context, answer in ending:
            self._ends(request, rank)
            self._heard(request)
            if log.first[request] != log.first[request]:  # NaN: not yet; else it was preempted
                log.prefilled[request] = log.arrived[request] = log.placed[request] = now
                log.first[request] = now + fixed + passes * length
            if answer > 1:
                # The first token came out of the prompt's last pass.
                batch.place(request, rank, context, answer - 1)
            else:
                self._end(request)
        self._pass(now, version)

    def lose(self, now: float) -> list[int]:
        """The server dies: the requests that were with it."""
        if self._planned >= 0:
            self._catch_up(now)
        lost = [*self._batch.running, *(request for request, *_ in self._taking)]
        self._batch.clear()
        self._taking = []
        self._begun.clear()
        self._coming = [0] * self.ranks
        self._tokens, self._planned = 0.0, 0
        return lost + self._lose_queues()

    def come_back(self, now: float) -> None:
        """The server takes requests again."""
        self.alive, self._boundary = True, now
