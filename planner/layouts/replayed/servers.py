"""What the servers of a pool may be started as: shapes, token budgets, batch limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from planner.cost.serving.decode_servers import BATCHES
from planner.domain import BucketPool, ParallelConfig, ServerConfig
from planner.evaluation.buckets.columns import Column
from planner.evaluation.buckets.prices import BucketPrices

MOST_SHAPES = 4  # of a pool, its own among them
NEAR = 0.85
"""Of the best rate of a GPU: shapes below it are left out, as no queue makes up for so much."""

_LOWER = 0.85  # a batch limit over the next higher one
BATCH_STEPS = (-3, -2, -1, 0)
"""Steps of the batch limit below that of the programme; above it, it breaks a bound, or memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMenu:
    """Of one pool: `shapes` with the pool's own first, token `budgets` ascending, a server for each pair that fits."""

    shapes: tuple[tuple[ParallelConfig, bool], ...]
    budgets: tuple[int, ...]
    servers: Mapping[tuple[int, int], ServerConfig]

    def server(self, shape: int, budget: int, step: int) -> ServerConfig | None:
        """The server of a shape (its place) and budget, with its batch limit so many steps lower; None where there is
        none."""
        server = self.servers.get((shape, budget))
        if server is None or step == 0:
            return server
        most = server.batch_size * _LOWER**-step
        batch = max((batch for batch in BATCHES if batch <= most), default=0)
        return replace(server, batch_size=batch) if batch else None


def menu_of(prices: BucketPrices, pool: BucketPool) -> ServerMenu:
    """What may stand in place of a pool's servers."""
    column = prices.column(pool.gpu, pool.phase)
    bucket = _bucket(prices, pool)
    rates: dict[tuple[ParallelConfig, bool], float] = {}
    servers: dict[tuple[ParallelConfig, bool, int], ServerConfig] = {}
    for rate, server in _options(column, bucket):
        shape = (server.parallel, server.overlapped)
        rates[shape] = max(rates.get(shape, 0.0), rate / server.parallel.devices)
        servers[*shape, server.tokens_per_step] = server
    mine = (pool.server.parallel, pool.server.overlapped)
    servers[*mine, pool.server.tokens_per_step] = pool.server
    shapes = (mine, *_others(rates, mine))
    budgets = tuple(sorted({server.tokens_per_step for server in servers.values()}))
    return ServerMenu(
        shapes=shapes,
        budgets=budgets,
        servers={
            (place, budget): servers[*shape, budget]
            for place, shape in enumerate(shapes)
            for budget in budgets
            if (*shape, budget) in servers
        },
    )


def _bucket(prices: BucketPrices, pool: BucketPool) -> int:
    """The programme's number of the pool's bucket."""
    ranges = prices.question.workload.ranges
    rows = [row for row, span in enumerate(ranges) if pool.start <= span.start and span.end <= pool.end]
    return prices.phases[pool.phase].buckets.intervals.index((rows[0], rows[-1] + 1))


def _options(column: Column, bucket: int) -> Iterator[tuple[float, ServerConfig]]:
    """Rates of one server on the bucket, with the server."""
    for row, rate in enumerate(column.capped[:, bucket].tolist()):
        if rate > 0:
            yield rate, column.config(row, bucket)


def _others(
    rates: Mapping[tuple[ParallelConfig, bool], float], mine: tuple[ParallelConfig, bool]
) -> list[tuple[ParallelConfig, bool]]:
    """The best other shape of every number of GPUs, the best first."""
    least = NEAR * max(rates.values(), default=0.0)
    by_size: dict[int, tuple[ParallelConfig, bool]] = {}
    for shape in sorted(rates, key=lambda shape: -rates[shape]):
        if shape != mine and rates[shape] >= least:
            by_size.setdefault(shape[0].devices, shape)
    return list(by_size.values())[: MOST_SHAPES - 1]
