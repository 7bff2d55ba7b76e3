"""What a plan promises, at which times, and what is left after a loss, in a paragraph."""

from planner.domain import PHASES, LoadPoint, Phase, Plan
from planner.domain.serving.levels import TIMES, Standing, levels_at
from planner.domain.serving.server import SAME_RATE
from planner.report.buckets.view import (
    bound_span,
    bounds_in,
    buckets_of,
    headline_load,
    latencies_at,
    range_span,
    span_label,
    time,
    time_span,
)
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, percent, significant

WORTH_TELLING = 0.02
"""Share of the capacity from which on a better router is worth a word."""

SURE_ENOUGH, EVEN = 0.8, 0.5
"""How sure the rates are that are told beside every promise."""


def promise_text(plan: Plan) -> str:
    """The verdict: promise and capacity, how sure it is, times at the demand, the worst loss."""
    return " ".join(filter(None, [_promise(plan), odds_sentence(plan), times_sentence(plan), loss_sentence(plan)]))


def _promise(plan: Plan) -> str:
    gpus, margin = counted(sum(plan.fleet.values()), "GPU"), plan.scenario.routing.margin
    share = f"{margin:g} of the capacity" if plan.scenario.promise.sure is None else "below the capacity"
    capacity = f"{share}{evenness_words(plan)}"
    return f"{promise_words(plan, f'The {gpus}')}, {capacity}.{router_sentence(plan)}"


def surely(plan: Plan) -> str:
    """`80 % sure: 157 requests/s, even odds: 266`; what the promise is to be comes first. Empty where no odds are
    known."""
    odds = plan.outlook.odds
    if odds is None:
        return ""
    sure = plan.scenario.promise.sure or SURE_ENOUGH
    rate, even = significant(odds.sure_rps(sure)), significant(odds.sure_rps(EVEN))
    return f"{percent(sure)} sure: {rate} requests/s, even odds: {even}"


def odds_sentence(plan: Plan) -> str:
    """How sure the promise is, as servers may be slower or faster than predicted; empty where no odds are known."""
    odds = plan.outlook.odds
    if odds is None:
        return ""
    predicted = significant(plan.throughput_rps * plan.scenario.routing.margin)
    promise = f"The promise holds with {percent(odds.odds)}"
    if plan.scenario.promise.sure is not None:
        promise = f"What is predicted, {predicted}, holds with {percent(odds.odds)}"
    return f"**{surely(plan)}.** {promise}, as servers may be slower or faster than predicted."


def router_sentence(plan: Plan) -> str:
    """The program that the plan is priced for, how it chooses, and what the same pools would serve behind one that
    knows all, where that is more; empty where it is priced for a policy."""
    knowing = plan.outlook.least_work_rps
    if knowing is None:
        return ""
    router = plan.scenario.router
    holds = f" That is what router `{router.name}` holds ({router.words([island.phase for island in plan.islands])})"
    if knowing <= (1 + WORTH_TELLING) * plan.throughput_rps:
        return f"{holds}."
    rate = significant(knowing)
    return f"{holds}; behind one that knew every server's work and speed the same pools would serve {rate}."


def promise_words(plan: Plan, fleet: str, question: str = "") -> str:
    """`**The 80 GPUs promise 34 requests/s where they bunch as in the trace**, 81 where they come independently`: the
    lower figure first. `question`: of what."""
    buckets = plan.outlook
    promise = significant(buckets.promise_rps)
    if buckets.burst_rps is None or not buckets.bursts_bind:
        return f"**{fleet} promise {promise} requests/s**{question}"
    bunched = f"{significant(buckets.burst_rps)} requests/s where they bunch as in the trace"
    return f"**{fleet} promise {bunched}**{question}, {promise} where they come independently"


def evenness_words(plan: Plan) -> str:
    """The capacity behind the promise, and what becomes of it where requests bunch as in the trace, which costs nothing
    or even helps."""
    buckets, capacity = plan.outlook, f" of {significant(plan.throughput_rps)}"
    if buckets.burst_rps is None or not buckets.levels_set:
        return capacity
    if buckets.bursts_bind:
        return f", which is {significant(plan.throughput_rps)} without bunching"
    if buckets.burst_rps > (1 + SAME_RATE) * buckets.promise_rps:
        return f"{capacity}; {significant(buckets.burst_rps)} where requests come as evenly as in the trace"
    return f"{capacity}; as much if requests bunch as in the trace"


def times_sentence(plan: Plan) -> str:
    """Both times at the load that is told first, as late as the levels count them, with their bounds, and who is given
    up; empty where no times are known by load."""
    if not plan.outlook.latencies:
        return ""
    load = headline_load(plan)
    first, further = (late_words(plan, load, phase) for phase in PHASES)
    where = _where(plan, load)
    if not plan.outlook.levels_set:
        return f"**No service levels set**: {first}, {further} {where}."
    given_up = given_up_words(plan, load)
    ending = f" **Given up, as the levels count all requests together: {given_up}.**" if given_up else ""
    return f"{where[0].upper()}{where[1:]} **{first}**, **{further}**.{_beyond(plan, load)}{ending}"


def given_up_words(plan: Plan, load: LoadPoint) -> str:
    """Prompts that miss the bounds while all requests together keep them: which, how many, and their median."""
    levels = levels_at(plan.scenario.slo, [row for row in plan.outlook.latencies if row.load is load])
    return " and ".join(
        f"prompts of {span_label(check.start, check.end)} tokens ({percent(check.part)} of the requests), "
        f"P50 of {TIMES[check.phase]} {time(check.p50_ms)}"
        for check in (levels.given_up if levels else ())
    )


def _beyond(plan: Plan, load: LoadPoint) -> str:
    """A word of warning where more is asked for than is promised, or a level breaks."""
    rows = [row for row in plan.outlook.latencies if row.load is load]
    levels = levels_at(plan.scenario.slo, rows)
    rate = latencies_at(plan, load, Phase.PREFILL)[0].rate_rps
    if rate > plan.throughput_rps:
        return " **That is more than the capacity.**"
    if levels is not None and levels.standing is Standing.BREAKS:
        return " **The levels break there.**"
    promised = plan.outlook.promise_rps
    if rate > promised * (1 + SAME_RATE):
        return " **That is more than is promised.**"
    binds, bunched = plan.outlook.bursts_bind, plan.outlook.burst_rps or 0.0
    return " **That is more than is promised where they bunch.**" if binds and bunched < rate < promised else ""


def late_words(plan: Plan, load: LoadPoint, phase: Phase) -> str:
    """`TTFT P95 2.36 s (P10–P90 1.7–3.9 s, bound 4 s)`, from the least to the largest where buckets differ."""
    slo, rows = plan.scenario.slo, latencies_at(plan, load, phase)
    late, ends = time_span(row.late_ms for row in rows), range_span(rows)
    bounds = [bound for row in buckets_of(plan, phase) for bound in bounds_in(slo, phase, row.start, row.end)]
    beside = [*([f"P10–P90 {ends}"] if ends else []), *([f"bound {bound_span(bounds)}"] if bounds else [])]
    return f"{TIMES[phase]} {slo.statistic} {late}" + (f" ({', '.join(beside)})" if beside else "")


def _where(plan: Plan, load: LoadPoint) -> str:
    if load is LoadPoint.PROMISE:
        binds = plan.outlook.bursts_bind
        rate = significant(plan.outlook.promise_rps)
        return f"at {rate} requests/s that come independently" if binds else "at the promise"
    rate = significant(latencies_at(plan, load, Phase.PREFILL)[0].rate_rps)
    if plan.scenario.objective.demand_rps:
        return f"at the demand of {rate} requests/s"
    return f"at the trace's own {rate} requests/s"


def loss_sentence(plan: Plan) -> str:
    """What is left at worst, and of what."""
    losses = plan.outlook.losses
    if not losses:
        return ""
    worst, share = plan.outlook.worst_loss, plan.scenario.survive.share
    lost = "any one node" if worst.nodes == 1 else f"any {counted(worst.nodes, 'node')}"
    if worst.rate_rps <= 0:
        remains = f"nothing may be left (worst: {escaped(worst.island)} has no server elsewhere)"
    else:
        remains = (
            f"at least {significant(worst.rate_rps)} requests/s remain, "
            f"{percent(worst.rate_rps / plan.throughput_rps)} of the capacity (worst: {escaped(worst.island)})"
        )
    cost = plan.outlook.survival_cost_rps
    price = f", which costs {significant(cost)} requests/s" if cost is not None else ""
    bunched = _left_where_they_bunch(plan)
    return f"After losing {lost} {remains}{f'; {percent(share)} were asked for{price}' if share else ''}{bunched}."


def _left_where_they_bunch(plan: Plan) -> str:
    """What a loss leaves where requests bunch meanwhile, if that is less than was asked for of what is served then."""
    buckets = plan.outlook
    if buckets.burst_rps is None or buckets.burst_left_rps is None:
        return ""
    served = buckets.burst_rps / plan.scenario.routing.margin
    if buckets.burst_left_rps >= plan.scenario.survive.share * served * (1 - SAME_RATE):
        return ""
    return f"; where requests bunch meanwhile, {significant(buckets.burst_left_rps)} requests/s remain"
