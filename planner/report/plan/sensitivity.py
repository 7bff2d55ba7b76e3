"""What would change a plan's rate, in words and a small table."""

from planner.domain import PHASES, GpuWorth, Phase, Plan, RangeHeadroom, Sensitivity
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import money, percent, rate, signed, signed_range, whole
from planner.report.kit.tables import Column, fields, table_of

SPARE = 0.005
"""A range whose rate could rise by less than this share has no headroom."""


def sensitivity_text(plan: Plan) -> list[str]:
    """The section's paragraphs; nothing where the plan carries no such figures."""
    if plan.sensitivity is None:
        return []
    return [sensitivity_lead(plan), _table(plan.sensitivity), sensitivity_words(plan)]


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


def _table(sensitivity: Sensitivity) -> str:
    return table_of(_WORTH, sensitivity.gpus).markdown()


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
    mine = [row for row in sensitivity.ranges if row.phase is phase]
    spare = [row for row in mine if row.headroom >= SPARE]
    if not mine:
        return ""
    if not spare:
        return f"No {plan.form.row.stretch} has headroom in {phase}."
    least = min(spare, key=lambda row: row.headroom)
    where = (
        f"every {plan.form.row.stretch}"
        if len(spare) == len(mine)
        else f"{len(spare)} of {len(mine)} {plan.form.row.stretch}s"
    )
    return f"In {phase} {where}, taken alone, could grow by {percent(least.headroom)} or more (least: {_span(least)})."


def _span(row: RangeHeadroom) -> str:
    return f"{row.range_start:,}–{row.range_end - 1:,} tokens"
