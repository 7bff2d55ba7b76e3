"""Whatever lies in a folder, at hand: a plan, a schedule, a watch, a sweep, a batch."""

from pathlib import Path
from typing import Any

from planner import files
from planner.api.planning import load_plan
from planner.errors import InputError


def load(path: str | Path) -> Any:
    """What a command or `.save` wrote there: a plan (or its plan.json), a schedule, a watch, a sweep or a batch.

    >>> plan = planner.load("runs/mixed-fleet")

    Raises InputError where it is none of these, was edited, or contradicts itself.
    """
    folder = Path(path)
    if not files.is_there(folder):
        raise InputError(
            f"{path}: there is no such file or folder.",
            hint=f"Paths are relative to {Path.cwd()}; planner.plan(...).save(path) writes one.",
        )
    if not files.is_folder(folder) or files.holds_run(folder):
        return load_plan(folder)
    return _of_folder(folder)


def _of_folder(folder: Path) -> Any:
    from planner.api.comparisons import PlannedBatch, SweptScenario
    from planner.api.schedules import load_schedule
    from planner.api.watches import load_watch
    from planner.files.plan.batches.indexes import holds_batch
    from planner.files.plan.batches.sweep_indexes import holds_sweep
    from planner.files.plan.stored_schedules import holds_schedule
    from planner.files.plan.watch_folders import holds_watch
    from planner.runs.batches.batches import read_batch
    from planner.runs.batches.sweeps import read_sweep

    if holds_schedule(folder):
        return load_schedule(folder)
    if holds_watch(folder):
        return load_watch(folder)
    if holds_sweep(folder):
        return SweptScenario(read_sweep(folder), folder)
    if holds_batch(folder):
        return PlannedBatch(read_batch(folder), folder)
    raise InputError(
        f"{folder}: must be the folder of a plan, a schedule, a watch, a sweep or a batch; it holds none.",
        hint="Give the folder that holds plan.json, schedule.json, watch.jsonl, sweep.json or batch.json.",
    )
