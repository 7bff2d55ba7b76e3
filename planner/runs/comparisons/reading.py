"""Runs on the disk beside each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from planner import files, pipeline
from planner.domain import Plan
from planner.domain.comparisons import PlanComparison
from planner.errors import InputError
from planner.files.plan.batches.indexes import holds_batch
from planner.files.plan.batches.notes import QUARANTINE_FOLDER
from planner.plans.comparisons.compared import compare_plans
from planner.runs.batches.batches import runs_of

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
    names = _names(runs)
    return {name: pipeline.recheck(files.load_run(run), str(run)) for name, run in zip(names, runs, strict=True)}


def _names(runs: Sequence[Path]) -> list[str]:
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
