"""How good the plan is: bounds and gap, what being deployable costs, simpler plans, and what a loss leaves."""

from collections.abc import Iterator

from planner.domain import Plan
from planner.report.buckets.headline import loss_sentence
from planner.report.buckets.tables import simplicity_words
from planner.report.buckets.view import bucket_plan, useful_simpler
from planner.report.kit.bands import banded_rate
from planner.report.kit.html.blocks import Block, Cell, Chart, DataTable, Prose, Section
from planner.report.plan.certificate import certificate_text

_RATE = "requests/s"


def quality_section(plan: Plan) -> Section:
    """Rates and bounds beside each other, in words and as a chart."""
    blocks: list[Block] = [Prose(markdown=text) for text in certificate_text(plan)]
    blocks.append(_chart(plan))
    if useful_simpler(plan):
        blocks += [Prose(markdown=simplicity_words(plan)), _simplicity(plan)]
    if plan.outlook.losses:
        blocks += [Prose(markdown=loss_sentence(plan)), _losses(plan)]
    return Section(name="quality", title="How good it is", blocks=tuple(blocks))


def _bars(plan: Plan) -> Iterator[tuple[str, float, str]]:
    """Name, requests/s and tone of each rate; of one bound that is told twice, the sharper name."""
    if plan.buckets is not None:
        yield "promise", plan.outlook.promise_rps, "faint"
    yield "capacity", plan.throughput_rps, "chosen"
    certificate = plan.certificate
    if certificate is None:
        return
    rates_alone = plan.scenario.objective.kind.row.unit == _RATE and not plan.scenario.objective.kind.row.several
    if certificate.objective_bound is not None and rates_alone:
        name = "bound, deployable" if plan.buckets is not None else "bound"
        yield name, certificate.objective_bound, "bound"
        if plan.buckets is None:
            return
    if certificate.bound_rps is not None:
        yield "bound, any layout", certificate.bound_rps, "bound"


def _chart(plan: Plan) -> Chart:
    bars, banded = list(_bars(plan)), banded_rate(plan)
    names = [name for name, _, _ in bars]
    traces: list[dict[str, object]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [name],
            "x": [rate_rps],
            "meta": {"tone": tone},
            "showlegend": False,
            **({"marker": {"pattern": {"shape": "/"}}} if tone == "bound" else {}),
            **(_error(plan, banded.low, banded.high) if tone == "chosen" and banded else {}),
        }
        for name, rate_rps, tone in bars
    ]
    ends = (banded.low, banded.high) if banded else (None, None)
    rows: list[tuple[Cell, ...]] = [
        (name, rate_rps, *(ends if tone == "chosen" else (None, None))) for name, rate_rps, tone in bars
    ]
    return Chart(
        name="rates-and-bounds",
        title="The plan and its bounds",
        says=_SAYS,
        traces=tuple(traces),
        layout={
            "height": 120 + 44 * len(names),
            "xaxis": {"title": {"text": _RATE}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "type": "category"},
        },
        table=DataTable(columns=("Rate", "Requests/s", "P10", "P90"), rows=tuple(rows)),
    )


_SAYS = (
    "No plan passes its bounds: they are proved under the cost model, and share its errors. The whisker is the band of "
    "the plan's rate."
)


def _error(plan: Plan, low: float, high: float) -> dict[str, object]:
    """The whisker; an estimate that lies outside its own band has it to one side."""
    rate_rps = plan.throughput_rps
    return {
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, high - rate_rps)],
            "arrayminus": [max(0.0, rate_rps - low)],
            "color": "#7A8794",
            "thickness": 2,
            "width": 6,
        }
    }


def _simplicity(plan: Plan) -> Chart:
    rows = useful_simpler(plan)
    chosen = next((row for row in rows if row.chosen), None)
    others = [row for row in rows if not row.chosen]
    traces: list[dict[str, object]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "simpler or less simple",
            "x": [row.pools for row in others],
            "y": [row.rate_rps for row in others],
            "hovertext": [f"{row.kinds} kinds of servers" for row in others],
        }
    ]
    if chosen is not None:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "the plan",
                "x": [chosen.pools],
                "y": [chosen.rate_rps],
                "marker": {"symbol": "star", "size": 16},
                "meta": {"tone": "chosen"},
            }
        )
    best = chosen.rate_rps if chosen else max(row.rate_rps for row in rows)
    return Chart(
        name="simplicity",
        title="What a simpler plan would serve",
        says="Each point is the best plan of so many kinds of servers and buckets.",
        traces=tuple(trace for trace in traces if trace["x"]),
        layout={
            "height": 300,
            "xaxis": {
                "title": {"text": "pools"},
                "rangemode": "tozero",
                "dtick": _whole_ticks(row.pools for row in rows),
            },
            "yaxis": {"title": {"text": _RATE}, "rangemode": "tozero"},
        },
        table=DataTable(
            columns=(
                *("Kinds of servers", "Buckets of prefill", "Buckets of decode", "Pools", "Requests/s"),
                *("Of the plan (%)", "Chosen"),
            ),
            rows=tuple(
                (
                    *(row.kinds, row.prefill_buckets, row.decode_buckets, row.pools, row.rate_rps),
                    *(100 * row.rate_rps / best if best else None, "yes" if row.chosen else "no"),
                )
                for row in rows
            ),
        ),
    )


def _whole_ticks(pools: Iterator[int]) -> int:
    return max(1, max(pools) // 10)


def _losses(plan: Plan) -> DataTable:
    losses = sorted(bucket_plan(plan).losses, key=lambda loss: loss.rate_rps)
    pools = {pool.island: pool for pool in bucket_plan(plan).pools}
    return DataTable(
        columns=("Nodes of", "GPU type", "Nodes lost", "Servers lost", "Of", "Requests/s left", "Of the capacity (%)"),
        rows=tuple(
            (
                *(loss.island, pools[loss.island].gpu, loss.nodes, loss.servers, pools[loss.island].count),
                *(loss.rate_rps, 100 * loss.rate_rps / plan.throughput_rps),
            )
            for loss in losses
        ),
        caption="What is left when a pool loses a node, the worst first.",
    )
