"""The servers of one or two plans that serve together behind one table of buckets: whatever counts of them run.

A server that runs takes prompts of the bucket that its plan gives it under that plan's table. Under the other table it
takes the bucket that has most of its prompts in common, of those that are no longer than its engine was started for,
with the longest answer that comes; it idles where there is none.

Engines of another version or checkpoint are a lane of their own, with the table of their plan: caches go from prefill
to decode within a lane, as vLLM's connector refuses a peer of another version (pull request 29503), and every lane is
priced as its engines are. A request goes to one lane by chance, in proportion to what each serves, so that the lanes'
rates add up.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from planner.domain import PHASES, BucketPool, Phase, Question, Scenario, Workload, halves_of
from planner.evaluation.buckets.curves import CapacityCurve, capacity_curve
from planner.evaluation.buckets.priced import served_together
from planner.evaluation.buckets.service import BucketService, PricedPools

_ROUNDING = 1e-9
Span = tuple[int, int]
Counts = Mapping[str, int]
Servers = tuple[tuple[BucketPool, int], ...]
"""Pools of a bucket, and how many servers of each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A router's buckets: the spans of each phase, and the pool that each island's servers are under it."""

    spans: Mapping[Phase, tuple[Span, ...]]
    pools: Mapping[str, BucketPool]


class Lane:
    """Servers that hand caches to each other, priced for one question, behind the old table or the new one."""

    def __init__(self, question: Question, old: Table, new: Table) -> None:
        self.question, self.tables = question, {False: old, True: new}
        self._service = BucketService(question)
        self._curves: dict[tuple[str, Span], CapacityCurve] = {}
        self._capacities: dict[Servers, float] = {}

    @property
    def same_buckets(self) -> bool:
        """Whether the tables differ in shares alone."""
        return self.tables[False] == self.tables[True]

    def rate_rps(self, counts: Counts, *, new_table: bool) -> float:
        """Requests/s of the mix that so many servers of each island serve; by curves, which lie below it by up to some
        thousandths."""
        return self._slowest_rps(counts, self.tables[new_table], self._drawn_rps)

    def exact_rps(self, counts: Counts, *, new_table: bool) -> float:
        """The same, priced as any plan is: all pools together, as a first token waits for decode, too."""
        capacity_rps = {pool.island: pool.count * pool.capacity_rps for pool in self.pools(counts, new_table=new_table)}
        return self._slowest_rps(
            counts, self.tables[new_table], lambda servers: sum(capacity_rps[pool.island] for pool, _ in servers)
        )

    def priced(self, question: Question, counts: Counts, *, new_table: bool) -> PricedPools:
        """Its servers as pools, priced for a question."""
        return BucketService(question).priced(self.pools(counts, new_table=new_table))

    def pools(self, counts: Counts, *, new_table: bool) -> tuple[BucketPool, ...]:
        """The pools that serve, with their shares of their buckets."""
        table = self.tables[new_table]
        pools = [replace(pool, count=counts[name]) for name, pool in table.pools.items() if counts.get(name, 0)]
        return self._service.priced(pools).pools

    def _slowest_rps(self, counts: Counts, table: Table, capacity_rps: Callable[[Servers], float]) -> float:
        """Of the bucket and phase that is the first to be full; 0 where servers were lost so that prompts have none."""
        rates = list[float]()
        for phase in PHASES:
            chances = {span: chance_of(self.question.workload, span) for span in table.spans[phase]}
            if math.fsum(chances.values()) < 1 - _ROUNDING:
                return 0.0
            rates += [
                sum(capacity_rps(servers) for servers in _of_bucket(table, phase, span, counts)) / chance
                for span, chance in chances.items()
            ]
        return min(rates, default=0.0)

    def _drawn_rps(self, servers: Servers) -> float:
        """Of the requests of a bucket, off the curves of its pools."""
        if servers not in self._capacities:
            curves, counts = [self._curve(pool) for pool, _ in servers], [count for _, count in servers]
            full = [curve.full_rps for curve in curves]
            capped = served_together(counts, full, lambda number, together: curves[number].at(together))
            self._capacities[servers] = sum(count * rate for count, rate in zip(counts, capped, strict=True))
        return self._capacities[servers]

    def _curve(self, pool: BucketPool) -> CapacityCurve:
        key = (pool.island, (pool.start, pool.end))
        if key not in self._curves:
            self._curves[key] = capacity_curve(self.question, pool)
        return self._curves[key]


def apart(before: Scenario, after: Scenario) -> bool:
    """Whether engines of two plans hand no caches to each other: another version, or another checkpoint."""
    return (before.model, before.engine.name, before.engine.version) != (
        after.model,
        after.engine.name,
        after.engine.version,
    )


def lane_name(scenario: Scenario, other: Scenario) -> str:
    """What tells the engines of a scenario from those of another."""
    same_version = (scenario.engine.name, scenario.engine.version) == (other.engine.name, other.engine.version)
    return scenario.model.name if same_version else f"{scenario.engine.name} {scenario.engine.version}"


def _of_bucket(table: Table, phase: Phase, span: Span, counts: Counts) -> Iterator[Servers]:
    """Servers of one phase in a bucket, and those of both: each group has a queue of its own."""
    for kind in (phase, Phase.MIXED):
        yield tuple(
            (pool, counts[name])
            for name, pool in table.pools.items()
            if (pool.phase, pool.start, pool.end) == (kind, *span) and counts.get(name, 0)
        )


def chance_of(workload: Workload, span: Span) -> float:
    """Of a request to be of the bucket."""
    return math.fsum(r.probability for r in workload.ranges if span[0] <= r.start and r.end <= span[1])


def table_of(
    pools_of_plan: Mapping[str, BucketPool],
    others: Mapping[str, BucketPool],
    ends: Mapping[str, int],
    workload: Workload,
) -> Table:
    """The buckets of one plan; `others`: servers of the other plan, which take part up to `ends`."""
    spans = {phase: _spans(pools_of_plan.values(), phase, workload) for phase in PHASES}
    guests = {
        name: _guest(pool, ends[name], pools_of_plan, spans)
        for name, pool in others.items()
        if name not in pools_of_plan
    }
    pools = {**pools_of_plan, **{name: pool for name, pool in guests.items() if pool is not None}}
    return Table(
        spans=spans,
        pools={
            name: pool
            for name, pool in sorted(pools.items())
            if any((pool.start, pool.end) in spans[half] for half in halves_of(pool.phase))
        },
    )


def _spans(pools: Iterable[BucketPool], phase: Phase, workload: Workload) -> tuple[Span, ...]:
    spans = {(pool.start, pool.end) for pool in pools if pool.serves(phase)}
    return tuple(sorted(span for span in spans if chance_of(workload, span) > 0))


def _guest(
    pool: BucketPool, longest: int, hosts: Mapping[str, BucketPool], spans: Mapping[Phase, tuple[Span, ...]]
) -> BucketPool | None:
    """A server of the other plan in the bucket that suits it best, of those that end at `longest` or before."""
    suited = [
        span
        for span in spans[halves_of(pool.phase)[0]]
        if span[1] <= longest and all(span in spans[half] for half in halves_of(pool.phase))
    ]
    if not suited:
        return None
    start, end = max(suited, key=lambda span: (min(span[1], pool.end) - max(span[0], pool.start), span))
    host = next(p for p in hosts.values() if (p.start, p.end) == (start, end) and p.serves(halves_of(pool.phase)[0]))
    return replace(pool, start=start, end=end, late_share=host.late_share)
