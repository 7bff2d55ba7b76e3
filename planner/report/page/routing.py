"""Which prompts there are, and who serves which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.domain import PHASES, Phase, Plan
from planner.report.buckets.view import BucketView, buckets_of
from planner.report.kit.html.blocks import Block, Chart, DataTable, Prose, Section
from planner.report.kit.quantities import counted, percent
from planner.report.kit.tables import Column, fields, table_of
from planner.report.plan.groups import READABLE_GROUPS, groups, merged, of_phase
from planner.report.plan.routing import intervals, rates

MOST_BARS = 60
"""Bars of a histogram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Prompts of `start` <= tokens < `end`, their share of all, and the requests/s of each series."""

    start: int
    end: int
    probability: float
    values: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """First and last token."""
        return f"{self.start}–{self.end - 1}"


def routing_section(plan: Plan) -> Section:
    """Prompt lengths with the cuts between buckets, or the routing table from afar."""
    if not plan.routing:
        return Section(name="routing", title="Routing", blocks=(Prose(markdown="Nothing is routed."),))
    if plan.form.row.pooled:
        return Section(name="routing", title="Buckets", blocks=(_lengths(plan), _buckets(plan)))
    blocks: list[Block] = [Prose(markdown=_TABLE), *(_shares(plan, phase) for phase in PHASES)]
    return Section(name="routing", title="Routing", blocks=tuple(blocks))


_TABLE = (
    "Requests/s by length of the prompt, and who serves them. Islands of one type and of neighbouring sizes are one "
    "series, neighbouring ranges one bar; `routing.csv` of the run folder has every cell."
)


def _lengths(plan: Plan) -> Chart:
    bars, cuts = _histogram(plan), sorted({b.start for p in PHASES for b in buckets_of(plan, p)} - {0})
    says = (
        "One bucket takes all prompts." if not cuts else f"Buckets begin at {', '.join(f'{c:,}' for c in cuts)} tokens."
    )
    lines = [
        {"type": "line", "x0": cut, "x1": cut, "yref": "paper", "y0": 0, "y1": 1, "line": {"dash": "dash", "width": 2}}
        for cut in cuts
    ]
    return Chart(
        name="prompt-lengths",
        title="Prompt lengths",
        says=f"Share of the requests by length of the prompt. {says}",
        traces=(
            {
                "type": "bar",
                "name": "requests",
                "x": [(bar.start + bar.end) / 2 for bar in bars],
                "width": [bar.end - bar.start for bar in bars],
                "y": [100 * bar.probability for bar in bars],
                "hovertext": [f"{bar.label} tokens" for bar in bars],
                "showlegend": False,
            },
        ),
        layout={
            "height": 280,
            "shapes": lines,
            "xaxis": {"title": {"text": "tokens of the prompt"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "% of requests"}},
        },
        table=DataTable(
            columns=("Tokens", "Of all requests (%)"), rows=tuple((bar.label, 100 * bar.probability) for bar in bars)
        ),
    )


def _histogram(plan: Plan) -> list[Bar]:
    """The exact lengths in at most so many equal stretches."""
    workload = plan.scenario.workload
    width = max(1, -(-(workload.input_tokens[-1] + 1) // MOST_BARS))
    masses: dict[int, float] = {}
    for tokens, probability in zip(workload.input_tokens, workload.probabilities, strict=True):
        masses[tokens // width] = masses.get(tokens // width, 0.0) + probability
    return [Bar(start=at * width, end=(at + 1) * width, probability=mass) for at, mass in sorted(masses.items())]


def _buckets(plan: Plan) -> DataTable:
    columns: tuple[Column[BucketView], ...] = (
        *fields("Phase=phase", "Prompts (tokens)=label"),
        Column("Of all requests", lambda bucket: bucket.probability, unit="%"),
        Column("Requests/s at capacity", lambda bucket: bucket.probability * plan.throughput_rps),
        *fields("Pools could serve, requests/s=capacity_rps"),
        Column("Served by", lambda bucket: ", ".join(f"{pool.island} {percent(pool.share)}" for pool in bucket.pools)),
    )
    caption = "The router sends a request to the pools of its bucket, there to the server with the least work."
    return table_of(columns, (bucket for phase in PHASES for bucket in buckets_of(plan, phase))).html(caption)


def _shares(plan: Plan, phase: Phase) -> Chart:
    listed = merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    bars = list(_joined(_ranges(plan, phase), MOST_BARS))
    labels = [bar.label for bar in bars]
    traces = [
        {
            **{"type": "bar", "name": group.label, "x": labels, "y": [bar.values[at] for bar in bars]},
            "meta": {"series": at, "gpu": group.gpu},
        }
        for at, group in enumerate(listed)
    ]
    return Chart(
        name=f"routing-{phase.value}",
        title=f"Who serves which prompts in {phase.value}",
        says=f"{counted(len(listed), 'group')} of islands; a bar is a stretch of prompt length.",
        traces=tuple(traces),
        layout={
            "barmode": "stack",
            "height": 420,
            "xaxis": {"title": {"text": "tokens of the prompt"}, "type": "category"},
            "yaxis": {"title": {"text": "requests/s"}},
        },
        table=DataTable(
            columns=("Tokens", "Of all requests (%)", *(group.label for group in listed)),
            rows=tuple((bar.label, 100 * bar.probability, *bar.values) for bar in bars),
            rest="routing.csv of the run folder",
        ),
    )


def _ranges(plan: Plan, phase: Phase) -> list[Bar]:
    listed = merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    by_group = rates(plan, phase, listed)
    return [
        Bar(
            start=interval.start,
            end=interval.end,
            probability=interval.probability,
            values=tuple(row[at] for row in by_group),
        )
        for at, interval in enumerate(intervals(plan))
    ]


def _joined(bars: Sequence[Bar], most: int) -> Iterator[Bar]:
    """Neighbours added up until there are few enough."""
    step = max(1, -(-len(bars) // most))
    for at in range(0, len(bars), step):
        members = bars[at : at + step]
        yield Bar(
            start=members[0].start,
            end=members[-1].end,
            probability=sum(bar.probability for bar in members),
            values=tuple(map(sum, zip(*(bar.values for bar in members), strict=True))),
        )
