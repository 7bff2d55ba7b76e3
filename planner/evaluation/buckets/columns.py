"""Rates of one GPU type in one phase, and what an offer has of some types."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.assignment import BucketOffer
from planner.cost import CostContext
from planner.cost.engine_rules import greatest_batch
from planner.cost.serving import Arrivals, Buckets, DecodeServers, Levels, MixedServers, PrefillServers
from planner.domain import PHASES, ParallelConfig, Phase, ServerConfig
from planner.domain.engine import EngineProfile
from planner.domain.stocks import Stock

Servers = PrefillServers | DecodeServers | MixedServers


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Rates of one GPU type in one phase, by server and bucket: within the levels and what NICs carry, and where nobody
    waits for either (requests/s)."""

    servers: Servers | None
    batches: np.ndarray | None
    capped: np.ndarray
    full: np.ndarray

    def config(self, row: int, bucket: int) -> ServerConfig:
        """The server of a row, started for a bucket."""
        if isinstance(self.servers, PrefillServers):
            return self.servers.configs[row]
        assert self.servers is not None, "a row is of servers"
        assert self.batches is not None, "servers that decode have batches"
        return self.servers.config(row, int(self.batches[row, bucket]))

    def drafts(self, row: int) -> bool:
        """Whether the servers of a row chose to draft."""
        return isinstance(self.servers, DecodeServers | MixedServers) and bool(self.servers.drafted[row])

    @classmethod
    def joined(cls, parts: "Sequence[Column]") -> "Column":
        """The servers of all parts of one GPU type and phase."""
        some = [part for part in parts if part.servers is not None] or parts[:1]
        if len(some) == 1:
            return some[0]
        capped, full = (np.concatenate([getattr(part, name) for part in some]) for name in ("capped", "full"))
        batches = np.concatenate([part.batches for part in some if part.batches is not None])
        decode = [part.servers for part in some if isinstance(part.servers, DecodeServers)]
        mixed = [part.servers for part in some if isinstance(part.servers, MixedServers)]
        servers = DecodeServers.joined(decode) if decode else MixedServers.joined(mixed)
        return cls(servers=servers, batches=batches, capped=capped, full=full)

    @property
    def least_step_ms(self) -> float:
        """No decode step is shorter; inf where none decodes."""
        return float(self.servers.step_ms.min()) if isinstance(self.servers, DecodeServers) else math.inf

    def fastest(self, bucket: int, rates: np.ndarray | None = None) -> list[int]:
        """The fastest server of every shape, with drafts and without, on a bucket that serves it, by other `rates` of
        the bucket where given."""
        if self.servers is None:
            return []
        best: dict[tuple[ParallelConfig, bool], int] = {}
        by_row = self.capped[:, bucket] if rates is None else rates
        for row in np.flatnonzero(self.capped[:, bucket] > 0).tolist():
            shape = (self.servers.shape(row), self.drafts(row))
            if shape not in best or by_row[row] > by_row[best[shape]]:
                best[shape] = row
        return sorted(best.values())

    def within(
        self, buckets: Buckets, levels: Levels, served_rps: np.ndarray, arrivals: Arrivals, halvings: int
    ) -> "Column":
        """Rates within the levels where so much of each bucket is served."""
        at, load = (buckets, levels, served_rps), self.servers
        if load is None:
            return self
        if isinstance(load, PrefillServers):
            capped = load.capped_rps(*at, arrivals, served=True, halvings=halvings)
            return replace(self, capped=capped)
        if isinstance(load, MixedServers):
            batches, capped, full = load.capped_rps(*at, None, arrivals, served=True, halvings=halvings)
        else:
            batches, capped, full = load.capped_rps(*at, None, arrivals, served=True)
        return replace(self, batches=batches, capped=capped, full=full)

    def best_per_gpu(self) -> np.ndarray:
        """The best rate of a GPU on each bucket."""
        if self.servers is None:
            return np.zeros(self.capped.shape[1])
        return np.asarray((self.capped / self.servers.devices[:, None]).max(axis=0))


def prefill_column(
    context: CostContext, options: Sequence[tuple[ParallelConfig, int, bool]], buckets: Buckets
) -> Column:
    """Servers that prefill: shape, token budget of a step, whether communication is overlapped."""
    if not options:
        return _no_servers(buckets)
    servers = PrefillServers.of(context, options, buckets)
    full = servers.full_rps(buckets)
    return Column(servers=servers, batches=None, capped=np.minimum(full, buckets.rps_of(servers.nic_s)), full=full)


def decode_column(
    context: CostContext,
    engine: EngineProfile,
    options: Sequence[tuple[ParallelConfig, bool]],
    buckets: Buckets,
    levels: Levels,
    longest_answer: int,
    drafted: int | None = None,
) -> Column:
    """Servers that decode: shape, whether communication is overlapped. `drafted`: of servers that chose to."""
    if not options:
        return _no_servers(buckets)
    batch_limits = _batch_limits(context, engine, [shape for shape, _ in options], drafted)
    servers = DecodeServers.of(context, options, buckets, longest_answer, batch_limits, drafted)
    batches, full = servers.batches(buckets, levels)
    capped = np.minimum(full, buckets.rps_of(servers.nic_s))
    return Column(servers=servers, batches=batches, capped=capped, full=full)


def mixed_column(
    context: CostContext,
    engine: EngineProfile,
    options: Sequence[tuple[ParallelConfig, int]],
    buckets: Buckets,
    levels: Levels,
    longest_answer: int,
    drafted: int | None = None,
) -> Column:
    """Servers that do both: shape, token budget of a pass. `drafted`: of servers that chose to."""
    if not options:
        return _no_servers(buckets)
    batch_limits = _batch_limits(context, engine, [shape for shape, _ in options], drafted)
    servers = MixedServers.of(context, options, buckets, longest_answer, batch_limits, drafted)
    batches, full = servers.full_rps(buckets, levels)
    return Column(servers=servers, batches=batches, capped=full, full=full)


def _batch_limits(
    context: CostContext, engine: EngineProfile, shapes: Sequence[ParallelConfig], drafted: int | None
) -> list[int]:
    chosen = replace(context, settings=context.settings.with_drafted(drafted))
    return [greatest_batch(chosen, Phase.DECODE, shape, engine) for shape in shapes]


def _no_servers(buckets: Buckets) -> Column:
    nothing = np.zeros((0, len(buckets.intervals)))
    return Column(servers=None, batches=None, capped=nothing, full=nothing)


def of_types(offer: BucketOffer, stocks: Sequence[Stock], gpus: Collection[str]) -> BucketOffer:
    """What an offer of `stocks` has of some GPU types."""
    chosen = {t for t, stock in enumerate(stocks) if stock.gpu in gpus}
    options = {place: tuple(o for o in row if o.stock in chosen) for place, row in offer.options.items()}
    return replace(offer, options=options)


def classes_of(offers: Sequence[BucketOffer]) -> tuple[BucketOffer, ...]:
    """What aggregated pools may be made of, where there may be others; and all that pools may be made of."""
    both = [offer for offer in offers if len({phase for (phase, _), row in offer.options.items() if row}) > len(PHASES)]
    return (*(offer.of_phases((Phase.MIXED,)) for offer in both), *offers)


def hash_of(config: ServerConfig, *, mixed: bool = False) -> int:
    """A number for a configuration, the same in every process."""
    shape = config.parallel
    flags = config.overlapped + 2 * mixed + 4 * (config.drafted or 0)
    digits = (shape.tp, shape.dp, shape.pp, config.tokens_per_step, config.batch_size, flags)
    number = 0
    for digit in digits:
        number = number * 100_003 + digit
    return number
