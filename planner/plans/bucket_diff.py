"""Two plans of buckets against each other: cut points, what servers are started with, and what is promised.

Islands and routes are compared as deployed; what manifests do not tell of pools stands here.
"""

from collections.abc import Callable, Iterator, Mapping

from planner.domain import PHASES, BucketPlan, BucketPool, LoadPoint, Phase, Plan
from planner.domain.deployed import BucketComparison, ChangedValue

NOTHING = "–"
_ROUND = 1000.0
_TIMES = {Phase.PREFILL: "TTFT", Phase.DECODE: "TPOT"}
_FIELDS: Mapping[str, Callable[[BucketPool], object]] = {
    "prompts": lambda pool: f"{pool.start}–{pool.end - 1}",
    "tokens a step": lambda pool: pool.server.tokens_per_step,
    "overlap": lambda pool: "yes" if pool.server.overlapped else "no",
}


def compare_buckets(old: Plan, new: Plan) -> BucketComparison | None:
    """What changes; None where neither plan has buckets. A pool is known by its island's id."""
    if not (old.form.row.pooled or new.form.row.pooled):
        return None
    figures = [pair for pair in _figures(old, new) if pair.old != pair.new]
    return BucketComparison(deployed=(*_cuts(old, new), *_pools(old, new)), figures=tuple(figures))


def _cuts(old: Plan, new: Plan) -> Iterator[ChangedValue]:
    for phase in PHASES:
        before, after = _buckets(old, phase), _buckets(new, phase)
        if before != after:
            yield ChangedValue(field=f"buckets of {phase}", old=before, new=after)


def _buckets(plan: Plan, phase: Phase) -> str:
    if not plan.form.row.pooled:
        return "a table of shares"
    spans = sorted({(route.range_start, route.range_end) for route in plan.routing if route.phase is phase})
    return ", ".join(f"{start}–{end - 1}" for start, end in spans)


def _pools(old: Plan, new: Plan) -> Iterator[ChangedValue]:
    before, after = _by_island(old), _by_island(new)
    for island in [name for name in before if name in after]:
        for field, read in _FIELDS.items():
            was, will = str(read(before[island])), str(read(after[island]))
            if was != will:
                yield ChangedValue(field=f"{island}: {field}", old=was, new=will)


def _by_island(plan: Plan) -> dict[str, BucketPool]:
    return {pool.island: pool for pool in plan.outlook.pools}


def _figures(old: Plan, new: Plan) -> Iterator[ChangedValue]:
    """Promise, bursts, what remains after a loss, and the longest time that the levels count at each load."""
    readers: dict[str, Callable[[Plan], str]] = {
        "promise (requests/s)": lambda plan: _figure(plan, lambda buckets: buckets.promise_rps),
        "promise if requests bunch (requests/s)": lambda plan: _figure(plan, lambda buckets: buckets.burst_rps),
        "left after the worst loss (requests/s)": _worst_loss,
    }
    for load in LoadPoint:
        for phase in PHASES:
            readers[f"{_TIMES[phase]} {_statistic(old, new)} at {load} (ms)"] = _slowest(load, phase)
    for field, read in readers.items():
        yield ChangedValue(field=field, old=read(old), new=read(new))


def _statistic(old: Plan, new: Plan) -> str:
    """What the times are: `P95`, or of each plan where they differ."""
    return " and ".join(dict.fromkeys(plan.scenario.slo.statistic for plan in (old, new)))


def _worst_loss(plan: Plan) -> str:
    return _figure(plan, lambda buckets: buckets.worst_loss.rate_rps if buckets.losses else None)


def _figure(plan: Plan, read: Callable[[BucketPlan], float | None]) -> str:
    return _number(read(plan.outlook))


def _slowest(load: LoadPoint, phase: Phase) -> Callable[[Plan], str]:
    """The time that its levels count of the slowest bucket, with the rate of the mix that it is at."""

    def read(plan: Plan) -> str:
        every = plan.outlook.latencies
        rows = [row for row in every if row.load is load and row.phase is phase]
        if not rows:
            return NOTHING
        times = [row.late_ms for row in rows]
        slowest = "no end" if None in times else _number(max(time for time in times if time is not None))
        return f"{slowest} at {_number(rows[0].rate_rps)} requests/s"

    return read


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= _ROUND else f"{value:.4g}"
