"""Pages as the bytes of one HTML file: a plan's, and those of reports in Markdown (studies, frontiers, replays)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from planner import export, files, report
from planner.domain import Plan
from planner.domain.deployed import PlanDiff
from planner.domain.replay import StoredReplay
from planner.errors import InputError
from planner.plans.comparing import plan_figures
from planner.plans.diff import compare, compare_buckets
from planner.plans.provenance import planner_version
from planner.plans.rate_bands import compare_rates
from planner.report.kit.html.written import page_of
from planner.report.kit.plots import Plot, chart_of
from planner.report.kit.tree import Chart, Page

REPLAY_FOLDER = "replay"
"""Where a replay is looked for in a run folder."""
_SAME = 1e-9
"""Relative difference of capacities that is rounding."""


def plan_html(
    plan: Plan, *, replay: StoredReplay | None = None, since: Plan | None = None, since_name: str = ""
) -> bytes:
    """The page of a plan. `since`: an earlier one, called `since_name`. Equal plans give equal bytes."""
    earlier = None
    if since is not None:
        earlier = replace(difference(since, plan), old=since_name or since.scenario.name)
    page = report.plan_page(plan, replay=replay, earlier=earlier)
    return page_bytes(page, source_of(plan))


def source_of(plan: Plan) -> str:
    """By which a page is known to be of this very plan: the digest of what plan.json says, however it is spelt."""
    return f"plan {files.plan_document(plan)['digests']['plan']}"


def difference(old: Plan, new: Plan) -> PlanDiff:
    """What changes from one plan to the other, their figures, rates and pools among it."""
    deployed = compare(export.summarize_plan(old), export.summarize_plan(new))
    figures = (plan_figures(old, deployed.old), plan_figures(new, deployed.new))
    return replace(deployed, rates=compare_rates(old, new), buckets=compare_buckets(old, new), figures=figures)


def replay_of(plan: Plan, run: Path, source: Path | None = None) -> StoredReplay | None:
    """The replay in `source`, else the one that lies in the run folder under `replay/`; None where there is none.

    Raises InputError where `source` is no replay, or one of another plan; such a one in the run folder is left out.
    """
    folder = (run if files.is_folder(run) else run.parent) / REPLAY_FOLDER
    if source is None and not files.is_there(folder / files.REPLAY_FILE):
        return None
    replay = files.load_stored_replay(source or folder)
    if _is_of(replay, plan):
        return replay
    if source is None:
        return None
    raise InputError(
        f"{source}: must be a replay of this plan ({plan.scenario.name}, {plan.throughput_rps:.6g} requests/s at "
        f"capacity), got one of {replay.plan} with {replay.capacity_rps:.6g}.",
        hint="Replay the plan again: planner replay RUN --out DIR.",
    )


def _is_of(replay: StoredReplay, plan: Plan) -> bool:
    near = abs(replay.capacity_rps - plan.throughput_rps) <= _SAME * plan.throughput_rps
    return near and replay.plan == plan.scenario.name


def written_page(markdown: str, plots: Sequence[Plot | Chart], *, title: str = "") -> bytes:
    """The report as a page: its words and tables, its charts first. Equal input gives equal bytes.

    PlannerError: names of charts that are no anchors or come twice, or a page above 4 MB.
    """
    charts = [chart_of(plot) if isinstance(plot, Plot) else plot for plot in plots]
    return page_bytes(page_of(markdown, charts, f"{made_by()}. The same results give the same page.", title=title))


def page_bytes(page: Page, source: str = "") -> bytes:
    """A report as one HTML file, its charts' script in it; `source`: as of `Page`. Equal input gives equal bytes.

    PlannerError: names of charts that are no anchors or come twice, or a page above 4 MB.
    """
    signed = replace(page, made_by=page.made_by or made_by(), source=source)
    return report.html_page(signed, files.chart_script()).encode()


def made_by() -> str:
    """What pages say of their maker."""
    return f"Made by planner {planner_version()}"
