"""What servers keep: how busy they are (sums over the time that counts); those that take prompts in, queues and caches.

Prompts whose caches are being loaded are passed over, and take their place in the queue again when they may be
computed, as engines do (SGLang's prefetches, vLLM's WAITING_FOR_REMOTE_KVS).
"""

from collections import deque
from math import inf, isnan

from planner.domain.fleet import ReplayPool
from planner.replay.requests import Events, RequestLog, RequestTable
from planner.replay.stations.caches import RankCaches, Stores


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


class PromptQueues:
    """What servers that take prompts in have alike: of each rank a queue, its waiting tokens, prefix caches and the
    prompts whose caches are being loaded."""

    __slots__ = (
        "_budget",
        "_events",
        "_loading",
        "_log",
        "_next_rank",
        "_order",
        "_requests",
        "_tiers",
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

    def __init__(
        self, number: int, pool: ReplayPool, requests: RequestTable, log: RequestLog, events: Events, stores: Stores
    ) -> None:
        self.pool, self.ranks, self.alive = number, pool.ranks, True
        self.queues: list[deque[list[float]]] = [deque() for _ in range(pool.ranks)]
        self.usage = Usage()
        cached = pool.cache_tokens or pool.tiers
        self.caches = [RankCaches(pool, stores) for _ in range(pool.ranks)] if cached else []
        self._tiers = tuple(tier.name for tier in pool.tiers)
        self._order: dict[int, int] = {}
        self._loading: list[set[int]] = [set() for _ in range(pool.ranks)]
        self._waiting = [0.0] * pool.ranks
        self._budget = float(pool.budget)
        self._requests, self._log, self._events = requests, log, events
        self._next_rank = self._version = self.deaths = 0

    def rank_in_turn(self) -> int:
        """The next rank."""
        self._next_rank = rank = (self._next_rank + 1) % self.ranks
        return rank

    def _queue(self, now: float, rank: int, prompt: list[float], alone_ms: float) -> None:
        """A prompt (its request first) joins a rank's queue, at once or when what it finds in tiers is there; the rest
        of it takes `alone_ms` to compute."""
        loads, request = self._log.loads, int(prompt[0])
        loaded = [loads[tier][request] for tier in self._tiers]
        ready_ms = self.caches[rank].ready_ms(now, loaded, alone_ms) if any(loaded) else now
        if self._tiers:
            self._order[request] = len(self._order)
        if ready_ms > now:
            self._loading[rank].add(request)
            self._events.at(ready_ms, self._loaded, (rank, prompt, self.deaths))
        else:
            self.queues[rank].append(prompt)
            self._joined(now)

    def _loaded(self, now: float, load: tuple[int, list[float], int]) -> None:
        """A prompt may be computed, before those that came later and have not begun."""
        rank, prompt, deaths = load
        if deaths != self.deaths:
            return  # lost with its server
        request, queue, order, started = int(prompt[0]), self.queues[rank], self._order, self._log.started
        self._loading[rank].remove(request)
        place = len(queue)
        while place and order[other := int(queue[place - 1][0])] > order[request] and isnan(started[other]):
            place -= 1
        queue.insert(place, prompt)
        self._joined(now)

    def _joined(self, now: float) -> None:
        """A queue has a prompt more."""
        raise NotImplementedError

    def _lose_queues(self) -> list[int]:
        """The server dies: the requests that waited. Events that it asked for are of an earlier version then."""
        lost = [int(head[0]) for queue in self.queues for head in queue]
        lost += (request for loading in self._loading for request in sorted(loading))
        for queue in self.queues:
            queue.clear()
        for loading in self._loading:
            loading.clear()
        self._order.clear()
        for cache in self.caches:
            cache.clear()
        self._waiting = [0.0] * self.ranks
        self.alive = False
        self._version += 1
        self.deaths += 1
        return lost
