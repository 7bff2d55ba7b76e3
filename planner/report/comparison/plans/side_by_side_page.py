"""Plans beside each other as a page to send."""

from typing import Any

from planner.domain import PHASES
from planner.domain.comparisons import PlanComparison
from planner.domain.serving.levels import TIMES
from planner.report.buckets.view import span_label
from planner.report.comparison.plans.side_by_side import (
    HOW_TO_READ,
    cheapest_of,
    every_figure,
    figure_cells,
    latency_rows,
    odds_cells,
    pools,
    verdict,
)
from planner.report.kit.html.blocks import Block, Chart, DataTable, Figure, Page, Prose, Section
from planner.report.kit.markdown import bullets, escaped
from planner.report.kit.quantities import counted, rate, significant


def comparison_html(comparison: PlanComparison, made_by: str, source: str) -> Page:
    """The page: figures, how likely which is better, what differs, pools, latency; `source`: by which it is known."""
    best = comparison.best.figures
    cheapest = cheapest_of([plan.figures for plan in comparison.plans])
    return Page(
        title=f"{counted(len(comparison.plans), 'plan')} beside each other",
        verdict=verdict(comparison),
        figures=(
            Figure(label=f"requests/s at most, {best.name}", value=rate(best.rate_rps)),
            *(
                ()
                if cheapest is None
                else (
                    Figure(
                        label=f"USD per million tokens at least, {cheapest[0].name}", value=significant(cheapest[1])
                    ),
                )
            ),
        ),
        sections=(
            Section(
                name="figures",
                title="Figures",
                blocks=(*_beware(comparison), _head(comparison), _rates(comparison), _prices(comparison)),
                folded=(every_figure(comparison).html("All figures"),),
            ),
            Section(name="differences", title="What differs in the scenarios", blocks=(_differences(comparison),)),
            Section(name="pools", title="Pools", blocks=(pools(comparison).html(),)),
            *_latency(comparison),
        ),
        made_by=made_by,
        source=source,
    )


def _beware(comparison: PlanComparison) -> tuple[Block, ...]:
    if not comparison.warnings:
        return ()
    return (Prose(markdown=bullets([f"**Beware:** {escaped(sentence)}" for sentence in comparison.warnings])),)


def _head(comparison: PlanComparison) -> DataTable:
    """As the terminal shows it: a row a figure, a column a plan."""
    figures = [plan.figures for plan in comparison.plans]
    cells = [*figure_cells(figures), *odds_cells(comparison)]
    return DataTable(
        columns=("figure", *(plan.name for plan in figures)),
        rows=tuple((label, *row) for label, row in cells),
        caption=HOW_TO_READ.replace("`", ""),
    )


def _rates(comparison: PlanComparison) -> Chart:
    plans = [plan.figures for plan in comparison.plans]
    names = [plan.name for plan in plans]
    rates = [plan.rate_rps for plan in plans]
    above = [plan.band.high_rps - plan.rate_rps if plan.band else 0.0 for plan in plans]
    below = [plan.rate_rps - plan.band.low_rps if plan.band else 0.0 for plan in plans]
    bands: dict[str, Any] = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    promises = [plan.promise_rps for plan in plans]
    traces: list[dict[str, Any]] = [{"type": "bar", "name": "capacity", "x": names, "y": rates, "error_y": bands}]
    marks = {"mode": "markers", "marker": {"symbol": "diamond", "size": 10}}
    traces.append({"type": "scatter", "name": "promise", "x": names, "y": promises, **marks})
    return Chart(
        name="rates",
        title="Requests/s",
        says="Capacity with P10–P90 of left-out measurements, and what is promised.",
        traces=tuple(traces),
        layout={"yaxis": {"title": {"text": "requests/s"}, "rangemode": "tozero"}, "xaxis": {"type": "category"}},
        table=DataTable(
            columns=("run", "capacity (requests/s)", "P10", "P90", "promise (requests/s)"),
            rows=tuple(
                (
                    plan.name,
                    plan.rate_rps,
                    plan.band.low_rps if plan.band else None,
                    plan.band.high_rps if plan.band else None,
                    plan.promise_rps,
                )
                for plan in plans
            ),
        ),
    )


def _prices(comparison: PlanComparison) -> Chart:
    plans = [plan.figures for plan in comparison.plans]
    return Chart(
        name="prices",
        title="Rate against price",
        says="Further up serves more, further left costs less.",
        traces=(
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [plan.price_usd_per_hour for plan in plans],
                "y": [plan.rate_rps for plan in plans],
                "text": [plan.name for plan in plans],
                "textposition": "top center",
            },
        ),
        layout={
            "xaxis": {"title": {"text": "USD/hour"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "requests/s"}, "rangemode": "tozero"},
        },
        table=DataTable(
            columns=("run", "USD/hour", "requests/s", "USD per million tokens", "kW"),
            rows=tuple(
                (
                    plan.name,
                    plan.price_usd_per_hour,
                    plan.rate_rps,
                    plan.price_usd_per_million_tokens,
                    plan.watts / 1000.0,
                )
                for plan in plans
            ),
        ),
    )


def _differences(comparison: PlanComparison) -> Block:
    if not comparison.differences:
        return Prose(markdown="Nothing: they were asked the same.")
    names = tuple(plan.figures.name for plan in comparison.plans)
    return DataTable(columns=("key", *names), rows=tuple((row.key, *row.values) for row in comparison.differences))


def _latency(comparison: PlanComparison) -> tuple[Section, ...]:
    rows = list(latency_rows(comparison))
    if not rows:
        return ()
    charts = []
    for phase in PHASES:
        labels = [f"{row.load}, {span_label(row.start, row.end)}" for _, row in rows if row.phase is phase]
        traces = tuple(
            {
                "type": "bar",
                "name": plan.figures.name,
                "x": [f"{r.load}, {span_label(r.start, r.end)}" for r in plan.latencies if r.phase is phase],
                "y": [r.late_ms for r in plan.latencies if r.phase is phase],
            }
            for plan in comparison.plans
        )
        charts.append(
            Chart(
                name=f"latency-{TIMES[phase].lower()}",
                title=f"{TIMES[phase]}, late",
                says=f"{TIMES[phase]} of {counted(len(set(labels)), 'load and bucket')} side by side, in ms.",
                traces=traces,
                layout={"yaxis": {"title": {"text": "ms"}, "rangemode": "tozero"}, "barmode": "group"},
                table=DataTable(
                    columns=("run", "load", "requests/s", "prompts (tokens)", "P50 (ms)", "late is", "late (ms)"),
                    rows=tuple(
                        (name, r.load, r.rate_rps, span_label(r.start, r.end), r.p50_ms, r.statistic, r.late_ms)
                        for name, r in rows
                        if r.phase is phase
                    ),
                ),
            )
        )
    return (Section(name="latency", title="Latency by bucket", blocks=tuple(charts)),)
