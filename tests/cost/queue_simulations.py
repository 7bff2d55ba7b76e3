"""Queues by discrete events: the truth that the formulas of waiting are held against."""

import heapq
from collections.abc import Sequence

import numpy as np

from planner.cost.arrays import Array


def arrivals(rate_per_ms: float, count: int, seed: int) -> Array:
    """Times of `count` Poisson arrivals (ms)."""
    return np.random.default_rng(seed).exponential(1 / rate_per_ms, count).cumsum()


def waits_before_servers(times_ms: Array, services_ms: Array, servers: int) -> Array:
    """First come, first served by whichever of the servers is free first."""
    free = [0.0] * servers
    waits = np.empty(len(times_ms))
    for k, (time, service) in enumerate(zip(times_ms.tolist(), services_ms.tolist(), strict=True)):
        start = max(time, free[0])
        heapq.heapreplace(free, start + service)
        waits[k] = start - time
    return waits


def waits_before_steps(times_ms: Array, places: int, interval_ms: Sequence[float]) -> Array:
    """A replica whose places start together: a step takes up to `places` of those who wait, and starts at once.

    `interval_ms[n - 1]`: a step of n prompts.
    """
    times, waits, clock, first = times_ms.tolist(), np.empty(len(times_ms)), 0.0, 0
    while first < len(times):
        clock = max(clock, times[first])
        after = first
        while after < len(times) and after - first < places and times[after] <= clock:
            waits[after] = clock - times[after]
            after += 1
        clock += interval_ms[after - first - 1]
        first = after
    return waits
