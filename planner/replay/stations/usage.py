"""What servers keep: how busy they are (sums over the time that counts); those that take prompts in, queues and caches.

Of a cache's blocks the least recently used ones go first. A prompt finds its leading blocks up to the first that is
missing; then all its blocks are the last used, the first of them last, as engines give up the end of a prompt before
its beginning.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from math import inf

from planner.domain.fleet import ReplayPool
from planner.replay.requests import Events, RequestLog, RequestTable


class Usage:
    """Sums between the moments `since` and `until` (ms).

    `busy_ms`: with a step under way. `tokens`, `steps`: prompt tokens of a rank, of steps that begin in this time.
    `batch_ms`, `kv_ms`: sequences of a rank, and the share of its room for caches, times how long; `most_kv`.
    `preempted`: sequences."""

    __slots__ = ("batch_ms", "busy_ms", "kv_ms", "most_kv", "preempted", "since", "steps", "tokens", "until")

    def __init__(self) -> None:
        self.since, self.until = 0.0, inf
        self.busy_ms = self.tokens = self.batch_ms = self.kv_ms = self.most_kv = 0.0
        self.steps = self.preempted = 0

    def step(self, start: float, length_ms: float, tokens: float) -> None:
        """A step that takes so many prompt tokens a rank in."""
        self.busy_ms += self._inside(start, length_ms)
        if self.since <= start < self.until:
            self.tokens += tokens
            self.steps += 1

    def passes(self, start: float, length_ms: float, batch: float, kv: tuple[float, float]) -> None:
        """Passes of `batch` sequences a rank; `kv`: share of the room for caches in use before and after them."""
        inside = self._inside(start, length_ms)
        if inside > 0:
            self.busy_ms += inside
            self.batch_ms += batch * inside
            self.kv_ms += (kv[0] + kv[1]) / 2 * inside
            self.most_kv = max(self.most_kv, kv[1])

    def preemption(self, now: float) -> None:
        """A sequence gives up its place."""
        if self.since <= now < self.until:
            self.preempted += 1

    def _inside(self, start: float, length_ms: float) -> float:
        """What of a span of time counts (ms)."""
        if start >= self.since and start + length_ms <= self.until:
            return length_ms
        return max(0.0, min(start + length_ms, self.until) - max(start, self.since))


class PrefixCache:
    """At most `tokens` tokens in whole blocks."""

    __slots__ = ("_blocks", "_tokens")

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def matched(self, blocks: Sequence[int]) -> int:
        """Leading blocks that are here."""
        stored, count = self._blocks, 0
        for block in blocks:
            if block not in stored:
                break
            count += 1
        return count

    def use(self, blocks: Sequence[int], block_tokens: int) -> None:
        """Take the blocks in."""
        stored = self._blocks
        for block in reversed(blocks):
            stored[block] = None
            stored.move_to_end(block)
        block_limit = self._tokens // block_tokens
        while len(stored) > block_limit:
            stored.popitem(last=False)

    def clear(self) -> None:
        """All is lost."""
        self._blocks.clear()


class PromptQueues:
    """What servers that take prompts in have alike: of each rank a queue, its waiting tokens and a prefix cache."""

    __slots__ = (
        "_budget",
        "_events",
        "_log",
        "_next_rank",
        "_requests",
        "_version",
        "_waiting",
        "alive",
        "caches",
        "deaths",
        "pool",
        "queues",
        "ranks",
        "usage",
    )

    def __init__(self, number: int, pool: ReplayPool, requests: RequestTable, log: RequestLog, events: Events) -> None:
        self.pool, self.ranks, self.alive = number, pool.ranks, True
        self.queues: list[deque[list[float]]] = [deque() for _ in range(pool.ranks)]
        self.usage = Usage()
        self.caches = [PrefixCache(pool.cache_tokens) for _ in range(pool.ranks)] if pool.cache_tokens else []
        self._waiting = [0.0] * pool.ranks
        self._budget = float(pool.budget)
        self._requests, self._log, self._events = requests, log, events
        self._next_rank = self._version = self.deaths = 0

    def rank_in_turn(self) -> int:
        """The next rank."""
        self._next_rank = rank = (self._next_rank + 1) % self.ranks
        return rank

    def _lose_queues(self) -> list[int]:
        """The server dies: the requests that waited. Events that it asked for are of an earlier version then."""
        lost = [int(head[0]) for queue in self.queues for head in queue]
        for queue in self.queues:
            queue.clear()
        for cache in self.caches:
            cache.clear()
        self._waiting = [0.0] * self.ranks
        self.alive = False
        self._version += 1
        self.deaths += 1
        return lost
