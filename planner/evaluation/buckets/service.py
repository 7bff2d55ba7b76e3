"""Pools as they are deployed: the rate that they reach together, and the times that requests see.

Everything follows from the pools themselves (GPU types, server configurations, counts, buckets): the programme that
chose them is not asked. X, which the programme had to guess, is known here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import CostContext
from planner.cost.serving import Buckets, DecodeServers, Levels, PrefillServers, RestOfStep, late_share
from planner.domain import (
    BucketLatency,
    BucketPool,
    LoadPoint,
    NodeLoss,
    Phase,
    Question,
    Reach,
)

FULL = 1 - 1e-9
SLOW_MOMENTS = 2.33  # standard deviations of P99
MEDIAN, LATE = 0.5, 0.01
_HALVINGS = 40
_POISSON = 1.0
Key = tuple[Phase, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPools:
    """Pools with their capacities and shares, and what they serve together (requests/s of the whole mix)."""

    pools: tuple[BucketPool, ...]
    prefill_rps: float
    decode_rps: float

    def phase_rps(self, phase: Phase) -> float:
        """What one phase could serve."""
        return self.prefill_rps if phase is Phase.PREFILL else self.decode_rps

    @property
    def rate_rps(self) -> float:
        """The lower of both phases."""
        return min(self.prefill_rps, self.decode_rps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """The pools of one bucket of a phase, priced."""

    key: Key
    pools: tuple[BucketPool, ...]
    servers: tuple[PrefillServers | DecodeServers, ...]
    buckets: Buckets
    levels: Levels

    @property
    def probability(self) -> float:
        return float(self.buckets.probabilities[0])

    @property
    def together_rps(self) -> float:
        """X."""
        return sum(pool.count * pool.full_rps for pool in self.pools)

    @property
    def rate_rps(self) -> float:
        """Of the whole mix."""
        return sum(pool.count * pool.capacity_rps for pool in self.pools) / self.probability


class BucketService:
    """Prices of pools, for one question. `reaches`: where the islands of placed pools lie, by island."""

    def __init__(self, question: Question, reaches: Mapping[str, Reach] | None = None) -> None:
        self.question = question
        self._reaches = reaches or {}

    def priced(self, pools: Iterable[BucketPool], variation: float = _POISSON) -> PricedPools:
        """The pools at work together; `variation`: squared variation of the gaps between arrivals.

        Where a share of the rate has to survive the loss of nodes, servers are used as far as the others can stand in.
        """
        mine, share = tuple(pools), self.question.scenario.survive.share
        unbroken = self._unbroken(mine, variation)
        if not share or not unbroken.rate_rps:
            return unbroken
        left = [self._without(mine, number, variation)[1] for number in range(len(mine))]
        used = {
            phase: min(1.0, *(after.phase_rps(phase) / share / unbroken.phase_rps(phase) for after in left))
            for phase in Phase
        }
        return PricedPools(
            pools=tuple(replace(pool, capacity_rps=used[pool.phase] * pool.capacity_rps) for pool in unbroken.pools),
            prefill_rps=used[Phase.PREFILL] * unbroken.prefill_rps,
            decode_rps=used[Phase.DECODE] * unbroken.decode_rps,
        )

    def _unbroken(self, pools: Iterable[BucketPool], variation: float = _POISSON) -> PricedPools:
        buckets = self._buckets(pools, variation)
        rates = {
            phase: min((bucket.rate_rps for bucket in buckets if bucket.key[0] is phase), default=0.0)
            for phase in Phase
        }
        return PricedPools(
            pools=tuple(pool for bucket in buckets for pool in _shared(bucket)),
            prefill_rps=rates[Phase.PREFILL],
            decode_rps=rates[Phase.DECODE],
        )

    def _without(
        self, pools: Sequence[BucketPool], number: int, variation: float = _POISSON, nodes: int | None = None
    ) -> tuple[int, PricedPools]:
        """(servers that one pool loses with its nodes, what all serve without them)."""
        pool, lost_nodes = pools[number], nodes or self.question.scenario.survive.nodes
        host = self.question.scenario.inventory.item(pool.gpu).gpu.gpus_per_host
        lost = min(pool.count, lost_nodes * max(1, host // pool.server.parallel.devices))
        others = [other for k, other in enumerate(pools) if k != number]
        smaller = [replace(pool, count=pool.count - lost)] if lost < pool.count else []
        after = self._unbroken([*others, *smaller], variation)
        if (pool.phase, pool.start) in {(p.phase, p.start) for p in (*others, *smaller)}:
            return lost, after
        if pool.phase is Phase.PREFILL:
            return lost, replace(after, prefill_rps=0.0)
        return lost, replace(after, decode_rps=0.0)

    def _buckets(self, pools: Iterable[BucketPool], variation: float = _POISSON) -> list[_Bucket]:
        grouped: dict[Key, list[BucketPool]] = {}
        for pool in pools:
            grouped.setdefault((pool.phase, pool.start, pool.end), []).append(pool)
        return [
            self._bucket(key, mine, variation)
            for key, mine in sorted(grouped.items(), key=lambda item: _order(item[0]))
        ]

    def _bucket(self, key: Key, pools: Sequence[BucketPool], variation: float) -> _Bucket:
        _, start, end = key
        workload, scenario = self.question.workload, self.question.scenario
        rows = [j for j, span in enumerate(workload.ranges) if start <= span.start and span.end <= end]
        buckets = Buckets.of(workload, [(rows[0], rows[-1] + 1)])
        late = pools[0].late_share
        levels = Levels.of(scenario.slo, workload, None if late is None else np.array([late]))
        servers = tuple(self._servers(pool, buckets) for pool in pools)
        full = [self._full(pool, mine, buckets, levels) for pool, mine in zip(pools, servers, strict=True)]
        together = np.array([sum(pool.count * rate for pool, rate in zip(pools, full, strict=True))])
        capped = [
            self._capped(pool, mine, buckets, levels, together, variation)
            for pool, mine in zip(pools, servers, strict=True)
        ]
        priced = tuple(
            replace(pool, full_rps=all_of_it, capacity_rps=rate)
            for pool, all_of_it, rate in zip(pools, full, capped, strict=True)
        )
        return _Bucket(key=key, pools=priced, servers=servers, buckets=buckets, levels=levels)

    def _servers(self, pool: BucketPool, buckets: Buckets) -> PrefillServers | DecodeServers:
        scenario = self.question.scenario
        reach = self._reaches.get(pool.island)
        context = CostContext(
            gpu=scenario.inventory.item(pool.gpu).gpu,
            model=scenario.model,
            settings=scenario.cost if reach is None else replace(scenario.cost, reach=reach),
        )
        server = pool.server
        if pool.phase is Phase.PREFILL:
            return PrefillServers.of(context, [(server.parallel, server.tokens_per_step, server.overlapped)], buckets)
        longest = self.question.workload.max_output_tokens
        return DecodeServers.of(context, [(server.parallel, server.overlapped)], buckets, longest)

    @staticmethod
    def _full(pool: BucketPool, servers: PrefillServers | DecodeServers, buckets: Buckets, levels: Levels) -> float:
        if isinstance(servers, PrefillServers):
            return float(servers.full_rps(buckets)[0, 0])
        return float(servers.batches(buckets, levels, pool.server.batch_size)[1][0, 0])

    @staticmethod
    def _capped(
        pool: BucketPool,
        servers: PrefillServers | DecodeServers,
        buckets: Buckets,
        levels: Levels,
        together: np.ndarray,
        variation: float,
    ) -> float:
        if not together[0] > 0:
            return 0.0
        if isinstance(servers, PrefillServers):
            return float(servers.capped_rps(buckets, levels, together, variation)[0, 0])
        return float(servers.capped_rps(buckets, levels, together, pool.server.batch_size)[1][0, 0])

    def latencies(self, pools: Iterable[BucketPool], rates: Mapping[LoadPoint, float]) -> tuple[BucketLatency, ...]:
        """TTFT of every prefill bucket and TPOT of every decode bucket at these rates of the whole mix."""
        buckets = self._buckets(pools)
        return tuple(row for load, rate in rates.items() for row in _latencies(load, rate, buckets))

    def losses(self, pools: Sequence[BucketPool], nodes: int) -> Iterator[NodeLoss]:
        """What remains when one pool loses the servers of so many nodes."""
        for number, pool in enumerate(pools):
            lost, after = self._without(pools, number, nodes=nodes)
            yield NodeLoss(island=pool.island, nodes=nodes, servers=lost, rate_rps=after.rate_rps)


def _order(key: Key) -> tuple[bool, int, int]:
    phase, start, end = key
    return phase is Phase.DECODE, start, end


def _shared(bucket: _Bucket) -> Iterator[BucketPool]:
    whole = bucket.rate_rps * bucket.probability
    for pool in bucket.pools:
        yield replace(pool, share=pool.count * pool.capacity_rps / whole if whole else 0.0)


def _latencies(load: LoadPoint, rate: float, buckets: Sequence[_Bucket]) -> Iterator[BucketLatency]:
    first_ms = max((_tpot(bucket, rate)[0] or 0.0 for bucket in buckets if bucket.key[0] is Phase.DECODE), default=0.0)
    for bucket in buckets:
        phase, start, end = bucket.key
        p50, p99 = _ttft(bucket, rate, first_ms) if phase is Phase.PREFILL else _tpot(bucket, rate)
        yield BucketLatency(load=load, rate_rps=rate, phase=phase, start=start, end=end, p50_ms=p50, p99_ms=p99)


def _rate_of_server(bucket: _Bucket, pool: BucketPool, rate: float) -> float:
    """Requests/s of the bucket that one server of the pool gets: by its capacity."""
    return rate * bucket.probability * pool.capacity_rps / (bucket.rate_rps * bucket.probability)


def _ttft(bucket: _Bucket, rate: float, first_ms: float) -> tuple[float | None, float | None]:
    """P50 and P99 over the requests of a bucket, those of its pools together."""
    rows: list[tuple[float, np.ndarray, np.ndarray, np.ndarray, RestOfStep]] = []
    for pool, servers in zip(bucket.pools, bucket.servers, strict=True):
        assert isinstance(servers, PrefillServers)
        served = _rate_of_server(bucket, pool, rate)
        if served > pool.full_rps * FULL:
            return None, None
        service, rho, tail, rest = servers.queue(
            bucket.buckets,
            np.array([[served]]),
            np.array([[pool.full_rps]]),
            np.array([bucket.together_rps]),
        )
        rows.append((pool.count * pool.capacity_rps, service + first_ms, rho, tail, rest))
    whole = sum(weight for weight, *_ in rows)

    def later(limit_ms: float) -> float:
        """Share of the requests whose TTFT passes the limit."""
        return sum(
            weight / whole * float(late_share(limit_ms - service, rho, tail, rest)[0, 0] @ bucket.buckets.weights[0])
            for weight, service, rho, tail, rest in rows
        )

    return _quantile(later, MEDIAN), _quantile(later, LATE)


def _quantile(later: object, misses: float) -> float:
    assert callable(later)
    high = 1.0
    while later(high) > misses:
        high *= 2
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if later(middle) > misses else (low, middle)
    return high


def _tpot(bucket: _Bucket, rate: float) -> tuple[float | None, float | None]:
    """Times per output token at the mean load, and at a load that 1 % of the moments pass, of the slowest pool."""
    times = []
    for pool, servers in zip(bucket.pools, bucket.servers, strict=True):
        assert isinstance(servers, DecodeServers)
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
