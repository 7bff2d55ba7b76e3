"""The page of a plan: the verdict and key figures first, then a section a subject; the report as files."""

from collections.abc import Iterator
from typing import Literal

from planner.domain import PHASES, Plan
from planner.domain.deployed import PlanDiff
from planner.domain.replay import StoredReplay
from planner.domain.serving.levels import TIMES
from planner.report.buckets.headline import surely
from planner.report.buckets.view import (
    bound_span,
    bounds_in,
    headline_load,
    latencies_at,
    range_span,
    time_span,
)
from planner.report.cluster.placement_map import placement_section
from planner.report.comparison.pareto import frontier_section
from planner.report.comparison.plan_diff import changes_section
from planner.report.kit.markdown import page_text
from planner.report.kit.quantities import banded_rate, money, rate, significant, whole
from planner.report.kit.tree import Figure, Page
from planner.report.models import model_section
from planner.report.plan.answer import answer, verdict
from planner.report.plan.cards import used_gpus
from planner.report.plan.deployment import deployment_section
from planner.report.plan.figures import figure, figures_of
from planner.report.plan.fleet import cost_section, inventory_section
from planner.report.plan.latency import latency_section
from planner.report.plan.provenance import notes_section, provenance_section
from planner.report.plan.quality import quality_section, sensitivity_section
from planner.report.plan.routing_plots import routing_section
from planner.report.plan.search import search_section
from planner.report.workload.cached import cached_section


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
    odds = surely(plan).replace(" requests/s", "")
    margin = f"{plan.scenario.routing.margin:g} of the capacity" if plan.scenario.promise.sure is None else ""
    behind = "; ".join(filter(None, [margin, odds]))
    yield Figure(label="Promise, requests/s", value=significant(plan.outlook.promise_rps), band=behind)
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
        bound = f"bound {bound_span(bounds)}" if bounds and plan.outlook.levels_set else "no bound set"
        ends = range_span(rows)
        yield Figure(
            label=f"{TIMES[phase]} {slo.statistic} at the {load.value}",
            value=time_span(row.late_ms for row in rows),
            band=f"P10–P90: {ends}; {bound}" if ends else bound,
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


def plan_page(plan: Plan, *, replay: StoredReplay | None = None, earlier: PlanDiff | None = None) -> Page:
    """The report of a plan of any kind. `replay`: of this plan, its times stand beside the predicted ones; `earlier`:
    what changes from another run, told first. Sections that the plan has nothing for are left out."""
    serves = plan.throughput_rps > 0
    sections = (
        changes_section(earlier) if earlier else None,
        notes_section(plan),
        deployment_section(plan) if serves else None,
        inventory_section(plan),
        routing_section(plan) if serves else None,
        latency_section(plan, replay) if serves else None,
        cost_section(plan) if serves else None,
        quality_section(plan) if serves else None,
        cached_section(plan),
        sensitivity_section(plan),
        frontier_section(plan),
        search_section(plan),
        placement_section(plan),
        model_section(plan.scenario.model),
        provenance_section(plan),
    )
    return Page(
        title=f"Plan: {' '.join(plan.scenario.name.split())}",
        verdict=verdict(plan),
        lead=answer(plan),
        figures=key_figures(plan),
        sections=tuple(part for part in sections if part and (part.blocks or part.folded)),
        made_by=f"Made by planner {plan.provenance.planner_version} from plan.json; seed {plan.provenance.seed}. "
        "The same plan gives the same page.",
    )


def summary(plan: Plan) -> str:
    """The report in Markdown, ending in a newline. Names from the user are escaped; numbers are rounded."""
    return page_text(plan_page(plan))


def render(
    plan: Plan, kind: Literal["png", "svg"] = "png", style: str | None = None, *, drawn: bool = True
) -> dict[str, bytes]:
    """`summary.md`, and where it is `drawn` `figures/<name>.<kind>` for every figure that the plan has.

    Equal plans give equal bytes, whatever the settings of whoever writes them; `style`: a style of matplotlib's, or a
    style sheet's path, to draw in.

    InputError: no such style.
    """
    pages = {"summary.md": summary(plan).encode()}
    if not drawn:
        return pages
    from planner.report.kit.style import encoded, reproducible  # noqa: PLC0415  # matplotlib takes a second to load

    with reproducible(style):
        return pages | {f"figures/{name}.{kind}": encoded(figure(plan, name), kind) for name in figures_of(plan)}
