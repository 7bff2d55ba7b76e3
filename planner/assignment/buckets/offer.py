"""What a plan of buckets may choose from, and what it has chosen: servers of stocks for buckets of a phase."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from planner.domain import PHASES, Phase

DOMINATED = 1e-9

Place = tuple[Phase, int]  # a bucket of a phase, by its number
Halves = tuple[Place, Place]  # the buckets of prefill and of decode that a mixed one is both of


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOption:
    """A server on a bucket: `server` and `kind` are the caller's numbers, `lost`: servers of it that go with the nodes
    whose loss is to be survived."""

    stock: int
    use: int
    server: int
    kind: int
    rate_rps: float
    lost: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOffer:
    """Stocks with their counts and charges (USD/hour, or W, of a unit), options and probability of every bucket of a
    phase. `halves`: of every mixed bucket. `survive`: share of the rate that a loss must leave; 0: none.
    `jointly`: a loss takes as much of a bucket as if all lost nodes were of its fastest pool.
    """

    counts: tuple[int, ...]
    charges: tuple[float, ...]
    options: Mapping[Place, tuple[BucketOption, ...]]
    probabilities: Mapping[Place, float]
    halves: Mapping[Place, Halves] = field(default_factory=dict)
    survive: float = 0.0
    jointly: bool = False

    def lost_of(self, option: BucketOption, count: int) -> int:
        """Servers of a pool that are lost, or as many as its bucket loses with them."""
        return option.lost if self.jointly else min(option.lost, count)

    def served_by(self, place: Place) -> tuple[Place, ...]:
        """Buckets of prefill and decode that servers of a place serve: itself, or both halves of a mixed one."""
        return self.halves.get(place, (place,))


class Partition(NamedTuple):
    """Buckets of prefill and of decode, each over all lengths, and those of both that mixed servers may take."""

    prefill: tuple[int, ...]
    decode: tuple[int, ...]
    mixed: tuple[int, ...] = ()

    @property
    def counts(self) -> tuple[int, int]:
        """Buckets of prefill and of decode."""
        return len(self.prefill), len(self.decode)

    def of(self, phase: Phase) -> tuple[int, ...]:
        """The buckets of a phase."""
        return {Phase.PREFILL: self.prefill, Phase.DECODE: self.decode, Phase.MIXED: self.mixed}[phase]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCount:
    """`count` servers of `option` for `place`."""

    place: Place
    option: BucketOption
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAnswer:
    """The best pools. `value` and `bound` in the objective's unit; `proven`: within the gap that was asked for."""

    partition: Partition
    pools: tuple[PoolCount, ...]
    rate_rps: float
    value: float
    bound: float
    proven: bool
    solver: str

    @property
    def kinds(self) -> int:
        """Different servers: GPU type and configuration."""
        return len({(pool.option.stock, pool.option.kind) for pool in self.pools})

    @property
    def buckets(self) -> int:
        """Buckets of both phases."""
        return sum(self.partition.counts)


def undominated(options: Iterable[BucketOption]) -> tuple[BucketOption, ...]:
    """Without options that smaller ones of the same stock outdo in the same room."""
    kept: list[BucketOption] = []
    for option in sorted(options, key=lambda o: (o.stock, o.use, -o.rate_rps, o.kind, o.server)):
        rivals = (o for o in kept if o.stock == option.stock and option.use % o.use == 0)
        copies = ((option.use // o.use) * o.rate_rps for o in rivals)
        if option.rate_rps > 0 and not any(rate >= option.rate_rps * (1 - DOMINATED) for rate in copies):
            kept.append(option)
    return tuple(kept)


def places_of(partition: Partition) -> list[Place]:
    """The buckets of prefill and decode that must be served."""
    return [(phase, bucket) for phase in PHASES for bucket in partition.of(phase)]


def columns_of(offer: BucketOffer, partition: Partition) -> Iterator[tuple[Place, BucketOption]]:
    """Every server that may serve a bucket of the partition, or both halves of one."""
    for phase in Phase:
        for bucket in partition.of(phase):
            yield from (((phase, bucket), option) for option in offer.options.get((phase, bucket), ()))
