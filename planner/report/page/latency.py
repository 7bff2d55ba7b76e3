"""Times by bucket against the levels: predicted at demand, promise and capacity, replayed where a replay is known."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.domain import PHASES, LoadPoint, Phase, Plan, RangeService
from planner.domain.replay import StoredReplay
from planner.domain.serving.levels import TIMES
from planner.report.buckets.tables import latency_words
from planner.report.buckets.view import buckets_of, latencies_at, span_label
from planner.report.kit.html.blocks import Block, Chart, DataTable, Prose, Section
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import significant
from planner.report.kit.tables import Column, fields, table_of

_SECOND_MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimes:
    """P50 and the time that the levels count (ms; None: the queue has no end) of a bucket at a rate of the whole mix;
    `bound_ms`: the mean of them where bounds differ by prompt, None where there is none."""

    bucket: str
    load: str
    rate_rps: float
    p50_ms: float | None
    late_ms: float | None
    bound_ms: float | None

    @property
    def spare(self) -> float | None:
        """What the late time leaves of the bound (%)."""
        if not self.bound_ms or self.late_ms is None:
            return None
        return 100 * (1 - self.late_ms / self.bound_ms)


def latency_section(plan: Plan, replay: StoredReplay | None = None) -> Section:
    """A chart and a table for TTFT and for TPOT, by load; else the ranges' means and percentiles at the capacity."""
    if not plan.outlook.latencies:
        blocks: tuple[Block, ...] = tuple(_of_ranges(plan))
    else:
        rows = {phase: tuple(_rows(plan, phase, replay)) for phase in PHASES}
        charts = [_chart(phase, rows[phase], plan.scenario.slo.statistic) for phase in PHASES if rows[phase]]
        blocks = (*charts, Prose(markdown=latency_words(plan)))
    return Section(name="latency", title="Latency", blocks=(*blocks, *_replayed(replay)))


def _replayed(replay: StoredReplay | None) -> list[Prose]:
    if replay is None:
        return []
    return [Prose(markdown=f"**Replayed, request by request.** {escaped(replay.summary)}")]


def _rows(plan: Plan, phase: Phase, replay: StoredReplay | None) -> Iterator[LoadTimes]:
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
    seconds = phase is Phase.PREFILL
    unit, scale = ("s", _SECOND_MS) if seconds else ("ms", 1.0)
    across = [
        [f"{row.bucket} tokens" for row in rows],
        [f"{row.load}<br>{significant(row.rate_rps)}/s" for row in rows],
    ]
    traces: list[dict[str, object]] = [
        {"type": "bar", "name": "P50", "x": across, "y": [_scaled(row.p50_ms, scale) for row in rows]},
        {"type": "bar", "name": statistic, "x": across, "y": [_scaled(row.late_ms, scale) for row in rows]},
    ]
    if any(row.bound_ms for row in rows):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "bound",
                "x": across,
                "y": [_scaled(row.bound_ms, scale) for row in rows],
                "marker": {"symbol": "line-ew", "size": 44, "line": {"width": 3}},
                "meta": {"tone": "bound"},
            }
        )
    return Chart(
        name=f"latency-{name.lower()}",
        title=f"{name} by bucket and load",
        says=_says(name, rows, statistic),
        traces=tuple(traces),
        layout={
            "barmode": "group",
            "height": 340,
            "xaxis": {"type": "multicategory"},
            "yaxis": {"title": {"text": f"{name} ({unit})"}, "rangemode": "tozero"},
        },
        table=_table(rows, statistic),
    )


def _scaled(time_ms: float | None, scale: float) -> float | None:
    return None if time_ms is None else time_ms / scale


def _says(name: str, rows: tuple[LoadTimes, ...], statistic: str) -> str:
    endless = sorted({row.load for row in rows if row.late_ms is None})
    bounded = [row for row in rows if row.spare is not None and row.load != LoadPoint.CAPACITY]
    text = f"P50 and {statistic} of {name} for each bucket and load."
    if bounded:
        least = min(bounded, key=lambda row: row.spare or 0.0)
        share = 1 - (least.spare or 0.0) / 100
        where = f"{least.load}, {least.bucket} tokens"
        text += f" Below the capacity, nearest to its bound: {100 * share:.0f} % of it ({where})."
    if endless:
        text += f" Without bars: the queue has no end ({', '.join(endless)})."
    return text


def _table(rows: tuple[LoadTimes, ...], statistic: str) -> DataTable:
    late: Column[LoadTimes] = Column(statistic, lambda row: row.late_ms, unit="ms")
    columns = (
        *fields("Prompts (tokens)=bucket", "Load=load", "Requests/s=rate_rps", "P50 (ms)=p50_ms"),
        *(late, *fields("Bound (ms)=bound_ms", "Spare (%)=spare")),
    )
    caption = "A dash: the queue has no end, or no bound is set. Spare: of the bound, beyond that time."
    return table_of(columns, rows).html(caption)


def _of_ranges(plan: Plan) -> Iterator[Block]:
    service = plan.service
    if service is None:
        yield Prose(markdown="No service levels are set (`slo`), so no times are predicted.")
        return
    which = "the mean" if service.percentile is None else f"P{service.percentile:g}"
    yield Prose(
        markdown=f"At the plan's rate, on the islands that are slowest in a range. Bounds hold for {which}. TTFT is "
        "queueing (M/G/c), prefill, KV transfer and the first decode step; arrivals are taken as Poisson."
    )
    for phase in PHASES:
        members = [row for row in service.ranges if row.phase is phase]
        if members:
            yield _range_chart(phase, members)


def _range_chart(phase: Phase, members: list[RangeService]) -> Chart:
    name = TIMES[phase]
    series = (
        ("mean", [row.mean_ms for row in members], {"series": 0}),
        ("percentile", [row.percentile_ms for row in members], {"series": 1}),
        ("bound", [row.bound_ms for row in members], {"tone": "bound"}),
    )
    middles = [(row.start + row.end) / 2 for row in members]
    span: Column[RangeService] = Column("Prompts (tokens)", lambda row: span_label(row.start, row.end))
    times = fields("Mean (ms)=mean_ms", "Percentile (ms)=percentile_ms", "Bound (ms)=bound_ms", "Slowest on=island.gpu")
    return Chart(
        name=f"latency-{name.lower()}",
        title=f"{name} by length of the prompt",
        says=f"{name} of {len(members)} ranges, on the slowest islands of each.",
        traces=tuple(
            {"type": "scatter", "mode": "lines", "name": label, "x": middles, "y": values, "meta": meta}
            for label, values, meta in series
            if any(value is not None for value in values)
        ),
        layout={
            "height": 320,
            "xaxis": {"title": {"text": "tokens of the prompt"}},
            "yaxis": {"title": {"text": "ms"}, "rangemode": "tozero"},
        },
        table=table_of((span, *times), members).html(),
    )
