"""The report of a fleet: the answer first, then who gets what, what one more node is worth, and what is left."""

from collections.abc import Iterator

from planner.domain.fleets import FleetAim, FleetPlan
from planner.report.fleets import tables
from planner.report.fleets.words import (
    RENTS,
    batch_words,
    idle_words,
    note_words,
    short_services,
    verdict,
    worth_words,
)
from planner.report.kit.markdown import listed, page_text
from planner.report.kit.plots import Kind, Plot, Series, chart_of
from planner.report.kit.quantities import money, significant, whole
from planner.report.kit.tree import Figure, Page, paragraphs, section

FREE = "nobody"
PAGE = "report.html"


def fleet_page(plan: FleetPlan, *, linked: str = tables.SUMMARY_FILE) -> Page:
    """The report; deployments lead to the file `linked` of their run folders."""
    priced = any(row.rent_usd_per_hour is not None for row in plan.shares)
    worths = (tables.nodes(plan).block(),) if any(worth.change for worth in plan.worths) else ()
    return Page(
        title=f"Fleet {plan.fleet.name}",
        verdict=verdict(plan),
        figures=tuple(_heads(plan)),
        sections=(
            section(
                "services",
                "Services",
                *listed(list(short_services(plan))),
                tables.services(plan).block(),
                *paragraphs(RENTS if priced else ""),
            ),
            section(
                "deployments",
                "Deployments",
                chart_of(gpus_plot(plan)),
                tables.deployments(plan).block(),
                *paragraphs(tables.links(plan, linked)),
            ),
            section("nodes", "What one more node is worth", *paragraphs(worth_words(plan)), *worths),
            section(
                "idle",
                "What is left",
                *paragraphs(*batch_words(plan), idle_words(plan)),
                tables.batches(plan).block(),
            ),
            section("notes", "Notes", *paragraphs(note_words(plan))),
        ),
    )


def fleet_summary(plan: FleetPlan) -> str:
    """summary.md."""
    return page_text(fleet_page(plan))


def _heads(plan: FleetPlan) -> Iterator[Figure]:
    target = plan.aim is FleetAim.TARGET
    if target:
        yield Figure(label="USD an hour", value=money(plan.value))
    else:
        yield Figure(label=plan.aim.row.unit, value=significant(plan.value))
        if plan.rent_usd_per_hour > 0:
            yield Figure(label="USD an hour", value=money(plan.rent_usd_per_hour))
    if plan.gap is not None:
        yield Figure(label="From the proven best", value=f"{100 * plan.gap:.1f} %", band="gap to the bound")
    total, idle = (sum(count for _, count in gpus) for gpus in (plan.fleet.inventory.counts, plan.idle))
    band = f"{whole(idle)} of {whole(total)} idle" if idle else f"all {whole(total)} are used"
    yield Figure(label="GPUs at work", value=whole(total - idle), band=band)


def gpus_plot(plan: FleetPlan) -> Plot:
    """GPUs by deployment and type, those that nobody has beside them."""
    rows = [(part.name, dict(part.gpus)) for part in plan.plans]
    rows += [(FREE, dict(plan.idle))] if plan.idle else []
    names = tuple(name for name, _ in rows)
    return Plot(
        name="gpus-by-deployment",
        title="GPUs by deployment and type",
        says="Who has how many GPUs of each type.",
        kind=Kind.STACKED,
        x="deployment",
        y="GPUs",
        series=tuple(
            Series(name=gpu, x=names, y=tuple(float(counts.get(gpu, 0)) for _, counts in rows), gpu=gpu)
            for gpu, _ in plan.fleet.inventory.counts
        ),
        rest="services.csv",
    )
