"""The page of a plan: the verdict and key figures first, then a section a subject; the report as files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from planner.domain import PHASES, CostMode, Plan
from planner.domain.deployed import PlanDiff
from planner.domain.replay import StoredReplay
from planner.domain.serving.levels import TIMES
from planner.report.buckets.headline import promise_words, times_sentence
from planner.report.buckets.view import (
    bound_span,
    bounds_in,
    headline_load,
    latencies_at,
    time_span,
)
from planner.report.cluster.placement_map import placement_section
from planner.report.comparison.plan_diff import diff_page
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import LEFT_OUT, banded_rate, counted, money, rate, significant, whole
from planner.report.kit.tree import Cell, DataTable, Figure, Page, Prose, Section
from planner.report.plan.cards import most_watts, used_gpus
from planner.report.plan.deployment import deployment_section
from planner.report.plan.figures import figure, figures_of
from planner.report.plan.fleet import cost_section, inventory_section
from planner.report.plan.latency import latency_section
from planner.report.plan.provenance import notes_section, provenance_section
from planner.report.plan.quality import quality_section, sensitivity_section
from planner.report.plan.routing_plots import routing_section
from planner.report.plan.search import search_section
from planner.report.plan.summary import UNVERIFIED, headline, summary


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
        bound = f"bound {bound_span(bounds)}" if bounds and plan.outlook.levels_set else "no bound set"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Another run: its `plan`, how the page calls it, and what changes from it to the page's plan."""

    name: str
    plan: Plan
    difference: PlanDiff


def changes_section(plan: Plan, earlier: Earlier) -> Section:
    """Figures of both beside each other, then islands, GPUs and requests that change."""
    body = diff_page(earlier.difference).partition("\n\n")[2]
    return Section(
        name="changes",
        title=f"Changed since {earlier.name}",
        blocks=(_figures(plan, earlier.plan),),
        folded=(Prose(markdown=re.sub(r"^## ", "### ", body, flags=re.MULTILINE)),),
        fold="What starts, stops, restarts and is routed anew",
    )


def _figures(plan: Plan, before: Plan) -> DataTable:
    pairs = [(name, old, new) for (name, old), (_, new) in zip(_values(before), _values(plan), strict=True)]
    return DataTable(
        columns=("Figure", "Before", "Now", "Change (%)"),
        rows=tuple((name, old, new, _change(old, new)) for name, old, new in pairs),
        caption="Of the other run and of this one.",
    )


def _change(old: Cell, new: Cell) -> float | None:
    if isinstance(old, str) or isinstance(new, str) or not old or new is None:
        return None
    return 100 * (new / old - 1)


def _values(plan: Plan) -> list[tuple[str, Cell]]:
    band, certificate = plan.rate_band, plan.certificate
    serves = plan.throughput_rps > 0
    priced = plan.priced and plan.price_usd_per_hour > 0
    return [
        ("Capacity (requests/s)", plan.throughput_rps),
        ("P10 of it", band.low_rps if band else None),
        ("P90 of it", band.high_rps if band else None),
        ("Promise (requests/s)", plan.outlook.promise_rps),
        ("USD/hour", plan.price_usd_per_hour if priced else None),
        ("USD per million tokens", plan.price_usd_per_million_tokens if serves and priced else None),
        ("GPUs", sum(plan.fleet.values())),
        ("GPUs at work", sum(used_gpus(plan).values())),
        ("Most kW", sum(most_watts(plan).values()) / 1000),
        ("Bound of its GPUs (requests/s)", certificate.bound_rps if certificate else None),
    ]


def plan_page(plan: Plan, *, replay: StoredReplay | None = None, earlier: Earlier | None = None) -> Page:
    """The page of a plan of any kind. `replay`: of this plan, its times stand beside the predicted ones; `earlier`:
    another run, told first. Sections that the plan has nothing for are left out."""
    served = plan.throughput_rps > 0
    sections = (
        changes_section(plan, earlier) if earlier else None,
        notes_section(plan),
        deployment_section(plan) if served else None,
        inventory_section(plan),
        routing_section(plan) if served else None,
        latency_section(plan, replay) if served else None,
        cost_section(plan) if served else None,
        quality_section(plan) if served else None,
        sensitivity_section(plan),
        search_section(plan),
        placement_section(plan),
        provenance_section(plan),
    )
    return Page(
        title=f"Plan: {' '.join(plan.scenario.name.split())}",
        verdict=verdict(plan),
        figures=key_figures(plan),
        sections=tuple(section for section in sections if section is not None),
        made_by=f"Made by planner {plan.provenance.planner_version} from plan.json; seed {plan.provenance.seed}. "
        "The same plan gives the same page.",
    )


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
