"""A plan of buckets as its pages see it: pools by phase and bucket, times at a load, bounds, simpler plans."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.domain import (
    BucketLatency,
    BucketPlan,
    BucketPool,
    KvTransfer,
    LoadPoint,
    Phase,
    Plan,
    SimplerPlan,
    SloSettings,
    halves_of,
)
from planner.report.kit.quantities import NONE, significant

SECOND_MS = 1000.0
PRECISE = 1e-6
"""Relative difference of rates that is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketView:
    """Prompts of `start` <= tokens < `end` in one phase, how likely they are, and the pools that serve them."""

    phase: Phase
    start: int
    end: int
    probability: float
    pools: tuple[BucketPool, ...]

    @property
    def label(self) -> str:
        """First and last token."""
        return span_label(self.start, self.end)

    @property
    def capacity_rps(self) -> float:
        """Requests/s of this bucket that its pools serve together."""
        return sum(pool.count * pool.capacity_rps for pool in self.pools)


def span_label(start: int, end: int) -> str:
    """First and last token of an interval."""
    return f"{start:,}–{end - 1:,}"


def bucket_plan(plan: Plan) -> BucketPlan:
    """What the plan says of its pools; only plans of buckets come here."""
    return plan.outlook


def buckets_of(plan: Plan, phase: Phase) -> tuple[BucketView, ...]:
    """The buckets of one half, ascending by length, with the pools that serve it, the largest share first."""
    return _grouped(plan, phase, [pool for pool in bucket_plan(plan).pools if pool.serves(phase)])


def own_buckets(plan: Plan, phase: Phase) -> tuple[BucketView, ...]:
    """The same with the pools of exactly this phase, those of both halves by themselves."""
    return _grouped(plan, phase, [pool for pool in bucket_plan(plan).pools if pool.phase is phase])


def _grouped(plan: Plan, phase: Phase, pools: Iterable[BucketPool]) -> tuple[BucketView, ...]:
    chances = {(r.phase, r.range_start): r.probability for r in plan.routing}
    grouped: dict[tuple[int, int], list[BucketPool]] = {}
    for pool in pools:
        grouped.setdefault((pool.start, pool.end), []).append(pool)
    return tuple(
        BucketView(
            phase=phase,
            start=start,
            end=end,
            probability=chances.get((halves_of(phase)[0], start), 0.0),
            pools=tuple(sorted(pools, key=lambda pool: -pool.share)),
        )
        for (start, end), pools in sorted(grouped.items())
    )


def latencies_at(plan: Plan, load: LoadPoint, phase: Phase) -> tuple[BucketLatency, ...]:
    """The rows of one load and phase, ascending by length; none where the plan has no such load."""
    rows = (row for row in bucket_plan(plan).latencies if row.load is load and row.phase is phase)
    return tuple(sorted(rows, key=lambda row: row.start))


def headline_load(plan: Plan) -> LoadPoint:
    """The load whose times are told first: the demand where levels are set and a demand is known, else the promise."""
    has_demand = any(row.load is LoadPoint.DEMAND for row in bucket_plan(plan).latencies)
    return LoadPoint.DEMAND if has_demand and bucket_plan(plan).levels_set else LoadPoint.PROMISE


def bounds_in(slo: SloSettings, phase: Phase, start: int, end: int) -> tuple[float, ...]:
    """Least and largest bound (ms) on TTFT or TPOT of the prompts of a bucket; one where they agree, none without."""
    lengths = {start, end - 1, *(edge for r in slo.ranges for edge in (r.start, r.end) if start <= edge < end)}
    pairs = [slo.bounds(tokens) for tokens in lengths]
    set_ms = {pair[phase is Phase.DECODE] for pair in pairs} - {None}
    bounds = sorted(bound for bound in set_ms if bound is not None)
    return tuple(dict.fromkeys((bounds[0], bounds[-1]))) if bounds else ()


def useful_simpler(plan: Plan) -> tuple[SimplerPlan, ...]:
    """Simpler and less simple plans, the plan among them; without those that another is no slower and as simple as."""
    rows = bucket_plan(plan).simpler
    return tuple(row for row in rows if row.chosen or not any(_outdone(row, other) for other in rows))


def _outdone(row: SimplerPlan, other: SimplerPlan) -> bool:
    if other is row or other.rate_rps < row.rate_rps * (1 - PRECISE):
        return False
    sizes = list(zip(_sizes(other), _sizes(row), strict=True))
    return all(a <= b for a, b in sizes) and any(a < b for a, b in sizes)


def _sizes(row: SimplerPlan) -> tuple[int, ...]:
    return row.kinds, row.prefill_buckets, row.decode_buckets, row.pools


def time(value_ms: float | None) -> str:
    """A time to three digits: 46.6 ms, 2.36 s; a queue without an end is told as one."""
    if value_ms is None:
        return "no end"
    return f"{significant(value_ms / SECOND_MS)} s" if value_ms >= SECOND_MS else f"{significant(value_ms)} ms"


def transfer_text(transfer: KvTransfer) -> str:
    """What handing KV caches over costs, in words."""
    return (
        f"{time(transfer.mean_ms)} of the TTFT of a mean prompt, {time(transfer.longest_ms)} of the longest; "
        f"{significant(transfer.gb_s)} GB/s at the promise"
    )


def bound_span(bounds: Iterable[float]) -> str:
    """Bounds (ms) as they were set: 4 s, or 3–3.768 s; a dash without one."""
    ordered = sorted(set(bounds))
    if not ordered:
        return NONE
    unit, scale = ("s", SECOND_MS) if ordered[0] >= SECOND_MS else ("ms", 1.0)
    return f"{'–'.join(f'{bound / scale:.4g}' for bound in dict.fromkeys((ordered[0], ordered[-1])))} {unit}"


def time_span(values: Iterable[float | None]) -> str:
    """Times as one, or from the shortest to the longest where they differ."""
    listed: Sequence[float | None] = list(values)
    if not listed:
        return NONE
    if None in listed:
        return time(None)
    ordered = sorted(value for value in listed if value is not None)
    low, high = time(ordered[0]), time(ordered[-1])
    if low == high:
        return low
    (first, unit), (_, other) = low.split(" "), high.split(" ")
    return f"{first if unit == other else low}–{high}"
