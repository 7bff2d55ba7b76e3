"""`planner report`: a run in words and pictures."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs


def command(
    run: Annotated[Path, typer.Argument(help="A run folder, its plan.json, a folder of runs, or of a sweep.")],
    out: Annotated[Path | None, typer.Option(help="Folder for summary.md and figures/.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a report that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan itself as JSON.")] = False,
) -> None:
    """Print the summary of a run, or of several beside each other; with --out, write it and the figures anew."""
    from planner import files, report
    from planner.cli.comparison.folders import report_folder

    if report_folder(run, out, force=force, as_json=json):
        return
    plan = saved_runs.read_run(run)
    if out is not None:
        files.write_folder(out, report.render(plan), force=force)
    if json:
        screen.show_json(files.plan_document(plan))
    else:
        screen.show_markdown(report.summary(plan))
