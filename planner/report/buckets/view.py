"""A plan of buckets as its pages see it: pools by phase and bucket, times at a load, simpler plans, a whiteboard."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.domain import (
    BucketLatency,
    BucketPool,
    KvTransfer,
    LoadPoint,
    Phase,
    Plan,
    SimplerPlan,
    SloSettings,
    halves_of,
)
from planner.domain.service import RangeService
from planner.report.kit.plots import Kind, Plot, series_of
from planner.report.kit.quantities import NONE, counted, percent, significant

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


def buckets_of(plan: Plan, phase: Phase) -> tuple[BucketView, ...]:
    """The buckets of one half, ascending by length, with the pools that serve it, the largest share first."""
    return _grouped(plan, phase, [pool for pool in plan.outlook.pools if pool.serves(phase)])


def own_buckets(plan: Plan, phase: Phase) -> tuple[BucketView, ...]:
    """The same with the pools of exactly this phase, those of both halves by themselves."""
    return _grouped(plan, phase, [pool for pool in plan.outlook.pools if pool.phase is phase])


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
    rows = (row for row in plan.outlook.latencies if row.load is load and row.phase is phase)
    return tuple(sorted(rows, key=lambda row: row.start))


def headline_load(plan: Plan) -> LoadPoint:
    """The load whose times are told first: the demand where levels are set and a demand is known, else the promise."""
    has_demand = any(row.load is LoadPoint.DEMAND for row in plan.outlook.latencies)
    return LoadPoint.DEMAND if has_demand and plan.outlook.levels_set else LoadPoint.PROMISE


def bounds_in(slo: SloSettings, phase: Phase, start: int, end: int) -> tuple[float, ...]:
    """Least and largest bound (ms) on TTFT or TPOT of the prompts of a bucket; one where they agree, none without."""
    lengths = {start, end - 1, *(edge for r in slo.ranges for edge in (r.start, r.end) if start <= edge < end)}
    pairs = [slo.bounds(tokens) for tokens in lengths]
    set_ms = {pair[phase is Phase.DECODE] for pair in pairs} - {None}
    bounds = sorted(bound for bound in set_ms if bound is not None)
    return tuple(dict.fromkeys((bounds[0], bounds[-1]))) if bounds else ()


def useful_simpler(plan: Plan) -> tuple[SimplerPlan, ...]:
    """Simpler and less simple plans, the plan among them; without those that another is no slower and as simple as."""
    rows = plan.outlook.simpler
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


def range_span(rows: Iterable[BucketLatency | RangeService]) -> str:
    """P10 and P90 of what the late times will be, from the least to the largest; empty where a row has no band."""
    ends = [(row.low_ms, row.high_ms) for row in rows]
    spans = [(low, high) for low, high in ends if low is not None and high is not None]
    if not spans or len(spans) < len(ends):
        return ""
    return time_span((min(low for low, _ in spans), max(high for _, high in spans)))


def simplicity_plot(plan: Plan) -> Plot:
    """Each simpler or less simple plan as a point, the plan as a star, the bounds as lines."""
    rows = useful_simpler(plan)
    chosen = [(float(row.kinds), row.rate_rps) for row in rows if row.chosen]
    star = f"the plan ({significant(chosen[0][1])})" if chosen else ""
    return Plot(
        name="simplicity",
        title="What a simpler plan would serve",
        says="Each point is the best plan of so many kinds of servers and buckets.",
        kind=Kind.LINES,
        x="kinds of servers (GPU type and configuration)",
        y="rate of the whole mix (requests/s)",
        series=(
            *(
                series_of(label, [(float(row.kinds), row.rate_rps) for row in members])
                for label, members in _by_buckets(rows).items()
            ),
            *([series_of(star, chosen, tone="chosen", kind=Kind.DOTS)] if chosen else ()),
        ),
        bounds=tuple(_bounds(plan)),
    )


def _by_buckets(rows: tuple[SimplerPlan, ...]) -> Mapping[str, list[SimplerPlan]]:
    """Rows by their numbers of buckets, fewest first."""
    series: dict[str, list[SimplerPlan]] = {}
    for row in sorted(rows, key=lambda row: (row.prefill_buckets, row.decode_buckets, row.kinds, row.pools)):
        prefill = counted(row.prefill_buckets, "bucket")
        series.setdefault(f"{prefill} of prefill, {row.decode_buckets} of decode", []).append(row)
    return series


def _bounds(plan: Plan) -> Iterator[tuple[str, float]]:
    certificate = plan.certificate
    if certificate is not None and certificate.objective_bound is not None and plan.scenario.objective.kind.row.plain:
        best = certificate.objective_bound
        yield f"no deployable pools serve more ({significant(best)})", best
    unrestricted_rps = plan.outlook.unrestricted_rps
    if unrestricted_rps is not None:
        yield f"no layout does ({significant(unrestricted_rps)})", unrestricted_rps


_ARROWS = {"single": "──▶", "first": "┬─▶", "middle": "├─▶", "last": "└─▶"}
_HANDOVER = ("   │  KV caches", "   ▼")


def whiteboard(plan: Plan) -> str:
    """The drawing in letters: prefill above, decode below, then what does both; a line a pool."""
    columns = _widths(plan)
    prefill, decode, mixed = (
        [line for bucket in own_buckets(plan, phase) for line in _bucket_lines(plan, bucket, columns)]
        for phase in Phase
    )
    lines = ["prefill, by tokens of the prompt", *prefill, *_HANDOVER, "decode, by tokens of the prompt", *decode]
    if mixed:
        both = ["prefill and decode on the same GPUs, by tokens of the prompt", *mixed]
        lines = [*lines, "", *both] if prefill else both
    return "\n".join(line.rstrip() for line in lines)


def _widths(plan: Plan) -> list[int]:
    """Widths of the columns: label of the bucket, and the cells of a pool."""
    labels = [_label(bucket) for phase in Phase for bucket in own_buckets(plan, phase)]
    cells = [_cells(plan, pool) for pool in plan.outlook.pools]
    return [max(map(len, labels)), *(max(map(len, column)) for column in zip(*cells, strict=True))]


def _bucket_lines(plan: Plan, bucket: BucketView, widths: Sequence[int]) -> list[str]:
    label, last = _label(bucket), len(bucket.pools) - 1
    lines = []
    for place, pool in enumerate(bucket.pools):
        kind = "single" if last == 0 else "first" if place == 0 else "last" if place == last else "middle"
        text = "  ".join(cell.ljust(width) for cell, width in zip(_cells(plan, pool), widths[1:], strict=True))
        lines.append(f"  {(label if place == 0 else '').ljust(widths[0])} {_ARROWS[kind]} {text}")
    return lines


def _label(bucket: BucketView) -> str:
    return f"{bucket.label} ({percent(bucket.probability)})"


def _cells(plan: Plan, pool: BucketPool) -> tuple[str, ...]:
    """`8 servers of 8 H200`, degrees, what a step holds, share of the bucket."""
    server = pool.server
    noun = "server" if pool.count == 1 else "servers"
    tokens, batch = f"{server.tokens_per_step:,} tokens a step", f"batch {server.batch_size}"
    step_words = {Phase.PREFILL: tokens, Phase.DECODE: batch, Phase.MIXED: f"{tokens}, {batch}"}[pool.phase]
    share, drafted = percent(pool.share), plan.outlook.drafted_by(pool.island)
    return (
        f"{pool.count:>2} {noun} of {server.parallel.devices} {' '.join(pool.gpu.replace('`', '').split())}",
        degrees(plan, pool),
        f"{step_words}{f', {drafted} drafted' if drafted else ''}{', overlapped' if server.overlapped else ''}",
        f"takes {share}" if pool.share < 1 - 1e-9 else "takes all",
    )


def degrees(plan: Plan, pool: BucketPool) -> str:
    """`TP1 DP8`, with PP where some pool of the plan has stages."""
    parallel = pool.server.parallel
    staged = any(other.server.parallel.pp > 1 for other in plan.outlook.pools)
    return f"TP{parallel.tp} DP{parallel.dp}{f' PP{parallel.pp}' if staged else ''}"
