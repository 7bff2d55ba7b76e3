"""How good the plan is: bounds and gap, what being deployable costs, simpler plans, and what a loss leaves."""

from collections.abc import Iterator

from planner.domain import Plan
from planner.report.buckets.headline import loss_sentence
from planner.report.buckets.plots import simplicity_plot
from planner.report.buckets.tables import losses, simpler_plans, simplicity_words
from planner.report.buckets.view import useful_simpler
from planner.report.kit.bands import banded_rate
from planner.report.kit.html.blocks import Block, Cell, Chart, DataTable, Prose, Section
from planner.report.kit.html.plots import chart_of
from planner.report.plan.certificate import certificate_text

_RATE = "requests/s"


def quality_section(plan: Plan) -> Section:
    """Rates and bounds beside each other, in words and as a chart."""
    blocks: list[Block] = [Prose(markdown=text) for text in certificate_text(plan)]
    blocks.append(_chart(plan))
    if useful_simpler(plan):
        blocks += [Prose(markdown=simplicity_words(plan)), chart_of(simplicity_plot(plan))]
        blocks.append(simpler_plans(plan).html())
    if plan.outlook.losses:
        blocks += [
            Prose(markdown=loss_sentence(plan)),
            losses(plan).html("What is left when a pool loses a node, the worst first."),
        ]
    return Section(name="quality", title="How good it is", blocks=tuple(blocks))


def _bars(plan: Plan) -> Iterator[tuple[str, float, str]]:
    """Name, requests/s and tone of each rate; of one bound that is told twice, the sharper name."""
    yield "promise", plan.outlook.promise_rps, "faint"
    yield "capacity", plan.throughput_rps, "chosen"
    certificate, row = plan.certificate, plan.scenario.objective.kind.row
    if certificate is None:
        return
    bounds: dict[float, str] = {}
    if certificate.objective_bound is not None and row.unit == _RATE and not row.several:
        bounds[certificate.objective_bound] = "bound, deployable"
    if certificate.bound_rps is not None:
        bounds[certificate.bound_rps] = "bound, any layout"
    yield from ((name, rate_rps, "bound") for rate_rps, name in bounds.items())


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
