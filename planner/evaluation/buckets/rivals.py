"""Configurations of a pool's GPU type beside the chosen one: what each would serve of the bucket on the pool's GPUs,
and what keeps it from serving more.

| symbol | meaning | unit |
|---|---|---|
| G, d | GPUs of the pool, of one server | 1 |
| n | servers of the configuration on the pool's GPUs: floor(G / d) | 1 |
| R, F | rate of one server within the levels, and where nobody waits | requests/s |
| k | servers that go with the nodes whose loss is to be survived | 1 |

n R is what it serves, (n - k) R what is left after the loss. Rates are those that the programme chose from: queues are
those of a bucket that such servers serve alone.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from planner.cost.engine_rules import greatest_batch, refusals
from planner.cost.serving import Arrivals, DecodeServers, Levels, MixedServers, PrefillServers, server_shapes
from planner.cost.serving.decode_servers import BATCHES
from planner.domain import BucketPool, Phase, ServerConfig, halves_of
from planner.domain.explanations import Excluded, Limit, RivalServer
from planner.evaluation.buckets.columns import Column
from planner.evaluation.buckets.prices import BucketPrices

SLOWED = 1e-3
"""Share of a rate that waiting takes before it counts as the limit."""
MOST_RULES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlace:
    """A pool's GPU type, phase, number of its bucket, GPUs and configuration. `kept_rps`: what the loss of nodes must
    leave of the requests that it serves (0: nothing is asked)."""

    gpu: str
    phase: Phase
    bucket: int
    gpus: int
    server: ServerConfig
    kept_rps: float = 0.0

    @classmethod
    def of(cls, pool: BucketPool, bucket: int, kept_rps: float) -> "PoolPlace":
        """The place of a plan's pool."""
        return cls(gpu=pool.gpu, phase=pool.phase, bucket=bucket, gpus=pool.gpus, server=pool.server, kept_rps=kept_rps)


def rival_servers(prices: BucketPrices, place: PoolPlace, levels: Levels | None = None) -> list[RivalServer]:
    """Every configuration that serves on the pool's GPUs, the one that serves most first. `levels`: in place of the
    scenario's; then what limits each is not looked at."""
    column, bucket = prices.column(place.gpu, place.phase), place.bucket
    if levels is not None:
        column, bucket = _under(prices, place, levels), 0
    scenario = prices.question.scenario
    nodes, host = scenario.survive.nodes, scenario.inventory.item(place.gpu).gpu.gpus_per_host
    rivals = []
    for row in np.flatnonzero(column.capped[:, bucket] > 0).tolist():
        server, rate = column.config(row, bucket), float(column.capped[row, bucket])
        devices = server.parallel.devices
        servers = place.gpus // devices
        if servers:
            lost = min(servers, nodes * max(1, host // devices))
            rivals.append(
                RivalServer(
                    server=server,
                    servers=servers,
                    rate_rps=rate,
                    full_rps=float(column.full[row, bucket]),
                    left_rps=(servers - lost) * rate,
                    idle_gpus=place.gpus - servers * devices,
                    limit=_limit(prices, place, column, row) if levels is None else Limit.STEPS,
                    chosen=alike(server, place.server),
                )
            )
    return sorted(rivals, key=lambda rival: (-rival.serves_rps, rival.server))


def alike(server: ServerConfig, other: ServerConfig) -> bool:
    """Whether servers are of one configuration; the batch follows from it and the levels."""
    return replace(server, batch_size=0) == replace(other, batch_size=0)


def _under(prices: BucketPrices, place: PoolPlace, levels: Levels) -> Column:
    """The column of the pool's bucket alone under other levels; what the whole serves, which queues depend on, is taken
    as it is."""
    column, every = prices.column(place.gpu, place.phase), prices.phases[place.phase].buckets
    only = [place.bucket]
    buckets = replace(
        every,
        intervals=(every.intervals[place.bucket],),
        weights=every.weights[only],
        probabilities=every.probabilities[only],
    )
    if levels.misses is not None and len(levels.misses) > 1:
        levels = replace(levels, misses=levels.misses[only])
    arrivals = Arrivals.of(prices.question.scenario.router.layers(place.phase))
    together = prices.served_rps * buckets.probabilities
    if isinstance(column.servers, PrefillServers):
        capped = column.servers.capped_rps(buckets, levels, together, arrivals, served=True)
        return replace(column, capped=capped)
    if isinstance(column.servers, DecodeServers | MixedServers):
        batches, capped, full = column.servers.capped_rps(buckets, levels, together, None, arrivals, served=True)
        return replace(column, batches=batches, capped=capped, full=full)
    return column


def _limit(prices: BucketPrices, place: PoolPlace, column: Column, row: int) -> Limit:
    capped, full = float(column.capped[row, place.bucket]), float(column.full[row, place.bucket])
    if isinstance(column.servers, PrefillServers | DecodeServers):
        carried = prices.phases[place.phase].buckets.rps_of(column.servers.nic_s[[row]])[0, place.bucket]
        if capped >= carried * (1 - SLOWED):
            return Limit.NIC
    if isinstance(column.servers, DecodeServers) and column.batches is not None:
        return _batch_limit(prices, place, column.servers, row, int(column.batches[row, place.bucket]))
    if capped < full * (1 - SLOWED):
        return Limit.TTFT
    if isinstance(column.servers, MixedServers):
        return Limit.TPOT if _full_without_levels(prices, place, column)[row] > full * (1 + SLOWED) else Limit.NO_BOUND
    return Limit.STEPS


def _batch_limit(prices: BucketPrices, place: PoolPlace, servers: DecodeServers, row: int, batch: int) -> Limit:
    """What keeps a decode server from a larger batch."""
    of_phase = prices.phases[place.phase]
    among = servers.among([row])
    unbounded = replace(of_phase.levels, tpot_ms=np.full_like(of_phase.levels.tpot_ms, np.inf))
    free, _ = among.batches(of_phase.buckets, unbounded)
    if int(free[0, place.bucket]) > batch:
        return Limit.TPOT
    if batch >= max(size for size in BATCHES if size <= float(among.batch_limit[0])):
        context = prices.context(place.gpu)
        greatest = greatest_batch(context, Phase.DECODE, among.shapes[0][0], prices.question.scenario.engine)
        return Limit.ENGINE if greatest else Limit.BATCH
    larger = BATCHES[BATCHES.index(batch) + 1]
    fits = among.fits(of_phase.buckets)[0, place.bucket, BATCHES.index(larger)]
    return Limit.STEPS if fits else Limit.MEMORY


def excluded_servers(prices: BucketPrices, place: PoolPlace) -> Excluded:
    """How many configurations of the type cannot be chosen for the phase and bucket, and why."""
    context, engine = prices.context(place.gpu), prices.question.scenario.engine
    shapes = server_shapes(context, prices.sizes(context.gpu), lambda _: True)
    broken = [
        [sentence for half in halves_of(place.phase) for sentence in refusals(context, half, shape, engine)]
        for shape in shapes
    ]
    counts = Counter(rules[0].rpartition(", got ")[0] or rules[0] for rules in broken if rules)
    column = prices.column(place.gpu, place.phase)
    capped, full = column.capped[:, place.bucket], column.full[:, place.bucket]
    unbounded = _full_without_levels(prices, place, column)
    return Excluded(
        refused=sum(counts.values()),
        without_memory=int((unbounded <= 0).sum()),
        beyond_levels=int(((unbounded > 0) & ((capped <= 0) | (full <= 0))).sum()),
        rules=tuple(rule for rule, _ in counts.most_common(MOST_RULES)),
    )


def _full_without_levels(prices: BucketPrices, place: PoolPlace, column: Column) -> np.ndarray:
    """Rates where nothing is bounded: 0 where not even that fits into memory."""
    buckets, levels = prices.phases[place.phase].buckets, prices.phases[place.phase].levels
    free = replace(levels, tpot_ms=np.full_like(levels.tpot_ms, np.inf), ttft_ms=np.full_like(levels.ttft_ms, np.inf))
    if isinstance(column.servers, DecodeServers):
        return np.asarray(column.servers.batches(buckets, free)[1][:, place.bucket])
    if isinstance(column.servers, MixedServers):
        return np.asarray(column.servers.full_rps(buckets, free)[1][:, place.bucket])
    return column.full[:, place.bucket]


def best_of_type(prices: BucketPrices, gpu: str, phase: Phase, bucket: int) -> tuple[float, ServerConfig | None]:
    """The best rate of one GPU of a type on a bucket, and the configuration that reaches it."""
    column = prices.column(gpu, phase)
    if column.servers is None or not len(column.capped):
        return 0.0, None
    rates = column.capped[:, bucket] / column.servers.devices
    row = int(rates.argmax())
    return (float(rates[row]), column.config(row, bucket)) if rates[row] > 0 else (0.0, None)


def scaled_levels(prices: BucketPrices, phase: Phase, *, ttft: float = 1.0, tpot: float = 1.0) -> Levels:
    """The levels of a phase with their bounds that many times as long."""
    levels = prices.phases[phase].levels
    return replace(levels, ttft_ms=levels.ttft_ms * ttft, tpot_ms=levels.tpot_ms * tpot)
