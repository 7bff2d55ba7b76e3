"""How good the plan is: bounds and gap, what being deployable costs, simpler plans, and what a loss leaves."""

from collections.abc import Iterator

from planner.domain import PHASES, GpuWorth, Phase, Plan, RangeHeadroom, Sensitivity
from planner.report.buckets.headline import loss_sentence
from planner.report.buckets.tables import losses, simpler_plans, simplicity_words
from planner.report.buckets.view import simplicity_plot, useful_simpler
from planner.report.kit.markdown import escaped
from planner.report.kit.plots import Kind, Plot, chart_of, series_of
from planner.report.kit.quantities import banded_rate, money, percent, rate, signed, signed_range, whole
from planner.report.kit.tables import Column, fields, of_part, table_of
from planner.report.kit.tree import Block, Chart, Section, paragraphs, section

_RATE = "requests/s"


def quality_section(plan: Plan) -> Section:
    """Rates and bounds beside each other, simpler plans, what a loss leaves."""
    blocks: list[Block] = [_chart(plan)]
    if useful_simpler(plan):
        blocks += [*paragraphs(simplicity_words(plan)), chart_of(simplicity_plot(plan)), simpler_plans(plan).block()]
    lost = losses(plan).block("What is left when a pool loses a node, the worst first.")
    return section("quality", "How good it is", *blocks, *paragraphs(loss_sentence(plan)), lost)


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
    ends = {"low": (banded.low,), "high": (banded.high,)} if banded else {}
    plot = Plot(
        name="rates-and-bounds",
        title="The plan and its bounds",
        says="No plan passes its bounds: they are proved under the cost model, and share its errors. The whisker is "
        "the band of the plan's rate.",
        kind=Kind.BARS,
        x="rate",
        y=_RATE,
        series=tuple(
            series_of(name, [(name, rate_rps)], tone=tone, **(ends if tone == "chosen" else {}))
            for name, rate_rps, tone in bars
        ),
        lying=True,
    )
    columns: tuple[Column[tuple[str, float, str]], ...] = (
        Column("Rate", lambda bar: bar[0]),
        Column("Requests/s", lambda bar: bar[1]),
        *of_part(lambda bar: banded if bar[2] == "chosen" else None, fields("P10=low", "P90=high")),
    )
    return chart_of(plot, table_of(columns, bars).block())


SPARE = 0.005
"""A range whose rate could rise by less than this share has no headroom."""


def sensitivity_lead(plan: Plan) -> str:
    """What the changes are of."""
    if plan.form.row.pooled:
        return (
            "Requests/s by which the rate would change, each planned: of few GPUs from scratch, of more the servers "
            "behind the same buckets. Of a range the first figure was reached, and no such pools pass the second."
        )
    return (
        "Requests/s by which the most that these GPUs can serve would change; islands may be formed anew, and cut as "
        "finely as the relaxation allows."
    )


def sensitivity_words(plan: Plan) -> str:
    """What binds, what a faster phase would do, which type to drop first, where there is headroom."""
    sensitivity = plan.sensitivity
    if sensitivity is None:
        return ""
    words = [
        _network(plan),
        _binding(plan, sensitivity),
        _worth(sensitivity) if sensitivity.phases else "",
        _drop(sensitivity),
        *(_headroom(plan, sensitivity, phase) for phase in PHASES),
    ]
    return " ".join(word for word in words if word)


def _more(worth: GpuWorth) -> str:
    return f"{signed_range(worth.more_node_rps, worth.more_node_most_rps)} ({worth.gpus_per_node} GPUs)"


def _less(worth: GpuWorth) -> str | None:
    if worth.less_node_rps is None or worth.less_node_most_rps is None:
        return None
    return f"{signed_range(worth.less_node_rps, worth.less_node_most_rps)} ({worth.gpus_lost} GPUs)"


_WORTH: tuple[Column[GpuWorth], ...] = (
    *fields("GPU type=gpu"),
    Column("One more node", _more, str),
    Column("One node less", _less, str),
    Column("One more node, per USD/hour", lambda worth: worth.rps_per_usd_hour, signed),
)


def _network(plan: Plan) -> str:
    if not plan.network_bottleneck:
        return ""
    unseen = "" if plan.outlook.pools else ", which these figures do not count"  # pools are priced with their NICs
    return f"**The network holds the rate back** ({escaped(plan.network_bottleneck)}){unseen}."


def _binding(plan: Plan, sensitivity: Sensitivity) -> str:
    if all(island.phase in (Phase.MIXED, None) for island in plan.islands):
        return "**Prefill and decode share every pass**: what makes a server faster serves more of both."
    if sensitivity.binding is None:
        return "**Prefill and decode bind alike**: only more of both serves more."
    phase, other = sensitivity.binding.capitalize(), _other(sensitivity.binding)
    return (
        f"**{phase} binds.** Relieved of it, the same {plan.form.row.part}s would next be held by {other}, at "
        f"{rate(sensitivity.next_rps)} requests/s."
    )


def _other(phase: Phase) -> Phase:
    return Phase.DECODE if phase is Phase.PREFILL else Phase.PREFILL


def _worth(sensitivity: Sensitivity) -> str:
    """Shares of the fleet's worth, and what a faster phase would do."""
    first, second = sorted(sensitivity.phases, key=lambda phase: -phase.worth_share)
    return (
        f"By the shadow prices {first.phase} takes {percent(first.worth_share)} of the fleet's worth: {first.phase} "
        f"faster by 10 % would add {rate(first.faster_rps)} requests/s, {second.phase} {rate(second.faster_rps)}. With "
        f"{sensitivity.binding or first.phase} so much faster, {escaped(sensitivity.next_gpu)} is the type that counts "
        "most."
    )


def _drop(sensitivity: Sensitivity) -> str:
    present = [worth for worth in sensitivity.gpus if worth.less_node_rps is not None]
    if len(present) < 2:
        return ""
    drop = next(worth for worth in present if worth.gpu == sensitivity.drop_first)
    saved = drop.price_usd_per_gpu_hour * drop.gpus_lost
    price = f" for {money(saved)} USD/hour saved" if saved else ""
    lost = rate(-(drop.less_node_rps or 0.0))
    return (
        f"**Drop {escaped(drop.gpu)} first**: {whole(drop.gpus_lost)} fewer cost {lost} requests/s{price}, less per "
        f"{'USD' if saved else 'GPU'} than any other type."
    )


def _headroom(plan: Plan, sensitivity: Sensitivity, phase: Phase) -> str:
    """Spare time by range or bucket: one sentence a phase."""
    phase_rows = [row for row in sensitivity.ranges if row.phase is phase]
    spare = [row for row in phase_rows if row.headroom >= SPARE]
    if not phase_rows:
        return ""
    if not spare:
        return f"No {plan.form.row.stretch} has headroom in {phase}."
    tightest = min(spare, key=lambda row: row.headroom)
    where = (
        f"every {plan.form.row.stretch}"
        if len(spare) == len(phase_rows)
        else f"{len(spare)} of {len(phase_rows)} {plan.form.row.stretch}s"
    )
    more = f"{percent(tightest.headroom)} or more (least: {_span(tightest)})"
    return f"In {phase} {where}, taken alone, could grow by {more}."


def _span(row: RangeHeadroom) -> str:
    return f"{row.range_start:,}–{row.range_end - 1:,} tokens"


def sensitivity_section(plan: Plan) -> Section:
    """A node more and a node less by GPU type, and what binds in words; of no blocks without such figures."""
    sensitivity = plan.sensitivity
    if sensitivity is None:
        return section("sensitivity", "What would change it")
    worths = table_of(_WORTH, sensitivity.gpus).block(sensitivity_lead(plan))
    words = paragraphs(sensitivity_words(plan))
    return section("sensitivity", "What would change it", worths, *words, _worth_chart(sensitivity.gpus))


def _worth_chart(worths: tuple[GpuWorth, ...]) -> Chart:
    gpus = [f"{worth.gpu}<br>(node of {worth.gpus_per_node})" for worth in worths]
    sides = (("one node more", "more_node_rps"), ("one node less", "less_node_rps"))
    plot = Plot(
        name="one-node-more-or-less",
        title="One node more, one node less",
        says="Requests/s by which the rate would change.",
        kind=Kind.BARS,
        x="GPU type",
        y="change, requests/s",
        series=tuple(
            series_of(words, [(gpu, getattr(worth, key)) for gpu, worth in zip(gpus, worths, strict=True)])
            for words, key in sides
        ),
    )
    return chart_of(plot, table_of(_WORTH_NUMBERS, worths).block("Changes of the rate, requests/s."))


_WORTH_NUMBERS = fields(
    *("GPU type=gpu", "GPUs of a node=gpus_per_node", "One more node=more_node_rps", "At most=more_node_most_rps"),
    *("One node less=less_node_rps", "At best=less_node_most_rps", "GPUs lost=gpus_lost"),
    *("One more node, per USD/hour=rps_per_usd_hour", "Shadow price of a GPU=dual_rps"),
)
