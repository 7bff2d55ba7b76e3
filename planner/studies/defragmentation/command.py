"""`planner simulate defragmentation`: a churned cluster with and without IPC, and IPC beside the exact optimum."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import seeds_of
from planner.errors import InputError
from planner.studies.commands import (
    FIGURES_FOLDER,
    REPORT_FILE,
    SUMMARY_FILE,
    RunOptions,
    pngs_of,
    runs_progress,
    study_files,
    workers_of,
)

if TYPE_CHECKING:
    from planner.domain.turnover import ChurnRun
    from planner.studies.defragmentation.workload import DefragmentationStudy, ExactComparison
    from planner.studies.runner import RunsDone

NEVER = "never"
MOST_EXACT = 100


@with_records
def command(
    *,
    nodes: Annotated[int, typer.Option(help="Nodes of 8 GPUs.")] = 200,
    load: Annotated[float, typer.Option(help="Share of the GPUs that tasks ask for.")] = 0.87,
    days: Annotated[float, typer.Option(help="Days of tasks that come and go.")] = 7.0,
    warm_up_days: Annotated[float, typer.Option(help="Days that do not count.")] = 1.0,
    life_hours: Annotated[float, typer.Option(help="Mean life of a task.")] = 24.0,
    every: Annotated[str, typer.Option(help="Hours between defragmentations, and never.")] = "never,24,6",
    seeds: Annotated[str, typer.Option(help="First-last, both included, or one.")] = "0-2",
    exact: Annotated[int, typer.Option(help="Clusters that are compared with the exact optimum.")] = 0,
    exact_nodes: Annotated[int, typer.Option(help="Nodes of each of them, at most 100.")] = 25,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs.csv, series.csv, exact.csv, summary.md, figures.", show_default=False),
    ] = None,
    run: RunOptions,
) -> None:
    """Tasks come and go; every so often pods are moved together: nodes vacated, 8-GPU requests placeable, moves."""
    from planner import files
    from planner.studies.defragmentation.study import run_churn, run_exact
    from planner.studies.defragmentation.workload import ChurnWorkload, DefragmentationStudy

    if not 0 <= exact <= MOST_EXACT:
        raise InputError(f"--exact: must be from 0 to {MOST_EXACT}, got {exact}.", hint="Give 20.")
    if not 2 <= exact_nodes <= MOST_EXACT:
        raise InputError(f"--exact-nodes: must be from 2 to {MOST_EXACT}, got {exact_nodes}.", hint="Give 25.")
    study = DefragmentationStudy(
        workload=ChurnWorkload(nodes=nodes, load=load, days=days, warm_up_days=warm_up_days, life_hours=life_hours),
        every_hours=_rhythms(every),
        seeds=seeds_of(seeds),
        exact_nodes=exact_nodes,
        exact_seeds=tuple(range(exact)),
    )
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, _file_names(), force=run.force)
    with workers_of(run.executor, run.processes or 1, run.scheduler) as workers:
        with runs_progress("defragmentation", _tell, quiet=run.quiet) as listen:
            runs = list(run_churn(study, processes=workers, listen=listen))
        comparisons = list(run_exact(study, processes=workers))
    if out is not None:
        files.write_folder(
            out, _rendered(study, runs, comparisons, figures=run.figures), force=run.force, kinds=_file_names()
        )
    _show(study, runs, comparisons, json=run.json)
    if out is not None and not run.json:
        screen.show_text(f"Written to {out}")


def _rhythms(text: str) -> tuple[float | None, ...]:
    """`never,24,6`: hours, and None for never."""
    try:
        return tuple(None if word.strip() == NEVER else float(word) for word in text.split(","))
    except ValueError:
        raise InputError(f"--every: must be hours, and never, got {text!r}.", hint="Write never,24.") from None


def _file_names() -> list[str]:
    from planner.studies.defragmentation.study import EXACT_FILE, RUNS_FILE, SERIES_FILE

    pictures = [f"{FIGURES_FOLDER}/{name}.png" for name in ("placeable", "rhythms")]
    return [RUNS_FILE, SERIES_FILE, EXACT_FILE, SUMMARY_FILE, REPORT_FILE, *pictures]


def _rendered(
    study: "DefragmentationStudy", runs: "list[ChurnRun]", exact: "list[ExactComparison]", *, figures: bool
) -> dict[str, bytes]:
    from planner.studies.defragmentation import study as tables
    from planner.studies.defragmentation.page import churn_page, churn_pictures, churn_plots

    written = {tables.RUNS_FILE: tables.runs_csv(runs), tables.SERIES_FILE: tables.series_csv(runs)}
    if exact:
        written[tables.EXACT_FILE] = tables.exact_csv(exact)
    drawn = pngs_of(churn_pictures(runs)) if figures else {}
    return study_files(written, lambda titles: churn_page(study, runs, exact, titles), drawn, churn_plots(runs))


def _show(study: "DefragmentationStudy", runs: "list[ChurnRun]", exact: "list[ExactComparison]", *, json: bool) -> None:
    from planner.studies.defragmentation.page import churn_page

    if json:
        listed = [{"every_hours": run.every_hours, "seed": run.seed, **asdict(run.figures)} for run in runs]
        screen.show_json({"study": asdict(study), "runs": listed, "exact": [asdict(row) for row in exact]})
    else:
        screen.show_markdown(churn_page(study, runs, exact))


def _tell(step: "RunsDone[ChurnRun]") -> None:
    from planner.report.cluster.rhythms import rhythm_name

    if step.last is not None:
        figures = step.last.figures
        screen.show_note(
            f"{step.done:.0f}/{step.total} runs: {rhythm_name(step.last.every_hours)}, seed {step.last.seed}: "
            f"{figures.placeable:.1f} requests of 8 GPUs placeable, {figures.moves} moves"
        )
