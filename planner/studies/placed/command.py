"""`planner study placed`: layouts judged on a cluster's nodes against the plan that is solved for and then placed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import seeds_of
from planner.errors import InputError
from planner.studies.commands import SUMMARY_FILE, RunOptions, answer, at_work, each_run

if TYPE_CHECKING:
    from planner.studies.placed.study import GainRun


@with_records
def command(
    *,
    cluster: Annotated[
        list[str] | None, typer.Option(help="One of the ten kinds; may be repeated. [default: all]", show_default=False)
    ] = None,
    seeds: Annotated[str, typer.Option(help="First-last, both included, or one; each draws a cluster.")] = "0-4",
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Rounds of the search.")] = 4,
    layouts: Annotated[int, typer.Option(min=1, max=1000, help="Layouts of a round.")] = 8,
    out: Annotated[Path | None, typer.Option(help="Folder for gain.csv and summary.md.", show_default=False)] = None,
    run: RunOptions,
) -> None:
    """What is gained by `objective: placed`, on ten kinds of clusters of 8 to 24 nodes, made up."""
    from planner import files
    from planner.studies.placed.clusters import KINDS
    from planner.studies.placed.page import gain_page
    from planner.studies.placed.study import GAIN_FILE, gains_csv, run_gains

    names = [kind.name for kind in KINDS]
    for word in cluster or ():
        if word not in names:
            raise InputError(f"--cluster: must be one of {', '.join(names)}, got {word!r}.", hint="Name one of them.")
    kinds = [kind for kind in KINDS if not cluster or kind.name in cluster]
    listed, written = seeds_of(seeds), (GAIN_FILE, SUMMARY_FILE)
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, written, force=run.force)
    with at_work("placed", each_run(_words), run, runs=len(kinds) * len(listed)) as (workers, listen):
        runs = list(run_gains(listed, rounds, layouts, kinds, processes=workers, listen=listen))
    answer(
        out,
        written,
        lambda: {GAIN_FILE: gains_csv(runs), SUMMARY_FILE: gain_page(runs).encode()},
        lambda: [asdict(run) for run in runs],
        lambda: screen.show_markdown(gain_page(runs)),
        run,
    )


def _words(run: "GainRun") -> str:
    return (
        f"{run.cluster}, seed {run.seed}: {run.solved_rps:.6g} requests/s solved for and placed, {run.placed_rps:.6g} "
        f"of objective placed, {run.solved_cpu_s + run.placed_cpu_s:.1f} CPU-s"
    )
