"""`planner tune`: do other flags and weights of a plan's servers gain anything, request by request?"""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.cli.plan.replay import progress_of, read_failure, read_stretch


def command(
    run: saved_runs.Run,
    trace: saved_runs.Trace = None,
    goals: Annotated[
        str | None,
        typer.Option(help="goodput, ttft (P99); commas between. [default: goodput, without levels ttft]"),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="0.9x of the capacity, promise, or requests/s. [default: promise]"),
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(help="trace, poisson or gamma. [default: trace, of lengths poisson]", show_default=False),
    ] = None,
    variation: Annotated[float | None, typer.Option(help="Squared variation of the gaps: gamma.")] = None,
    between: Annotated[
        str | None,
        typer.Option(help="Seconds of the trace, as 0:1800; then seeds alone are fresh.", show_default=False),
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(help="ISLAND@SECONDS[:NODES]: lost in every replay; may be repeated.", show_default=False),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of proposals.")] = 6,
    batch: Annotated[int, typer.Option(help="Settings a round.")] = 6,
    requests: Annotated[
        int | None,
        typer.Option(
            help="Of a short replay; long and fresh ones have twice. [default: 30 s of the promise]", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of proposals and requests.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tune.md, tune.html, trials.csv, and the tuned plan as run/.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Turn the knobs of a plan's servers by replays: flags and weights, and what they gain on requests not seen.

    Servers stay. Where it gains, the tuned plan is a run of its own, for planner export."""
    from planner import files, pipeline
    from planner.report.kit.markdown import page_text
    from planner.report.replay.tuning import tuned_document, tuned_page
    from planner.runs.replays.replays import trace_of, unasked_lengths
    from planner.runs.replays.tuning import NAMES, RUN, tune_folder, tune_replays, tune_settings

    plan = saved_runs.read_run(run)
    settings = tune_settings(plan, goals, rate, rounds=rounds, batch=batch, requests=requests, seed=seed)
    source = trace_of(plan, trace, run)
    asked_for = {"arrivals": arrivals, "variation": variation, "between": read_stretch(between)}
    replays = tune_replays(plan, source, failures=[read_failure(text) for text in fail or []],
                           **{key: value for key, value in asked_for.items() if value is not None})  # fmt: skip
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, NAMES, force=force)
    tuned, changed = pipeline.tune(plan, source, replays, settings, progress_of("tune", quiet=quiet or json))
    if out is not None:
        files.write_folder(out, tune_folder(tuned, changed), force=force, kinds=NAMES)
    if json:
        screen.show_json({"folder": None if out is None else str(out), **tuned_document(tuned)})
        return
    screen.show_markdown(page_text(tuned_page(tuned)))
    for note in unasked_lengths(plan, trace, source):
        screen.show_note(f"note: {note}")
    if out is not None:
        to_export = f"; the tuned plan to {out / RUN}" if changed is not None else ""
        screen.show_text(f"Written to {out}{to_export}")
