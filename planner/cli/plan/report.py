"""`planner report`: a run in words and pictures."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.errors import InputError


def command(
    run: Annotated[Path, typer.Argument(help="A run folder, its plan.json, a folder of runs, or of a sweep.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, summary.md and figures/, instead of the run's own.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a report or a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan itself as JSON, and write no page.")] = False,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html, one page to open or send.")] = True,
    replay: Annotated[
        Path | None,
        typer.Option(help="Folder of `planner replay --out`, to show beside the plan. [default: RUN/replay]"),
    ] = None,
    since: Annotated[Path | None, typer.Option(help="An earlier run: the page tells what changed since.")] = None,
    kind: Annotated[
        Literal["png", "svg"], typer.Option("--format", help="Of the figures of --out: png or svg.")
    ] = "png",
    style: Annotated[
        str | None,
        typer.Option(help="Draw the figures of --out in this style of matplotlib's, or in a style sheet (a path)."),
    ] = None,
) -> None:
    """Print the summary of a run, and write its page, report.html; with --out, write both and the figures anew.

    Of a folder of runs: hold them beside each other."""
    from planner import files, report
    from planner.cli.comparison.folders import report_folder
    from planner.runs import pages

    if report_folder(run, out, force=force, as_json=json, page=page):
        return
    if out is None and (style is not None or kind != "png"):
        raise InputError(
            "--format, --style: go with --out only, as figures are written there.", hint="Add --out FOLDER."
        )
    plan = saved_runs.read_run(run)
    html = b""
    if page and (out is not None or not json):
        earlier = None if since is None else saved_runs.read_run(since)
        beside = pages.replay_of(plan, run, replay)
        html = pages.plan_html(plan, replay=beside, since=earlier, since_name=_called(since))
    place = files.page_of(run) if out is None else out / files.PAGE_FILE
    if out is not None:
        written = report.render(plan, kind, style) | ({files.PAGE_FILE: html} if html else {})
        files.write_folder(out, written, force=force, kinds=(files.PAGE_FILE,))
    elif html:
        files.write_page(place, html, source=pages.source_of(plan), force=force)
    if json:
        screen.show_json(files.plan_document(plan))
    else:
        screen.show_markdown(report.summary(plan))
    if html:
        screen.show_note(f"Page: {place}")


def _called(run: Path | None) -> str:
    """How a page calls another run: by its folder."""
    if run is None:
        return ""
    return run.resolve().parent.name if run.name == "plan.json" else run.resolve().name
