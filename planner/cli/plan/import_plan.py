"""`planner import`: a run or a folder of manifests, read back to the plan that they deploy."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs

if TYPE_CHECKING:
    from planner.domain import DeployedPlan, Plan


def command(
    source: Annotated[Path, typer.Argument(help="A run folder, its plan.json, or a folder of manifests.")],
    out: Annotated[Path | None, typer.Option(help="File for the plan as JSON.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show what a run or a folder of manifests deploys: islands, degrees, GPUs, routes."""
    from planner import files
    from planner.report.comparison.changes import deployed_document
    from planner.report.comparison.plan_diff import deployed_page
    from planner.report.kit.markdown import page_text

    plan = deployed(source)
    document = deployed_document(plan)
    if out is not None:
        text = json_text.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        files.write_file(out, f"{text}\n".encode(), force=force)
    if json:
        screen.show_json(document)
    else:
        screen.show_markdown(page_text(deployed_page(plan)))


def deployed(source: Path) -> "DeployedPlan":
    """The plan of a run (folder, or its plan.json) or of a folder of manifests.

    Raises:
        InputError: it is neither, or what is in it is not sound; the error names file, object and field.
    """
    return deployed_and_planned(source)[0]


def deployed_and_planned(source: Path) -> "tuple[DeployedPlan, Plan | None]":
    """As `deployed`, and the plan itself where `source` is a run: manifests tell little of its rate."""
    from planner import export, files

    if (files.is_there(source) and not files.is_folder(source)) or files.holds_run(source):
        plan = saved_runs.read_run(source)
        folder = source if files.is_folder(source) else source.parent
        exported = any((folder / "manifests").glob("*.yaml"))  # without manifests nobody has chosen an engine
        return export.summarize_plan(plan, engine=files.engine_of(folder) if exported else ""), plan
    plan_of_folder = export.read_plan(files.load_manifests(source), str(source))
    # A router's configuration is compared, not read: only a plan says what it has to be.
    screen.show_note(
        f"{source}: routes are those of the routing table; `planner export RUN --check {source}` says whether the "
        "router's configuration is still the plan's."
    )
    return plan_of_folder, None
