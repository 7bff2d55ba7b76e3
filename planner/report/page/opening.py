"""The head of a plan's page: the verdict in two sentences, and the figures that a reader looks for first."""

from collections.abc import Iterator

from planner.domain import PHASES, CostMode, Plan
from planner.domain.serving.levels import TIMES
from planner.report.buckets.headline import promise_words, times_sentence
from planner.report.buckets.view import (
    bound_span,
    bounds_in,
    bucket_plan,
    headline_load,
    latencies_at,
    time_span,
)
from planner.report.kit.bands import LEFT_OUT, banded_rate
from planner.report.kit.html.blocks import Figure
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, money, rate, significant, whole
from planner.report.page.amounts import used_gpus
from planner.report.plan.summary import UNVERIFIED, headline


def verdict(plan: Plan) -> str:
    """What the plan serves with its band, and at which times or how near to the best; warnings stand before."""
    if plan.throughput_rps <= 0:
        return headline(plan).replace("**", "")
    return " ".join([*_warnings(plan), _served(plan), times_sentence(plan) or _nearness(plan)])


def _warnings(plan: Plan) -> Iterator[str]:
    if plan.scenario.cost.mode is CostMode.REFERENCE:
        yield "**Reference mode: the published simulator's rates, not physical ones; do not buy hardware by them.**"
    if plan.provenance.unverified:
        yield f"**Unverified.** {UNVERIFIED}"
    if plan.search.interrupted:
        yield "**The search was interrupted: this is the best so far.**"


def _served(plan: Plan) -> str:
    """`The 256 GPUs promise 295 requests/s, 0.9 of a capacity of about 330 (210–420: P10–P90 ...)`."""
    gpus, banded = counted(sum(plan.fleet.values()), "GPU"), banded_rate(plan)
    figure = f"about {banded.figure} requests/s ({banded.range}: {LEFT_OUT})" if banded else ""
    figure = figure or f"{rate(plan.throughput_rps)} requests/s"
    promise = promise_words(plan, f"The {gpus}", f" of {_question(plan)}")
    ending = " without bunching" if plan.outlook.bursts_bind else ""
    return f"{promise}, {plan.scenario.routing.margin:g} of a capacity of {figure}{ending}."


def _question(plan: Plan) -> str:
    return f"{escaped(plan.scenario.workload.name)} on {escaped(plan.scenario.model.name)}"


def _nearness(plan: Plan) -> str:
    certificate = plan.certificate
    if certificate is None or certificate.gap is None or certificate.bound_rps is None:
        return "How far this is from the best possible is not known."
    return (
        f"No layout of these GPUs serves more than {rate(certificate.bound_rps)} requests/s under this model: the plan "
        f"is {100 * max(0.0, certificate.gap):.1f} % below that."
    )


def key_figures(plan: Plan) -> tuple[Figure, ...]:
    """The numbers at the head, each with its band or bound."""
    served = [*_rates(plan), *_times(plan), *_money(plan)] if plan.throughput_rps > 0 else []
    return (*served, *_gap(plan), _gpus(plan))


def _rates(plan: Plan) -> Iterator[Figure]:
    banded = banded_rate(plan)
    band = f"P10–P90: {banded.range}" if banded else ""
    if plan.outlook.burst_rps is not None and plan.outlook.bursts_bind:
        bunched = significant(plan.outlook.burst_rps)
        yield Figure(label="Promise, requests/s, bunched", value=bunched, band="as requests bunch in the trace")
    margin = f"{plan.scenario.routing.margin:g} of the capacity"
    yield Figure(label="Promise, requests/s", value=significant(plan.outlook.promise_rps), band=margin)
    value = banded.figure if banded else rate(plan.throughput_rps)
    yield Figure(label="Capacity, requests/s", value=value, band=band)


def _times(plan: Plan) -> Iterator[Figure]:
    """Both times at the load that is told first, as late as the levels count them."""
    if not plan.outlook.latencies:
        return
    load, slo = headline_load(plan), plan.scenario.slo
    for phase in PHASES:
        rows = latencies_at(plan, load, phase)
        bounds = [bound for row in rows for bound in bounds_in(slo, phase, row.start, row.end)]
        bound = f"bound {bound_span(bounds)}" if bounds and bucket_plan(plan).levels_set else "no bound set"
        yield Figure(
            label=f"{TIMES[phase]} {slo.statistic} at the {load.value}",
            value=time_span(row.late_ms for row in rows),
            band=bound,
        )


def _money(plan: Plan) -> Iterator[Figure]:
    if plan.price_usd_per_hour <= 0:
        return
    unpriced = [gpu for gpu in plan.scenario.inventory.without_price if plan.fleet[gpu]]
    yield Figure(
        label="USD an hour",
        value=money(plan.price_usd_per_hour),
        band=f"without {', '.join(unpriced)}: no price" if unpriced else _budget(plan),
    )
    if unpriced:
        return
    banded, per_million = banded_rate(plan), plan.price_usd_per_million_tokens
    price = banded.dividing(per_million * plan.throughput_rps) if banded else None
    yield Figure(
        label="USD per million tokens, at capacity",
        value=price.figure if price else money(per_million),
        band=f"P10–P90: {price.range}" if price else "",
    )


def _budget(plan: Plan) -> str:
    objective = plan.scenario.objective
    return f"budget {money(objective.budget_usd_per_hour)}" if objective.kind.row.budgeted else ""


def _gap(plan: Plan) -> Iterator[Figure]:
    certificate = plan.certificate
    gap = None if certificate is None else certificate.objective_gap
    if gap is None and certificate is not None:
        gap = certificate.gap
    if gap is not None:
        yield Figure(label="From the proven best", value=f"{100 * max(gap, 0.0):.1f} %", band="gap to the bound")


def _gpus(plan: Plan) -> Figure:
    total = sum(plan.fleet.values())
    idle = total - sum(used_gpus(plan).values())
    band = f"{whole(idle)} of {whole(total)} idle" if idle else f"all {whole(total)} are used"
    return Figure(label="GPUs at work", value=whole(total - idle), band=band)
