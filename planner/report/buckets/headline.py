"""What a plan of buckets promises, at which times, and what is left after a loss, in a paragraph."""

from planner.domain import PHASES, LoadPoint, Phase, Plan
from planner.domain.serving.levels import TIMES, Standing, levels_at
from planner.report.buckets.view import (
    bound_span,
    bounds_in,
    bucket_plan,
    buckets_of,
    headline_load,
    latencies_at,
    span_label,
    time,
    time_span,
)
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, percent, significant

SAME = 0.005
"""Relative difference of rates that no page tells."""


def promise_text(plan: Plan) -> str:
    """The verdict: promise and capacity, times at the demand, the worst loss."""
    return " ".join([_promise(plan), times_sentence(plan), loss_sentence(plan)])


def _promise(plan: Plan) -> str:
    buckets = bucket_plan(plan)
    bursts = ""
    if buckets.burst_rps is not None and buckets.levels_set:
        same = buckets.burst_rps > (1 - SAME) * plan.throughput_rps
        capacity = "the same" if same else significant(buckets.burst_rps)
        bursts = f"; {capacity} if requests bunch as in the trace"
    return (
        f"**The {sum(plan.fleet.values())} GPUs promise {significant(buckets.promise_rps)} requests/s**, "
        f"{plan.scenario.routing.margin:g} of the capacity of {significant(plan.throughput_rps)}{bursts}."
    )


def times_sentence(plan: Plan) -> str:
    """Both times at the load that is told first, as late as the levels count them, with their bounds, and who is given
    up."""
    load = headline_load(plan)
    first, further = (_late(plan, load, phase) for phase in PHASES)
    where = _where(plan, load)
    if not bucket_plan(plan).levels_set:
        return f"**No service levels set**: {first}, {further} {where}."
    given_up = given_up_words(plan, load)
    ending = f" **Given up, as the levels count all requests together: {given_up}.**" if given_up else ""
    return f"{where[0].upper()}{where[1:]} **{first}**, **{further}**.{_beyond(plan, load)}{ending}"


def given_up_words(plan: Plan, load: LoadPoint) -> str:
    """Prompts that miss the bounds while all requests together keep them: which, how many, and their median."""
    levels = levels_at(plan.scenario.slo, [row for row in bucket_plan(plan).latencies if row.load is load])
    return " and ".join(
        f"prompts of {span_label(check.start, check.end)} tokens ({percent(check.part)} of the requests), "
        f"P50 of {TIMES[check.phase]} {time(check.p50_ms)}"
        for check in (levels.given_up if levels else ())
    )


def _beyond(plan: Plan, load: LoadPoint) -> str:
    """A word of warning where more is asked for than is promised, or a level breaks."""
    rows = [row for row in bucket_plan(plan).latencies if row.load is load]
    levels = levels_at(plan.scenario.slo, rows)
    rate = latencies_at(plan, load, Phase.PREFILL)[0].rate_rps
    if rate > plan.throughput_rps:
        return " **That is more than the capacity.**"
    if levels is not None and levels.standing is Standing.BREAKS:
        return " **The levels break there.**"
    promised = bucket_plan(plan).promise_rps
    return " **That is more than is promised.**" if rate > promised * (1 + SAME) else ""


def _late(plan: Plan, load: LoadPoint, phase: Phase) -> str:
    """`TTFT P95 2.36 s (bound 4 s)`, from the least to the largest where buckets differ."""
    slo, buckets = plan.scenario.slo, buckets_of(plan, phase)
    late = time_span(row.late_ms for row in latencies_at(plan, load, phase))
    bounds = [bound for bucket in buckets for bound in bounds_in(slo, phase, bucket.start, bucket.end)]
    return f"{TIMES[phase]} {slo.statistic} {late}" + (f" (bound {bound_span(bounds)})" if bounds else "")


def _where(plan: Plan, load: LoadPoint) -> str:
    if load is LoadPoint.PROMISE:
        return "at the promise"
    rate = significant(latencies_at(plan, load, Phase.PREFILL)[0].rate_rps)
    if plan.scenario.objective.demand_rps:
        return f"at the demand of {rate} requests/s"
    return f"at the trace's own {rate} requests/s"


def loss_sentence(plan: Plan) -> str:
    """What is left at worst, and of what."""
    losses = bucket_plan(plan).losses
    if not losses:
        return ""
    worst, share = bucket_plan(plan).worst_loss, plan.scenario.survive.share
    lost = "any one node" if worst.nodes == 1 else f"any {counted(worst.nodes, 'node')}"
    if worst.rate_rps <= 0:
        left = f"nothing may be left (worst: {escaped(worst.island)} has no server elsewhere)"
    else:
        left = (
            f"at least {significant(worst.rate_rps)} requests/s remain, "
            f"{percent(worst.rate_rps / plan.throughput_rps)} of the capacity (worst: {escaped(worst.island)})"
        )
    cost = bucket_plan(plan).survival_cost_rps
    price = f", which costs {significant(cost)} requests/s" if cost is not None else ""
    return f"After losing {lost} {left}{f'; {percent(share)} were asked for{price}' if share else ''}."
