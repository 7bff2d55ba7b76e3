"""Times that requests see of the pools of a plan, by bucket, at a rate of the whole mix."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from planner.cost.serving import DecodeServers, MixedServers, PrefillServers, RestOfStep, WaitTail, late_share
from planner.domain import PHASES, BucketLatency, BucketPool, LoadPoint, Phase
from planner.evaluation.buckets.priced import PricedBucket, Span

FULL = 1 - 1e-9
SLOW_MOMENTS = 2.33  # standard deviations of P99
MEDIAN, LATE = 0.5, 0.01
_HALVINGS = 40

Times = tuple[float | None, float | None]
_Waits = tuple[np.ndarray, WaitTail, RestOfStep]
_Queue = tuple[float, np.ndarray, _Waits]  # weight of its requests, then as servers say


def latencies_at(load: LoadPoint, rate: float, buckets: Sequence[PricedBucket]) -> Iterator[BucketLatency]:
    """TTFT of every prefill bucket and TPOT of every decode bucket; P50 and P99 None where a queue has no end."""
    decoding = [bucket for bucket in buckets if bucket.phase is Phase.DECODE]
    first_ms = max((_tpot([bucket], rate)[0] or 0.0 for bucket in decoding), default=0.0)
    for phase in PHASES:
        for span, mine in _by_span(buckets, phase):
            p50, p99 = _ttft(mine, rate, first_ms) if phase is Phase.PREFILL else _tpot(mine, rate)
            start, end = span
            yield BucketLatency(load=load, rate_rps=rate, phase=phase, start=start, end=end, p50_ms=p50, p99_ms=p99)


def _by_span(buckets: Sequence[PricedBucket], phase: Phase) -> list[tuple[Span, list[PricedBucket]]]:
    """The buckets of a phase with the pools of that phase and of both."""
    spans: dict[Span, list[PricedBucket]] = {}
    for bucket in buckets:
        if bucket.phase in (phase, Phase.MIXED):
            spans.setdefault(bucket.span, []).append(bucket)
    return sorted(spans.items())


def _rate_of_server(bucket: PricedBucket, pool: BucketPool, rate: float) -> float:
    """Requests/s of the bucket that one server of the pool gets."""
    return rate * bucket.probability * pool.share / pool.count


def _ttft(groups: Sequence[PricedBucket], rate: float, first_ms: float) -> Times:
    """P50 and P99 over the requests of a bucket, those of its pools together."""
    queues: list[_Queue] = []
    for bucket in groups:
        for pool, servers in zip(bucket.pools, bucket.servers, strict=True):
            assert not isinstance(servers, DecodeServers)
            served = _rate_of_server(bucket, pool, rate)
            if served > pool.full_rps * FULL:
                return None, None
            if pool.share:
                queues.append(_queue(bucket, pool, servers, served, first_ms))
    weights = groups[0].buckets.weights[0]
    of_bucket = sum(weight for weight, *_ in queues)

    def later(limit_ms: float) -> float:
        """Share of the requests whose TTFT passes the limit."""
        return sum(part / of_bucket * _late(limit_ms - service, weights, *waits) for part, service, waits in queues)

    return _quantile(later, MEDIAN), _quantile(later, LATE)


def _late(slack: np.ndarray, weights: np.ndarray, rho: np.ndarray, tail: WaitTail, under_way: RestOfStep) -> float:
    """Share of a pool's requests whose wait passes the slack of their range."""
    return float(late_share(slack, rho, tail.at(slack @ weights), under_way)[0, 0] @ weights)


def _queue(
    bucket: PricedBucket, pool: BucketPool, servers: PrefillServers | MixedServers, served: float, first_ms: float
) -> _Queue:
    """A pool's queue; the first token of a split request comes with the first step of its decode."""
    service, rho, tail, under_way = servers.queue(
        bucket.buckets,
        np.array([[served]]),
        np.array([[pool.full_rps]]),
        np.array([bucket.together_rps]),
        bucket.arrivals,
    )
    later_ms = 0.0 if isinstance(servers, MixedServers) else first_ms
    return pool.share, service + later_ms, (rho, tail, under_way)


def _quantile(later: Callable[[float], float], misses: float) -> float:
    high = 1.0
    while later(high) > misses:
        high *= 2
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if later(middle) > misses else (low, middle)
    return high


def _tpot(groups: Sequence[PricedBucket], rate: float) -> Times:
    """Times per output token at the mean load, and at a load that 1 % of the moments pass, of the slowest pool."""
    times = []
    for bucket in groups:
        for pool, servers in zip(bucket.pools, bucket.servers, strict=True):
            assert not isinstance(servers, PrefillServers)
            served = np.array([[_rate_of_server(bucket, pool, rate)]])
            batch = np.array([[float(pool.server.batch_size)]])
            if served[0, 0] > pool.full_rps * (1 + 1e-9):
                return None, None
            times.append(
                tuple(
                    float(servers.tpot_ms(bucket.buckets, served, batch, deviations)[0, 0])
                    for deviations in (0.0, SLOW_MOMENTS)
                )
            )
    return max(mean for mean, _ in times), max(late for _, late in times)
