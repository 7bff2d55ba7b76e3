"""Runs on the disk beside each other, and the files that show them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from planner import files, pipeline
from planner.domain import Plan
from planner.domain.comparisons import Batch, PlanComparison, Sweep
from planner.errors import InputError
from planner.files.plan.batches import indexes
from planner.files.plan.batches.indexes import (
    QUARANTINE_FOLDER,
    can_write_parquet,
    holds_batch,
    parquet_table,
    write_document,
)
from planner.plans.comparing import compare_plans
from planner.report.comparison.batch import batch_document, batch_page, exact_jobs
from planner.report.comparison.side_by_side import every_figure
from planner.report.comparison.side_by_side_page import comparison_page
from planner.report.comparison.sweep import exact_points, sweep_page
from planner.report.kit.markdown import page_text
from planner.runs.batches.batches import BatchResult, exit_status, runs_of
from planner.runs.pages import page_bytes

MOST_RUNS = 1000
DEPTH = 3
"""Folders below a folder of runs that are looked into."""


def runs_in(path: Path) -> list[Path]:
    """The runs that a path stands for: a run folder, its plan.json, those of a batch, or every run below a folder.

    Raises InputError where there is none.
    """
    if not files.is_there(path):
        raise InputError(f"{path}: there is no such file or folder.", hint="Name a run folder, or a folder of runs.")
    if not files.is_folder(path) or files.holds_run(path):
        return [path]
    if holds_batch(path):
        return runs_of(path)
    below = [run for depth in range(1, DEPTH + 1) for run in path.glob("/".join(["*"] * depth)) if _is_run(run, path)]
    if not below:
        raise InputError(
            f"{path}: must be a run, its plan.json, or a folder of runs, holds no plan.json.",
            hint="Plan first: planner plan SCENARIO --out RUN.",
        )
    return sorted(below)


def _is_run(folder: Path, above: Path) -> bool:
    """Whether it is a run that is no half-written one."""
    hidden = any(part.startswith(".") or part == QUARANTINE_FOLDER for part in folder.relative_to(above).parts)
    return not hidden and folder.is_dir() and files.holds_run(folder)


def read_plans(paths: Sequence[Path]) -> dict[str, Plan]:
    """The plans of runs and of folders of runs, by a name each. Raises InputError where one is no sound run."""
    runs = list(dict.fromkeys(run for path in paths for run in runs_in(path)))
    if len(runs) > MOST_RUNS:
        raise InputError(f"runs: must be at most {MOST_RUNS}, got {len(runs)}.", hint="Name fewer.")
    names = folder_names(runs)
    return {name: pipeline.recheck(files.load_run(run), str(run)) for name, run in zip(names, runs, strict=True)}


def folder_names(runs: Sequence[Path]) -> list[str]:
    """What runs are called: their folders, with as many folders above as tell them apart."""
    folders = [run if files.is_folder(run) else run.parent for run in (path.absolute() for path in runs)]
    for depth in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(run) for run in runs]  # a folder and its own plan.json


def compared(plans: Mapping[str, Plan]) -> PlanComparison:
    """Plans by name beside each other, in their order."""
    return compare_plans(plans, [files.scenario_keys(plan.scenario) for plan in plans.values()])


FOLDER_SOURCE = "runs beside each other"
"""By which the page of a comparison is known, so that the next one may take its place."""


def comparison_bytes(comparison: PlanComparison) -> bytes:
    """The page of a comparison."""
    return page_bytes(comparison_page(comparison), FOLDER_SOURCE)


def comparison_files(comparison: PlanComparison) -> dict[str, bytes]:
    """Relative path -> content: words, figures as a table, page."""
    return {
        "comparison.md": page_text(comparison_page(comparison)).encode(),
        "comparison.csv": every_figure(comparison).csv(),
        "report.html": comparison_bytes(comparison),
    }


def sweep_files(sweep: Sweep) -> dict[str, bytes]:
    """What a sweep's folder holds beside its index and its points."""
    return {
        "sweep.md": page_text(sweep_page(sweep)).encode(),
        "sweep.csv": exact_points(sweep).csv(),
        "report.html": page_bytes(sweep_page(sweep)),
    }


def write_sweep_files(folder: Path, sweep: Sweep) -> None:
    """Write them, each whole, in place of those of before."""
    for name, content in sweep_files(sweep).items():
        files.write_file(folder / name, content, force=True)


def batch_files(batch: Batch) -> dict[str, bytes]:
    """Relative path -> content of what shows a batch; Parquet where its library is installed."""
    exact = exact_jobs(batch)
    tables = {"results.parquet": parquet_table(exact.names, exact.values)} if can_write_parquet() else {}
    return {
        "results.csv": exact.csv(),
        **tables,
        "batch.md": page_text(batch_page(batch)).encode(),
        "report.html": page_bytes(batch_page(batch)),
    }


def write_batch_files(folder: Path, result: BatchResult) -> None:
    """Write them beside the runs, with `summary.json` and `times.json`: each whole, in place of those of before.

    The summary is written first and without what a clock says: the same plans give the same bytes. Raises InputError
    where the disk does not take them.
    """
    status = exit_status(result.batch)
    write_document(folder / indexes.SUMMARY_FILE, batch_document(result.batch, status))
    indexes.write_times(folder, result.effort)
    for name, content in batch_files(result.batch).items():
        files.write_file(folder / name, content, force=True)
