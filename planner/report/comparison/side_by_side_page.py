"""Plans beside each other as a report."""

from planner.domain import PHASES, Phase
from planner.domain.comparisons import LatencyFigures, PlanComparison
from planner.domain.serving.levels import TIMES
from planner.report.buckets.view import span_label, time
from planner.report.comparison.side_by_side import (
    ASKED_ALIKE,
    HOW_TO_READ,
    cheapest_of,
    differences,
    every_figure,
    head,
    latency_rows,
    pools,
    verdict,
)
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import Kind, Plot, chart_of, series_of
from planner.report.kit.quantities import counted, rate, significant
from planner.report.kit.tables import Column, fields, of_part, table_of
from planner.report.kit.tree import Chart, Figure, Page, Prose, Section, section


def comparison_page(comparison: PlanComparison) -> Page:
    """Figures, how likely which is better, what differs, pools, latency."""
    best, cheapest = comparison.best.figures, cheapest_of([plan.figures for plan in comparison.plans])
    heads = [Figure(label=f"requests/s at most, {best.name}", value=rate(best.rate_rps))]
    if cheapest is not None:
        label = f"USD per million tokens at least, {cheapest[0].name}"
        heads.append(Figure(label=label, value=significant(cheapest[1])))
    figures = head(comparison, "figure").block(HOW_TO_READ)
    return Page(
        title=f"{counted(len(comparison.plans), 'plan')} beside each other",
        verdict=verdict(comparison),
        figures=tuple(heads),
        sections=(
            Section(
                name="figures",
                title="Figures",
                blocks=(*listed(warnings(comparison)), figures, _rates(comparison), _prices(comparison)),
                folded=(every_figure(comparison).block("All figures", "comparison.csv"),),
            ),
            *rest_sections(comparison),
        ),
    )


def warnings(comparison: PlanComparison) -> list[str]:
    """What to beware of."""
    return [f"**Beware:** {escaped(sentence)}" for sentence in comparison.warnings]


def rest_sections(comparison: PlanComparison) -> tuple[Section, ...]:
    """What follows the figures: what differs in the scenarios, pools, latency."""
    differing, rows = differences(comparison), list(latency_rows(comparison))
    late = [_late(comparison, phase, [row for row in rows if row[1].phase is phase]) for phase in PHASES if rows]
    scenarios = differing.block() if differing else Prose(markdown=ASKED_ALIKE)
    return (
        section("differences", "What differs in the scenarios", scenarios),
        section("pools", "Pools", pools(comparison).block()),
        section("latency", "Latency by bucket", *late),
    )


def _rates(comparison: PlanComparison) -> Chart:
    plans = [plan.figures for plan in comparison.plans]
    names, promises = [plan.name for plan in plans], [plan.promise_rps for plan in plans]
    ends = {end: tuple(getattr(plan.band, f"{end}_rps", None) for plan in plans) for end in ("low", "high")}
    rates = series_of("capacity", [(plan.name, plan.rate_rps) for plan in plans], interval="P10–P90", **ends)
    promised = series_of("promise", list(zip(names, promises, strict=True)), kind=Kind.DOTS, tone="bound")
    plot = Plot(
        name="rates",
        title="Requests/s",
        says="Capacity with P10–P90 of left-out measurements, and what is promised.",
        kind=Kind.BARS,
        x="run",
        y="requests/s",
        series=(rates, promised),
        interval="P10–P90",
    )
    return chart_of(plot)


def _prices(comparison: PlanComparison) -> Chart:
    plans = [plan.figures for plan in comparison.plans if plan.figures.price_usd_per_hour is not None]
    points = [(plan.price_usd_per_hour or 0.0, plan.rate_rps) for plan in plans]
    plot = Plot(
        name="prices",
        title="Rate against price",
        says="Further up serves more, further left costs less.",
        kind=Kind.DOTS,
        x="USD/hour",
        y="requests/s",
        series=(series_of("plans", points, labels=tuple(plan.name for plan in plans)),),
    )
    return chart_of(plot)


def _late(comparison: PlanComparison, phase: Phase, rows: list[tuple[str, LatencyFigures]]) -> Chart:
    def where(row: LatencyFigures) -> str:
        return f"{row.load}, {span_label(row.start, row.end)}"

    kinds = counted(len({where(row) for _, row in rows}), "load and bucket")
    plot = Plot(
        name=f"latency-{TIMES[phase].lower()}",
        title=f"{TIMES[phase]}, late",
        says=f"{TIMES[phase]} of {kinds} side by side, in ms.",
        kind=Kind.BARS,
        x="load and bucket",
        y="ms",
        series=tuple(
            series_of(plan.figures.name, [(where(row), row.late_ms) for row in plan.latencies if row.phase is phase])
            for plan in comparison.plans
        ),
    )
    return chart_of(plot, table_of(_TIME, rows).block("A dash: the queue has no end."), told=True)


_TIME: tuple[Column[tuple[str, LatencyFigures]], ...] = (
    Column("run", lambda row: row[0]),
    *of_part(lambda row: row[1], (*fields("load"), Column("requests/s", lambda row: row.rate_rps, rate))),
    Column("prompts (tokens)", lambda row: span_label(row[1].start, row[1].end)),
    Column("P50", lambda row: row[1].p50_ms, time),
    Column("late is", lambda row: row[1].statistic),
    Column("late", lambda row: row[1].late_ms, time),
)
