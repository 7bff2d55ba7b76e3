"""Times against the levels: by bucket at demand, promise and capacity, replayed where a replay is known; by range."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from planner.domain import PHASES, LoadPoint, Phase, Plan, RangeService
from planner.domain.replay import StoredReplay
from planner.domain.serving.levels import TIMES, Standing, judged_levels
from planner.report.buckets.tables import latency_words
from planner.report.buckets.view import buckets_of, latencies_at, range_span, span_label, time
from planner.report.kit.markdown import escaped
from planner.report.kit.plots import Kind, Plot, Series, chart_of, series_of
from planner.report.kit.quantities import banded_rate, percent, rate, significant, whole
from planner.report.kit.tables import Column, fields, table_of
from planner.report.kit.tree import Block, Chart, DataTable, Section, paragraphs, section

_SECOND_MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimes:
    """P50 and the time that the levels count (ms; None: the queue has no end) of a bucket at a rate of the whole mix;
    `bound_ms`: the mean of them where bounds differ by prompt, None where there is none; `level`: kept or broken;
    `ends`: P10 and P90 of what the late time will be, in words."""

    bucket: str
    load: str
    rate_rps: float
    p50_ms: float | None
    late_ms: float | None
    bound_ms: float | None
    level: str = ""
    ends: str = ""

    @property
    def spare(self) -> float | None:
        """What the late time leaves of the bound (%)."""
        if not self.bound_ms or self.late_ms is None:
            return None
        return 100 * (1 - self.late_ms / self.bound_ms)


def latency_section(plan: Plan, replay: StoredReplay | None = None) -> Section:
    """A chart and a table for TTFT and for TPOT; by load; else the ranges' means and percentiles at the capacity."""
    if not plan.outlook.latencies:
        blocks = tuple(_of_ranges(plan))
    else:
        rows = {phase: tuple(_rows(plan, phase, replay)) for phase in PHASES}
        charts = [_chart(phase, rows[phase], plan.scenario.slo.statistic) for phase in PHASES if rows[phase]]
        blocks = (*charts, *paragraphs(latency_words(plan)))
    return section("latency", "Latency", *blocks, *_replayed(replay))


def _replayed(replay: StoredReplay | None) -> tuple[Block, ...]:
    return paragraphs("" if replay is None else f"**Replayed, request by request.** {escaped(replay.summary)}")


def _rows(plan: Plan, phase: Phase, replay: StoredReplay | None) -> Iterator[LoadTimes]:
    standing = {
        (levels.load, check.phase, check.start, check.end): "broken" if check.standing is Standing.BREAKS else "kept"
        for levels in judged_levels(plan)
        for check in levels.checks
    }
    for bucket in buckets_of(plan, phase):
        bound_ms = None
        for load in LoadPoint:
            for row in latencies_at(plan, load, phase):
                if (row.start, row.end) == (bucket.start, bucket.end):
                    bound_ms = row.bound_ms
                    yield LoadTimes(
                        bucket=bucket.label,
                        load=load.value,
                        rate_rps=row.rate_rps,
                        p50_ms=row.p50_ms,
                        late_ms=row.late_ms,
                        bound_ms=bound_ms,
                        level=standing.get((load.value, phase, row.start, row.end), ""),
                        ends=range_span([row]),
                    )
        if replay is not None and (times := replay.times(phase, bucket.start, bucket.end, plan.scenario.slo.statistic)):
            yield LoadTimes(
                bucket=bucket.label,
                load="replayed",
                rate_rps=replay.rate_rps,
                p50_ms=times[0],
                late_ms=times[1],
                bound_ms=bound_ms,
            )


def _chart(phase: Phase, rows: tuple[LoadTimes, ...], statistic: str) -> Chart:
    name = TIMES[phase]
    unit, scale = ("s", _SECOND_MS) if phase is Phase.PREFILL else ("ms", 1.0)
    across = [(f"{row.bucket} tokens", f"{row.load}<br>{significant(row.rate_rps)}/s") for row in rows]

    def times(word: str, values: Iterable[float | None], **look: Any) -> Series:
        return Series(name=word, x=tuple(across), y=tuple(None if ms is None else ms / scale for ms in values), **look)

    bounds = [row.bound_ms or None for row in rows]
    plot = Plot(
        name=f"latency-{name.lower()}",
        title=f"{name} by bucket and load",
        says=_says(name, rows, statistic),
        kind=Kind.BARS,
        x="bucket and load",
        y=f"{name} ({unit})",
        series=(
            times("P50", (row.p50_ms for row in rows)),
            times(statistic, (row.late_ms for row in rows)),
            *([times("bound", bounds, tone="bound", kind=Kind.DOTS)] if any(bounds) else []),
        ),
    )
    return chart_of(plot, _table(rows, statistic), told=True)


def _says(name: str, rows: tuple[LoadTimes, ...], statistic: str) -> str:
    endless = sorted({row.load for row in rows if row.late_ms is None})
    bounded = [row for row in rows if row.spare is not None and row.load != LoadPoint.CAPACITY]
    text = f"P50 and {statistic} of {name} for each bucket and load."
    if bounded:
        nearest = min(bounded, key=lambda row: row.spare or 0.0)
        share = 1 - (nearest.spare or 0.0) / 100
        where = f"{nearest.load}, {nearest.bucket} tokens"
        text += f" Below the capacity, nearest to its bound: {100 * share:.0f} % of it ({where})."
    if endless:
        text += f" Without bars: the queue has no end ({', '.join(endless)})."
    return text


def _table(rows: tuple[LoadTimes, ...], statistic: str) -> DataTable:
    columns: tuple[Column[LoadTimes], ...] = (
        *fields("Prompts (tokens)=bucket", "Load=load"),
        Column("Requests/s", lambda row: row.rate_rps, rate),
        Column("P50", lambda row: row.p50_ms, time),
        Column(statistic, lambda row: row.late_ms, time),
        *([Column("P10–P90", lambda row: row.ends or None, str)] if any(row.ends for row in rows) else []),
        Column("Bound", lambda row: row.bound_ms, time),
        Column("Spare", lambda row: row.spare, "{:.0f} %".format),
        Column("Level", lambda row: row.level or None),
    )
    caption = "A dash: the queue has no end, or no bound is set. Spare: of the bound, beyond that time."
    if any(row.ends for row in rows):
        caption += f" P10–P90: of {statistic}, by left-out measurements of such times."
    return table_of(columns, rows).block(caption)


def _of_ranges(plan: Plan) -> Iterator[Block]:
    """What holds, the worst of it, and each range's times on the islands that are slowest in it."""
    service = plan.service
    if service is None:
        yield from paragraphs("No service levels are set (`slo`), so no times are predicted.")
        return
    which = "the mean" if service.percentile is None else f"P{service.percentile:g}"
    banded = banded_rate(plan)
    goodput = f"about {banded}" if banded else rate(service.goodput_rps)
    lead = f"Goodput {goodput} requests/s: bounds hold for {which} in every range."
    if service.factor < 1 and service.binding is not None:
        lead += (
            f" The queue of {service.binding_phase} islands of {service.binding.size} {escaped(service.binding.gpu)} "
            f"allows {percent(service.factor)} of what they could take in."
        )
    by_phase = {phase: rows for phase in PHASES if (rows := [row for row in service.ranges if row.phase is phase])}
    yield from paragraphs(lead)
    worst = [max(rows, key=_share) for rows in by_phase.values()]
    ends: Column[RangeService] = Column("P10–P90", lambda row: range_span([row]) or None, str)
    yield table_of((*_WORST, *([ends] if range_span(worst) else [])), worst).block()
    yield from paragraphs(_TIMES)
    for phase, rows in by_phase.items():
        yield _range_chart(phase, rows)


_TIMES = (
    "TTFT = queueing (M/G/c) + prefill + KV transfer + first decode step; TPOT at the batch that the island runs. "
    "Arrivals are taken as Poisson."
)


def _range_chart(phase: Phase, members: list[RangeService]) -> Chart:
    name = TIMES[phase]
    middles = [(row.start + row.end) / 2 for row in members]
    looks: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("mean", "mean_ms", {"place": 0}),
        ("percentile", "percentile_ms", {"place": 1}),
        ("bound", "bound_ms", {"tone": "bound"}),
    )
    series = [
        series_of(word, [(at, getattr(row, key)) for at, row in zip(middles, members, strict=True)], **look)
        for word, key, look in looks
    ]
    plot = Plot(
        name=f"latency-{name.lower()}",
        title=f"{name} by length of the prompt",
        says=f"{name} of {len(members)} ranges, on the slowest islands of each.",
        kind=Kind.LINES,
        x="tokens of the prompt",
        y="ms",
        series=tuple(row for row in series if any(value is not None for value in row.y)),
    )
    span: Column[RangeService] = Column("Prompts (tokens)", lambda row: span_label(row.start, row.end))
    times = fields("Mean (ms)=mean_ms", "Percentile (ms)=percentile_ms", "Bound (ms)=bound_ms", "Slowest on=island.gpu")
    return chart_of(plot, table_of((span, *times), members).block())


def _share(row: RangeService) -> float:
    """How much of its bound a range takes up; without a bound, its time."""
    value = row.told_ms
    if value is None:
        return 0.0
    return value / row.bound_ms if row.bound_ms else value * 1e-9


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return whole(value) if value >= 100 else f"{value:.1f}"


_WORST: tuple[Column[RangeService], ...] = (
    Column("", lambda row: TIMES[row.phase]),
    Column("Bound (ms)", lambda row: _ms(row.bound_ms), str),
    Column("Worst mean (ms)", lambda row: _ms(row.mean_ms), str),
    Column("Worst percentile (ms)", lambda row: _ms(row.percentile_ms), str),
    Column("In range", lambda row: f"{row.start}-{row.end - 1}", str),
)


def exactness_note(plan: Plan) -> list[str]:
    """How the ranges' rates compare with every exact length."""
    if plan.exact_rps is None or plan.throughput_rps <= 0:
        return []
    difference = plan.exact_rps / plan.throughput_rps - 1
    return [
        f"Recomputed at every exact prompt length with the same routing: {rate(plan.exact_rps)} requests/s "
        f"({100 * difference:+.1f} %)."
    ]
