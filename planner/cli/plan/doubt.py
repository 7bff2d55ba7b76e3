"""`planner doubt`: what a plan is worth where speeds, demand, prices or nodes are not known."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs

MOST_KNOWING = 64


def command(
    run: saved_runs.Run,
    demand: Annotated[
        float | None, typer.Option(help="Deviation of the rate asked, 0.2 for 20 %. [default: the scenario's]")
    ] = None,
    prices: Annotated[float | None, typer.Option(help="The same of prices. [default: the scenario's]")] = None,
    unavailable: Annotated[
        float | None, typer.Option(help="Chance of a node to be away. [default: the scenario's]")
    ] = None,
    known_speeds: Annotated[bool, typer.Option("--known-speeds", help="Speeds are as predicted.")] = False,
    draws: Annotated[int | None, typer.Option(help="How many draws. [default: 256]")] = None,
    sure: Annotated[float | None, typer.Option(help="Tell the rate that is so sure, too, such as 0.85.")] = None,
    knowing: Annotated[
        int, typer.Option(min=0, max=MOST_KNOWING, help="Draws to plan for as if known: what knowing is worth.")
    ] = 0,
    breakpoints: Annotated[
        float, typer.Option(min=0, help="CPU seconds to seek prices and paces at which other GPU types would serve.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for doubt.md, doubt.html, draws.csv, swings.csv.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """What is a plan worth under doubt? How sure each rate is, the odds of the promise, what knowing would bring."""
    from planner import files, pipeline
    from planner.report.doubts.page import doubt_document, doubt_page
    from planner.report.kit.markdown import page_text
    from planner.report.kit.quantities import percent, rate
    from planner.runs.questions.doubts import NAMES, doubt_files, doubt_settings, require_sure

    plan = saved_runs.read_run(run)
    settings = doubt_settings(plan, demand=demand, prices=prices, unavailable=unavailable, draws=draws,
                              speeds=False if known_speeds else None)  # fmt: skip
    if sure is not None:
        require_sure("--sure", sure)
    if out is not None:
        files.claim_folder(out, NAMES, force=force)
    if not (quiet or json):
        screen.show_note(f"doubt: {settings.draws} draws")
    result = pipeline.doubt(plan, settings, knowing, breakpoints)
    if out is not None:
        files.write_folder(out, doubt_files(result, settings), force=force, kinds=NAMES)
    asked_for = {} if sure is None else {"asked_sure": sure, "asked_rps": result.sure_rps(sure)}
    if json:
        screen.show_json({**doubt_document(result), **asked_for})
        return
    screen.show_markdown(page_text(doubt_page(result, settings)))
    if sure is not None:
        screen.show_text(f"{percent(sure)} sure: {rate(result.sure_rps(sure))} requests/s within the levels")
    if out is not None:
        screen.show_text(f"Written to {out}")
