"""The page of a plan: the verdict first, what to deploy, what it costs, how good it is, where it comes from."""

from planner.domain import Plan
from planner.domain.replay import StoredReplay
from planner.report.kit.html.blocks import Page
from planner.report.page.changes import Earlier, changes_section
from planner.report.page.cost import cost_section
from planner.report.page.deployment import deployment_section
from planner.report.page.inventory import inventory_section
from planner.report.page.latency import latency_section
from planner.report.page.opening import key_figures, verdict
from planner.report.page.placement import placement_section
from planner.report.page.provenance import notes_section, provenance_section
from planner.report.page.quality import quality_section
from planner.report.page.routing import routing_section
from planner.report.page.search import search_section
from planner.report.page.sensitivity import sensitivity_section


def plan_page(
    plan: Plan, *, replay: StoredReplay | None = None, earlier: Earlier | None = None, source: str = ""
) -> Page:
    """The page of a plan of any kind. `replay`: of this plan, its times stand beside the predicted ones; `earlier`:
    another run, told first; `source`: as of `Page`. Sections that the plan has nothing for are left out."""
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
        source=source,
    )
