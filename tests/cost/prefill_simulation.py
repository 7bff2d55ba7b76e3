"""A pool of prefill servers by discrete events: what the formula of its cap is held against.

Requests come in Poisson, or with gamma gaps. A router sends each to the island with the fewest outstanding tokens, and
there to the rank with the fewest waiting ones. Ranks take prompts first in, first out, up to the budget, the last one
in part. The ranks of an island step together: a step takes the mean of what the fullest rank and the mean one need, and
the next starts after 1 / pace of that.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.cost.arrays import Array


@dataclass(slots=True)
class Island:
    """Ranks with the prompts that wait: (number of the request, tokens left)."""

    ranks: list[deque[tuple[int, float]]]
    waiting: list[float]
    outstanding: float = 0.0
    free_ms: float = 0.0
    running: list[tuple[float, list[int], float]] = field(default_factory=list)  # end, requests that end, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillPool:
    """Equal islands. `step_ms`: of so many tokens on a rank."""

    islands: int
    ranks: int
    budget: float
    pace: float
    step_ms: Callable[[float], float]

    def finished_ms(self, arrivals_ms: Sequence[float], tokens: Sequence[float]) -> Array:
        """When the last part of every prompt is done."""
        pool = [Island([deque() for _ in range(self.ranks)], [0.0] * self.ranks) for _ in range(self.islands)]
        done = np.full(len(arrivals_ms), np.nan)
        for request, (now, length) in enumerate(zip(arrivals_ms, tokens, strict=True)):
            for island in pool:
                self._advance(island, now, done)
            chosen = min(pool, key=lambda island: island.outstanding)
            rank = min(range(self.ranks), key=chosen.waiting.__getitem__)
            chosen.ranks[rank].append((request, length))
            chosen.waiting[rank] += length
            chosen.outstanding += length
            chosen.free_ms = max(chosen.free_ms, now)
        for island in pool:
            self._advance(island, np.inf, done)
        return done

    def _advance(self, island: Island, now: float, done: Array) -> None:
        """Start and end what starts and ends before `now`."""
        while True:
            while island.running and island.running[0][0] <= now:
                end, ending, tokens = island.running.pop(0)
                done[ending] = end
                island.outstanding -= tokens
            if island.free_ms >= now or not any(island.waiting):
                return
            self._step(island)

    def _step(self, island: Island) -> None:
        loads, ending = [], []
        for rank, queue in enumerate(island.ranks):
            room = self.budget
            while queue and room > 0:
                request, left = queue[0]
                part = min(left, room)
                room -= part
                if part < left:
                    queue[0] = (request, left - part)
                else:
                    queue.popleft()
                    ending.append(request)
            loads.append(self.budget - room)
            island.waiting[rank] = island.waiting[rank] - loads[-1] if queue else 0.0
        step = (self.step_ms(max(loads)) + self.step_ms(sum(loads) / len(loads))) / 2
        island.running.append((island.free_ms + step, ending, sum(loads)))
        island.free_ms += step / self.pace


def arrivals_ms(rate_rps: float, count: int, seed: int, variation: float = 1.0) -> list[float]:
    """Times with gaps of squared variation `variation`: gamma, for 1 exponential."""
    gaps = np.random.default_rng(seed).gamma(1 / variation, variation * 1000 / rate_rps, count)
    return [float(time) for time in gaps.cumsum()]
