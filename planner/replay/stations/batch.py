"""The sequences that a server answers at once, and how long its passes take.

| symbol | meaning | unit |
|---|---|---|
| R, b[r], B | ranks of the server, sequences of a rank, all of them | 1 |
| S | passes since the start; every sequence gains g tokens a pass | 1 |
| c | mean cached tokens of a sequence | tokens |
| d, e | next pass, and what every later one takes more, as contexts grow | ms |

All ranks start their passes together. A pass takes t(c, (max b + B / R) / 2): the mean of the fullest rank and the mean
one, as in prefill. k passes without a change take k d + e k (k - 1) / 2, so that only changes are events.
"""

from heapq import heappop, heappush
from itertools import repeat
from math import ceil, sqrt
from operator import add, mul

from planner.domain.fleet import ReplayPool
from planner.replay.curves import AnswerTimes, cache_gb

MOST_PASSES = 256  # at a time: the slope of a pass over contexts is that of where they are
_SAME = 1e-9  # of tokens: less than that is rounding


class Batch:
    """Sequences of one server. `passes` counts S, `load` B; `counts[r]` is b[r]. `_used[r]` is what rank r's caches
    would be at S = 0, and `_growth[r]` what they gain a pass; `held_gb[r]`: caches of prompts that it has begun."""

    __slots__ = (
        "_answers",
        "_context",
        "_ending",
        "_growth",
        "_room",
        "_running",
        "_sizes",
        "_used",
        "counts",
        "extra_ms",
        "free_gb",
        "held_gb",
        "limit",
        "load",
        "next_ms",
        "passes",
        "ranks",
    )

    def __init__(self, pool: ReplayPool) -> None:
        assert pool.answers is not None, "servers that answer have curves of their passes"
        assert pool.room is not None, "servers that answer have room for caches"
        self._answers = AnswerTimes(pool.answers)
        self._room = pool.room
        self._sizes: dict[int, float] = {}  # caches by their tokens
        self.ranks, self.limit, self.free_gb = pool.ranks, pool.batch, pool.room.free_gb
        self.clear()

    def clear(self) -> None:
        """Nothing runs."""
        self.counts = [0] * self.ranks
        self._used, self._growth, self.held_gb = ([0.0] * self.ranks for _ in range(3))
        self._context = 0.0
        self._ending: list[tuple[int, int]] = []
        self._running: dict[int, tuple[int, int, float, float, float]] = {}
        self.load = self.passes = 0
        self.next_ms = self.extra_ms = 0.0

    @property
    def gain(self) -> float:
        """g."""
        return self._answers.gain

    @property
    def running(self) -> list[int]:
        """The requests that are answered."""
        return list(self._running)

    def rank_for(self, tokens: int) -> int:
        """The rank with the fewest sequences that has a place and room for so many tokens; -1: none."""
        counts = self.counts
        rank = counts.index(min(counts))
        if counts[rank] >= self.limit:
            return -1
        needed = self.gb_of(tokens)
        # Alone on its rank a sequence always gets in: else one that is too long would wait for ever.
        if not counts[rank] or self.used_gb(rank) + needed <= self.free_gb:
            return rank
        for other in sorted(range(self.ranks), key=self.used_gb):
            if counts[other] < self.limit and self.used_gb(other) + needed <= self.free_gb:
                return other
        return -1

    def takes(self, rank: int, tokens: int) -> bool:
        """Whether that rank has a place and room for so many tokens; alone on it a sequence always gets in."""
        count = self.counts[rank]
        return not count or (count < self.limit and self.used_gb(rank) + self.gb_of(tokens) <= self.free_gb)

    def gb_of(self, tokens: int) -> float:
        """Cache of a sequence of so many tokens."""
        gb = self._sizes.get(tokens)
        if gb is None:
            gb = self._sizes[tokens] = cache_gb(self._room, tokens)
        return gb

    def used_gb(self, rank: int) -> float:
        """Caches of a rank's sequences, and of prompts that it has begun."""
        return self._used[rank] + self._growth[rank] * self.passes + self.held_gb[rank]

    @property
    def kv_share(self) -> float:
        """Of all room, in use."""
        used = sum(self._used) + sum(self._growth) * self.passes + sum(self.held_gb)
        return used / (self.free_gb * self.ranks) if self.free_gb else 0.0

    def place(self, request: int, rank: int, tokens: int, answer: int) -> None:
        """A sequence of `tokens` begins; `answer` tokens are to come."""
        gain, passes = self._answers.gain, self.passes
        needed = ceil(answer / gain)
        base = self.gb_of(tokens)
        growth = (self.gb_of(tokens + answer) - base) / needed
        before = tokens - gain * passes
        self.counts[rank] += 1
        self.load += 1
        self._used[rank] += base - growth * passes
        self._growth[rank] += growth
        self._context += before
        end = passes + needed
        self._running[request] = (end, rank, before, base - growth * passes, growth)
        heappush(self._ending, (end, request))

    def drop(self, request: int) -> tuple[int, int]:
        """A sequence gives up its place; (tokens of its context, tokens that are to come)."""
        end, rank, before, used, growth = self._running.pop(request)
        self.counts[rank] -= 1
        self.load -= 1
        self._used[rank] -= used
        self._growth[rank] -= growth
        self._context -= before
        # Differences leave rounding behind: an empty rank sheds it.
        if not self.counts[rank]:
            self._used[rank] = self._growth[rank] = 0.0
        gain = self._answers.gain
        return int(before + gain * self.passes + _SAME), int((end - self.passes) * gain + _SAME)

    def ended(self) -> list[int]:
        """Those whose last token came with this pass; they are gone."""
        ending, running, requests = self._ending, self._running, []
        while ending and ending[0][0] <= self.passes:
            end, request = heappop(ending)
            # The heap may still have an earlier stay of a request that was preempted.
            if request in running and running[request][0] == end:
                self.drop(request)
                requests.append(request)
        return requests

    def measure(self) -> None:
        """How long passes take from here on."""
        load, answers = self.load, self._answers
        if not load:
            self.next_ms = self.extra_ms = 0.0
            return
        context = self._context / load + answers.gain * self.passes
        self.next_ms, slope = answers.pass_ms(context, (max(self.counts) + load / self.ranks) / 2)
        self.extra_ms = slope * answers.gain

    def until_change(self) -> int:
        """Passes until a sequence ends or a rank's caches outgrow its room, at most `MOST_PASSES`."""
        ending = self._ending
        while ending and (ending[0][1] not in self._running or self._running[ending[0][1]][0] != ending[0][0]):
            heappop(ending)
        passes = min(ending[0][0] - self.passes, MOST_PASSES)
        then, free = self.passes + passes, self.free_gb
        # Mostly no rank outgrows its room: one look at all of them spares the loop.
        if max(map(add, self._used, map(mul, self._growth, repeat(then)))) <= free:
            return passes
        for rank, (used, growth) in enumerate(zip(self._used, self._growth, strict=True)):
            if used + growth * then > free and growth and self.counts[rank] > 1:
                passes = max(1, min(passes, int((free - self.used_gb(rank)) / growth) + 1))
        return passes

    def passes_within(self, span_ms: float) -> int:
        """How many passes have begun in so long."""
        # The quadratic of the time solved for k, in the form that loses no digits where the growth is small.
        first, more = self.next_ms - self.extra_ms / 2, 2 * self.extra_ms * span_ms
        return ceil(2 * span_ms / (first + sqrt(max(first * first + more, 0.0))) - 1e-9)

    def time_of(self, passes: int) -> float:
        """So many passes (ms)."""
        return passes * self.next_ms + self.extra_ms * passes * (passes - 1) / 2

    def advance(self, passes: int) -> None:
        """So many passes are done."""
        self.passes += passes
        self.next_ms += passes * self.extra_ms

    def overfull(self) -> list[int]:
        """The youngest sequences of ranks whose caches outgrew their room; the last one of a rank stays."""
        passes, free, leaving = self.passes, self.free_gb, list[int]()
        if max(map(add, self._used, map(mul, self._growth, repeat(passes)))) + max(self.held_gb) <= free:
            return leaving
        for rank, (base, gained, begun_gb) in enumerate(zip(self._used, self._growth, self.held_gb, strict=True)):
            used, sequences = base + gained * passes + begun_gb, self.counts[rank]
            if used <= free or sequences < 2:
                continue
            # The youngest first: a dict keeps the order in which they came.
            for request in reversed(self._running):
                _, of_rank, _, base_gb, growth = self._running[request]
                if of_rank == rank:
                    leaving.append(request)
                    used -= base_gb + growth * passes
                    sequences -= 1
                    if used <= free or sequences < 2:
                        break
        return leaving
