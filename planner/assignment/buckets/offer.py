"""What a plan of buckets may choose from, and what it has chosen: servers of stocks for buckets of a phase."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from planner.domain import PHASES, Phase, ServingForm

DOMINATED = 1e-9
ANY_NODES = 1_000_000
"""Nodes where nothing says how many there are: no two servers share one."""

Place = tuple[Phase, int]  # a bucket of a phase, by its number
Halves = tuple[Place, Place]  # the buckets of prefill and of decode that a mixed one is both of


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOption:
    """A server on a bucket: `server`, `kind` and `shape` are the caller's numbers. `nodes`: among how many nodes its
    servers can be spread (those larger than a node: none shares one); `shared`: whether others fit beside it there.
    `left_rps`: its rate where no more than what must survive a loss is served, by fewer servers (None: as `rate_rps`).
    `deployed`: number of the servers that run already which it is one of (None: it would be started, which takes
    `start_usd`). `drafts`: whether it drafts tokens, where it decodes what others took in (None: it does not); of such
    servers of a plan all do, or none."""

    stock: int
    use: int
    server: int
    kind: int
    rate_rps: float
    nodes: int = ANY_NODES
    shared: bool = False
    left_rps: float | None = None
    shape: int = 0
    deployed: int | None = None
    start_usd: float = 0.0
    drafts: bool | None = None

    @property
    def after_rps(self) -> float:
        """Its rate after a loss."""
        return self.rate_rps if self.left_rps is None else self.left_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedServers:
    """`count` equal servers that run already, each `use` of a stock: on any bucket of theirs they run on, or they stop,
    which takes `stop_usd` each."""

    stock: int
    use: int
    count: int
    phase: Phase
    shape: int = 0
    stop_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTerms:
    """How far servers may change. `most_gpus` touched (None: no limit), `least_running_on`: servers that run on,
    `turns_only`: nothing starts but in place of as many servers of its shape. `usd_weight`: what a USD of the change
    counts in the objective's charge."""

    most_gpus: int | None = None
    least_running_on: int = 0
    turns_only: bool = False
    usd_weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplinks:
    """Uplinks between GPU types, `gb_s` each way. `groups`: number of the one above each stock (`len(gb_s)`: none);
    `gb`: KV cache of a request of the whole mix with a prompt in a bucket of prefill and in one of decode, mean.
    `surely`: what crosses must fit however servers are paired, not only where they are paired best."""

    groups: tuple[int, ...]
    gb_s: tuple[float, ...]
    gb: Mapping[tuple[int, int], float]
    surely: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOffer:
    """Stocks with their counts and charges (USD/hour, or W, of a unit), options and probability of every bucket of a
    phase. `halves`: of every mixed bucket. `survive`: share of the rate that the loss of any `lost_nodes` must leave;
    0: none. `jointly`: every lost node has as much of a bucket as any node may have. `deployed`: servers that run
    already, and `terms` of changing them. `uplinks`: what crosses between GPU types has to fit through (None: nothing).
    """

    counts: tuple[int, ...]
    charges: tuple[float, ...]
    options: Mapping[Place, tuple[BucketOption, ...]]
    probabilities: Mapping[Place, float]
    halves: Mapping[Place, Halves] = field(default_factory=dict)
    survive: float = 0.0
    lost_nodes: int = 1
    jointly: bool = False
    deployed: tuple[DeployedServers, ...] = ()
    terms: ChangeTerms = field(default_factory=ChangeTerms)
    uplinks: Uplinks | None = None

    @property
    def surely(self) -> "BucketOffer":
        """The same where what crosses uplinks must fit however servers are paired."""
        return self if self.uplinks is None else replace(self, uplinks=replace(self.uplinks, surely=True))

    def most_of(self, option: BucketOption) -> int:
        """Servers of an option that there may be."""
        servers = self.counts[option.stock] // option.use
        return servers if option.deployed is None else min(servers, self.deployed[option.deployed].count)

    def charge_of(self, pools: "Iterable[PoolCount]") -> float:
        """USD/hour, or W, of servers, with the weight of the change to them."""
        chosen = tuple(pools)
        rent = sum(pool.count * pool.option.use * self.charges[pool.option.stock] for pool in chosen)
        if not self.terms.usd_weight:
            return rent
        stops = [group.count for group in self.deployed]
        for pool in chosen:
            if pool.option.deployed is not None:
                stops[pool.option.deployed] -= pool.count
        ended = sum(count * group.stop_usd for count, group in zip(stops, self.deployed, strict=True))
        begun = sum(pool.count * pool.option.start_usd for pool in chosen if pool.option.deployed is None)
        return rent + self.terms.usd_weight * (ended + begun)

    def lost_rps(self, pools: "Iterable[PoolCount]") -> float:
        """What the loss takes of a bucket that these pools serve, each spread over as many nodes as it can be. Of one
        node: its part of a pool. Of several: their fastest servers, each on a node of its own, and no less than their
        part of any one pool. `jointly`: as much as any node may have, of every node."""
        chosen = tuple(pools)
        if self.jointly:
            return self.lost_nodes * self._most_of_a_node(chosen)
        if self.lost_nodes == 1:
            return max((-(-pool.count // pool.option.nodes) * pool.option.after_rps for pool in chosen), default=0.0)
        servers = sorted(
            (p.option.after_rps for p in chosen for _ in range(min(p.count, self.lost_nodes))), reverse=True
        )
        parts = (min(1.0, self.lost_nodes / p.option.nodes) * p.count * p.option.after_rps for p in chosen)
        return max(sum(servers[: self.lost_nodes]), *parts) if chosen else 0.0

    def _most_of_a_node(self, pools: "Iterable[PoolCount]") -> float:
        shared: dict[int, float] = {}
        alone = 0.0
        for pool in pools:
            part = -(-pool.count // pool.option.nodes) * pool.option.after_rps
            if pool.option.shared:
                shared[pool.option.stock] = shared.get(pool.option.stock, 0.0) + part
            else:
                alone = max(alone, part)
        return max(alone, *shared.values()) if shared else alone

    def of_phases(self, phases: Collection[Phase]) -> "BucketOffer":
        """What servers of some phases alone may do."""
        return replace(self, options={place: row for place, row in self.options.items() if place[0] in phases})

    def by_drafts(self) -> "tuple[BucketOffer, ...]":
        """Of servers that decode what others took in, those without drafts and those with them, an offer each: a cache
        that is handed over holds that of the draft's layers, or does not."""
        drafting = {option.drafts for row in self.options.values() for option in row} - {None}
        if len(drafting) < 2:
            return (self,)
        return tuple(
            replace(
                self,
                options={p: tuple(o for o in row if o.drafts in (None, drafts)) for p, row in self.options.items()},
            )
            for drafts in (False, True)
        )

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

    @property
    def form(self) -> ServingForm:
        """`aggregated` where all pools do both phases; else `split`, some of them at least."""
        both = all(pool.place[0] is Phase.MIXED for pool in self.pools)
        return ServingForm.AGGREGATED if both else ServingForm.SPLIT


def undominated(options: Iterable[BucketOption]) -> tuple[BucketOption, ...]:
    """Without options that smaller ones of the same stock outdo in the same room, for no more to start."""
    chosen: list[BucketOption] = []
    # Small and fast ones first: whoever comes later cannot outdo one that stays.
    for option in sorted(options, key=lambda o: (o.stock, o.use, -o.rate_rps, o.kind, o.server)):
        alike = (o for o in chosen if o.stock == option.stock and o.drafts == option.drafts)
        rivals = (o for o in alike if option.use % o.use == 0)
        rivals = (o for o in rivals if option.use // o.use * o.start_usd <= option.start_usd * (1 + DOMINATED))
        if option.rate_rps > 0 and not any(_outdoes(other, option) for other in rivals):
            chosen.append(option)
    return tuple(chosen)


def _outdoes(other: BucketOption, option: BucketOption) -> bool:
    """Whether copies of a smaller one in the same room do as much, before and after a loss."""
    copies = option.use // other.use
    pairs = ((other.rate_rps, option.rate_rps), (other.after_rps, option.after_rps))
    return all(copies * small >= rate * (1 - DOMINATED) for small, rate in pairs)


def places_of(partition: Partition) -> list[Place]:
    """The buckets of prefill and decode that must be served."""
    return [(phase, bucket) for phase in PHASES for bucket in partition.of(phase)]


def columns_of(offer: BucketOffer, partition: Partition) -> Iterator[tuple[Place, BucketOption]]:
    """Every server that may serve a bucket of the partition, or both halves of one."""
    for phase in Phase:
        for bucket in partition.of(phase):
            yield from (((phase, bucket), option) for option in offer.options.get((phase, bucket), ()))
