"""The pools of one bucket and phase at what they can do together: X, which the programme had to guess, is known here.

Pools of both phases stand apart from those of one: each group has a queue of its own, and what the first leaves of a
bucket's requests the others share. Servers that take little in beside others shorten no wait of theirs: a pool sees no
larger X than if all of its bucket's requests had such servers as its own, as the programme does.

| symbol | meaning | unit |
|---|---|---|
| M, C[phase] | capacity of the mixed pools of a bucket, of its pools of one phase | requests/s |
| M / (M + min C) | share of its requests that mixed pools take, in both phases | 1 |
| n, f, c | servers of a pool, full rate of one, what one serves within the levels | 1, requests/s, requests/s |
| X[pool] | min(sum n f, f / c sum n c) | requests/s |
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import CostContext
from planner.cost.serving import (
    BATCHES,
    Arrivals,
    Buckets,
    DecodeServers,
    Kind,
    Levels,
    MixedServers,
    Parting,
    PrefillServers,
    parts_unevenly,
)
from planner.domain import PHASES, BucketPool, CountDispersion, Endpoints, Phase, Question, Reach, halves_of
from planner.domain.serving.routers import LEAST_WORK
from planner.units import MS_PER_S

Servers = PrefillServers | DecodeServers | MixedServers
Span = tuple[int, int]

APART = 0.99
"""Of X: a pool that sees no less sees X, which is within the room of the programme's prices."""
SETTLED = 1e-5
_ROUNDS = 30
_ALIKE_HALVINGS = 14  # of a rate: to a part in 16,000


MOST_KNOWN = 1000
"""Buckets of one fleet whose prices are kept."""

PricedKey = tuple[tuple[BucketPool, ...], CountDispersion | None, float | None]
"""Pools without their rates, how arrivals bunch, and what the first decode step takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedBucket:
    """The pools of one phase, or of both, on the prompts of `span`. `parted_rps`: X of each pool behind a router that
    parts requests otherwise than by speed."""

    phase: Phase
    span: Span
    pools: tuple[BucketPool, ...]
    servers: tuple[Servers, ...]
    buckets: Buckets
    arrivals: Arrivals
    parted_rps: tuple[float, ...] = ()

    @property
    def probability(self) -> float:
        """Of a request to be of the bucket."""
        return float(self.buckets.probabilities[0])

    @property
    def capacity_rps(self) -> float:
        """Requests/s of the bucket that its pools serve."""
        return sum(pool.count * pool.capacity_rps for pool in self.pools)

    @property
    def seen_rps(self) -> list[float]:
        """X of each pool."""
        if self.parted_rps:
            return list(self.parted_rps)
        pools = self.pools
        return _seen_rps([p.count for p in pools], [p.full_rps for p in pools], [p.capacity_rps for p in pools])


def serves(pool: BucketPool) -> frozenset[tuple[Phase, int]]:
    """Phases and starts of the buckets that a pool serves."""
    return frozenset((phase, pool.start) for phase in halves_of(pool.phase))


def priced_buckets(
    question: Question,
    pools: Iterable[BucketPool],
    counts: CountDispersion | None,
    reaches: Mapping[str, Reach],
    first_ms: float | None = None,
    priced_before: dict[PricedKey, PricedBucket] | None = None,
) -> list[PricedBucket]:
    """The pools by bucket, with their capacities and shares; `counts`: how arrivals bunch, Poisson where it is None;
    `first_ms`: what the first decode step takes of a TTFT, None: the bound on TPOT. `priced_before`: grows by these."""
    grouped: dict[tuple[Phase, int, int], list[BucketPool]] = {}
    for pool in pools:
        grouped.setdefault((pool.phase, pool.start, pool.end), []).append(pool)
    order = tuple(Phase)
    keys = sorted(grouped, key=lambda key: (order.index(key[0]), *key[1:]))
    priced_before = {} if priced_before is None else priced_before
    buckets = []
    for key in keys:
        pools_of = tuple(replace(pool, capacity_rps=0.0, full_rps=0.0, share=0.0) for pool in grouped[key])
        question_of = (pools_of, counts, first_ms)
        if question_of not in priced_before:
            if len(priced_before) >= MOST_KNOWN:  # a search may ask for thousands of layouts
                priced_before.clear()
            priced_before[question_of] = _priced(question, pools_of, counts, reaches, first_ms)
        buckets.append(priced_before[question_of])
    return list(_shared(buckets))


def phase_rps(buckets: Sequence[PricedBucket], phase: Phase) -> float:
    """What the pools of a phase and those of both serve of the whole mix: that of the slowest bucket."""
    spans = {bucket.span: bucket.probability for bucket in buckets if bucket.phase in (phase, Phase.MIXED)}
    rates = (
        sum(bucket.capacity_rps for bucket in buckets if bucket.span == span and bucket.phase in (phase, Phase.MIXED))
        / chance
        for span, chance in spans.items()
    )
    return min(rates, default=0.0)


def _shared(buckets: Sequence[PricedBucket]) -> Iterator[PricedBucket]:
    """The buckets with the shares of their pools."""
    for bucket in buckets:
        of_both = sum(b.capacity_rps for b in buckets if b.span == bucket.span and b.phase is Phase.MIXED)
        of_phase = {b.phase: b.capacity_rps for b in buckets if b.span == bucket.span}
        # beside mixed pools, those of one phase serve nothing without any of the other
        apart = min(of_phase.get(phase, 0.0) for phase in PHASES) if of_both else bucket.capacity_rps
        part = 1.0 if not of_both else (of_both if bucket.phase is Phase.MIXED else apart) / (of_both + apart)
        capacity = bucket.capacity_rps
        shared = tuple(
            replace(pool, share=part * pool.count * pool.capacity_rps / capacity if capacity else 0.0)
            for pool in bucket.pools
        )
        yield replace(bucket, pools=shared)


def _priced(
    question: Question,
    pools: Sequence[BucketPool],
    counts: CountDispersion | None,
    reaches: Mapping[str, Reach],
    first_ms: float | None,
) -> PricedBucket:
    workload, scenario, start, end = question.workload, question.scenario, pools[0].start, pools[0].end
    rows = [j for j, span in enumerate(workload.ranges) if start <= span.start and span.end <= end]
    buckets = Buckets.of(workload, [(rows[0], rows[-1] + 1)])
    arrivals = Arrivals.of(scenario.router.layers(pools[0].phase), counts).thinned(float(buckets.probabilities[0]))
    late = pools[0].late_share
    levels = replace(Levels.of(scenario.slo, workload, None if late is None else np.array([late])), first_ms=first_ms)
    servers = tuple(servers_of(question, pool, buckets, reaches.get(pool.island)) for pool in pools)
    if scenario.cost.paces:
        pools = [_admitting(*pair, buckets, levels) for pair in zip(pools, servers, strict=True)]
    full = [_full_rps(pool, of_pool, buckets, levels) for pool, of_pool in zip(pools, servers, strict=True)]

    parts = _parts(full, levels, arrivals) and pools[0].phase is not Phase.DECODE
    seeing = replace(arrivals, layers=LEAST_WORK.prefill) if parts else arrivals

    def capped_rps(number: int, together: float) -> float:
        return _capped_rps(pools[number], servers[number], buckets, levels, together, seeing)

    capped = served_together([pool.count for pool in pools], full, capped_rps)
    parting = _parting(pools, servers, full, capped, buckets, levels, arrivals) if parts else None
    capped = parting.highest if parting else capped
    if pools[0].phase is Phase.DECODE and not arrivals.layers[0].by_speed:
        capped = _alike(pools, servers, buckets, capped, by_rank=arrivals.layers[0].among is Endpoints.RANK)
    weights = parting.weights if parting else _decode_weights(pools, servers, buckets, capped, arrivals)
    priced = tuple(
        replace(pool, full_rps=where_nobody_waits, capacity_rps=rate, weight=weight)
        for pool, where_nobody_waits, rate, weight in zip(pools, full, capped, weights, strict=True)
    )
    return PricedBucket(
        phase=pools[0].phase,
        span=(start, end),
        pools=priced,
        servers=servers,
        buckets=buckets,
        arrivals=arrivals,
        parted_rps=parting.seen_rps if parting else (),
    )


def _parts(full: Sequence[float], levels: Levels, arrivals: Arrivals) -> bool:
    """Whether the router parts requests otherwise than by speed, where somebody waits for a first token and each server
    takes some."""
    return parts_unevenly(arrivals.layers) and levels.bounds_ttft and all(full)


def _parting(
    pools: Sequence[BucketPool],
    servers: Sequence[Servers],
    full: Sequence[float],
    knowing: Sequence[float],
    buckets: Buckets,
    levels: Levels,
    arrivals: Arrivals,
) -> Parting:
    """How the router parts the requests of servers that take prompts in; `knowing`: what each serves behind one that
    knows all."""
    together = sum(pool.count * rate for pool, rate in zip(pools, full, strict=True))
    kinds = [
        Kind(
            servers=of_pool,
            count=pool.count,
            full_rps=rate,
            most_rps=_most_rps(pool, of_pool, buckets, levels, (rate, together), arrivals),
            weight=pool.weight,
            ranks=pool.server.parallel.dp,
            answer_ms=_answer_ms(pool, of_pool, buckets, rate, levels),
        )
        for pool, of_pool, rate in zip(pools, servers, full, strict=True)
        if not isinstance(of_pool, DecodeServers)
    ]
    knowing_rps = sum(pool.count * rate for pool, rate in zip(pools, knowing, strict=True))
    return Parting(kinds, buckets, levels, arrivals, knowing_rps).weighed()


def _most_rps(
    pool: BucketPool,
    servers: PrefillServers | MixedServers,
    buckets: Buckets,
    levels: Levels,
    full: tuple[float, float],
    arrivals: Arrivals,
) -> float:
    """What one server's NICs carry, or its places let in; `full`: rate of one server, and of all, without queues."""
    rate, together = full
    if isinstance(servers, PrefillServers):
        return float(buckets.rps_of(servers.nic_s)[0, 0])
    if not levels.bounds_ttft:
        return rate
    batch = np.array([[float(pool.server.batch_size)]])
    placed = servers.placed_rps(
        buckets, levels, batch, np.array([[rate]]), np.array([together]), arrivals, served=False
    )
    return float(placed[0, 0])


def _alike(
    pools: Sequence[BucketPool], servers: Sequence[Servers], buckets: Buckets, capped: Sequence[float], *, by_rank: bool
) -> list[float]:
    """Rates of decode servers that are alike to a router: each endpoint has as many sequences as the one that can have
    fewest, and by Little's law yields them as fast as its steps are then."""
    endpoints = [pool.server.parallel.dp if by_rank else 1 for pool in pools]

    def sequences(number: int, rate: float) -> float:
        return _sequences(pools[number], servers[number], buckets, rate)

    fewest = min(sequences(n, rate) / ends for n, (rate, ends) in enumerate(zip(capped, endpoints, strict=True)))
    rates = []
    for number, (rate, ends) in enumerate(zip(capped, endpoints, strict=True)):
        low, high = 0.0, rate
        for _ in range(_ALIKE_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if sequences(number, middle) <= fewest * ends else (low, middle)
        rates.append(high)
    return rates


def _sequences(pool: BucketPool, servers: Servers, buckets: Buckets, rate: float) -> float:
    """That one decode server has in answer at a rate, by Little's law."""
    assert isinstance(servers, DecodeServers), "servers that decode"
    answer, batch = float(buckets.weights[0] @ buckets.answers), np.array([[float(pool.server.batch_size)]])
    return rate * answer * float(servers.tpot_ms(buckets, np.array([[rate]]), batch, 0.0)[0, 0]) / MS_PER_S


def _decode_weights(
    pools: Sequence[BucketPool],
    servers: Sequence[Servers],
    buckets: Buckets,
    capped: Sequence[float],
    arrivals: Arrivals,
) -> list[float]:
    """Under which each decode server gets the rate that it serves: the sequences that it then has; 0 where the router
    does not weigh, and those that are given."""
    weights = [pool.weight for pool in pools]
    if not arrivals.layers[0].weighs or pools[0].phase is not Phase.DECODE or all(weights) or not any(capped):
        return weights
    sequences = [
        _sequences(pool, of_pool, buckets, rate) for pool, of_pool, rate in zip(pools, servers, capped, strict=True)
    ]
    return [count / max(sequences) for count in sequences]


def _answer_ms(pool: BucketPool, servers: Servers, buckets: Buckets, rate: float, levels: Levels) -> float:
    """What an answer takes, on average: at a full batch, or of split servers by steps as the first one is."""
    answer = float(buckets.weights[0] @ buckets.answers)
    if not isinstance(servers, MixedServers):
        return answer * float(levels.first_step_ms.max())
    tpot = servers.tpot_ms(buckets, np.array([[rate]]), np.array([[float(pool.server.batch_size)]]), 0.0)
    return float(tpot[0, 0]) * answer


def served_together(
    counts: Sequence[int], full: Sequence[float], capped_rps: Callable[[int, float], float]
) -> list[float]:
    """What one server of each pool of a bucket serves within the levels; `full`: where nobody waits (requests/s);
    `capped_rps`: of a pool by its number and X. The less all serve together, the less X some see."""
    capped, seen_rps = list(full), [0.0] * len(full)
    for _ in range(_ROUNDS):
        now = _seen_rps(counts, full, capped)
        moved = [abs(after - before) > SETTLED * before for before, after in zip(seen_rps, now, strict=True)]
        if not any(moved):
            break
        for number in (number for number, anew in enumerate(moved) if anew):
            capped[number] = capped_rps(number, now[number])
        seen_rps = now
    return capped


def _seen_rps(counts: Sequence[int], full: Sequence[float], capped: Sequence[float]) -> list[float]:
    """X of each pool."""
    together = sum(count * rate for count, rate in zip(counts, full, strict=True))
    served = sum(count * rate for count, rate in zip(counts, capped, strict=True))
    alike = [rate * served / cap if cap > 0 else together for rate, cap in zip(full, capped, strict=True)]
    return [rate if rate < APART * together else together for rate in alike]


def servers_of(question: Question, pool: BucketPool, buckets: Buckets, reach: Reach | None = None) -> Servers:
    """The servers of a pool on some buckets."""
    scenario, server = question.scenario, pool.server
    context = CostContext(
        gpu=scenario.inventory.item(pool.gpu).gpu,
        model=scenario.model,
        settings=scenario.cost if reach is None else replace(scenario.cost, reach=reach),
        network=scenario.network,
    )
    if pool.phase is Phase.PREFILL:
        return PrefillServers.of(context, [(server.parallel, server.tokens_per_step, server.overlapped)], buckets)
    longest = question.workload.max_output_tokens
    if pool.phase is Phase.DECODE:
        ways = [(server.parallel, server.overlapped)]
        return DecodeServers.of(context, ways, buckets, longest, drafted=server.drafted)
    budgets = [(server.parallel, server.tokens_per_step)]
    return MixedServers.of(context, budgets, buckets, longest, drafted=server.drafted)


def _admitting(pool: BucketPool, servers: Servers, buckets: Buckets, levels: Levels) -> BucketPool:
    """The pool at the largest batch, up to that which it was started for, that keeps the bound on TPOT: servers that
    are slower than predicted have fewer sequences at the rates that they keep it at."""
    if isinstance(servers, PrefillServers):
        return pool
    batches = [batch for batch in BATCHES if batch < pool.server.batch_size]

    def admitted(batch: int) -> BucketPool:
        return replace(pool, server=replace(pool.server, batch_size=batch))

    def breaks(batch: int) -> bool:
        return _full_rps(admitted(batch), servers, buckets, levels) <= 0

    if not breaks(pool.server.batch_size):
        return pool
    # the larger a batch, the later its tokens: the first that breaks the bound comes after all that keep it
    first = bisect_left(batches, True, key=breaks)
    return admitted(batches[first - 1]) if first else pool


def _full_rps(pool: BucketPool, servers: Servers, buckets: Buckets, levels: Levels) -> float:
    return float(full_rates(pool, servers, buckets, levels)[0])


def full_rates(pool: BucketPool, servers: Servers, buckets: Buckets, levels: Levels) -> np.ndarray:
    """Of one server where nobody waits, on each bucket (requests/s)."""
    if isinstance(servers, PrefillServers):
        return np.asarray(servers.full_rps(buckets)[0])
    if isinstance(servers, DecodeServers):
        return np.asarray(servers.batches(buckets, levels, pool.server.batch_size)[1][0])
    return np.asarray(servers.full_rps(buckets, levels, pool.server.batch_size)[1][0])


def _capped_rps(
    pool: BucketPool, servers: Servers, buckets: Buckets, levels: Levels, together: float, arrivals: Arrivals
) -> float:
    return float(capped_rates(pool, servers, buckets, levels, np.array([together]), arrivals)[0])


def capped_rates(
    pool: BucketPool, servers: Servers, buckets: Buckets, levels: Levels, together: np.ndarray, arrivals: Arrivals
) -> np.ndarray:
    """Of one server within the levels, on each bucket, where its servers serve `together` in all (requests/s)."""
    if isinstance(servers, PrefillServers):
        return np.asarray(servers.capped_rps(buckets, levels, together, arrivals)[0])
    if isinstance(servers, DecodeServers):
        return np.asarray(servers.capped_rps(buckets, levels, together, pool.server.batch_size, arrivals)[1][0])
    return np.asarray(servers.capped_rps(buckets, levels, together, pool.server.batch_size, arrivals)[1][0])
