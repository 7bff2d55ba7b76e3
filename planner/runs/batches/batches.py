"""A batch in a folder: `batch.json` (the jobs), `runs/` (a run folder a job), `summary.json` and tables of all.

What `jobs` and `working` guarantee holds: the plan of a job is the one that `planner plan` gives for its scenario and
settings; killed at any moment, what has ended stays; resumed, only what is missing or changed is planned.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from planner.domain.comparisons import Batch, BatchEffort, BatchEntry, BatchIndex, PointState, RunNote
from planner.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INFEASIBLE, InputError
from planner.files.plan.batches import indexes
from planner.files.plan.batches.locks import alone_in, require_free
from planner.files.scenario.settings import Setting
from planner.runs.batches.jobs import Executor, Job
from planner.runs.batches.listing import NamedJob, Shard, list_jobs
from planner.runs.batches.working import ReportJob, ended, in_folders, last_note, work_off


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """The jobs of `source`, a jobs file or a folder of scenarios; `settings`, `seed` and `engine` above what it says.
    `executor` is what the executor is called; `figures`: whether runs have pictures. `shard`: the part of
    the jobs that is planned, beside others; None: all."""

    source: Path
    folder: Path
    settings: tuple[Setting, ...] = ()
    seed: int | None = None
    engine: str | None = None
    executor: str = "local"
    figures: bool = True
    shard: Shard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """`refused`: why the disk took no more, and so the rest was not done; empty where it did."""

    batch: Batch
    effort: BatchEffort
    refused: str = ""


def run_batch(
    request: BatchRequest, executor: Executor, report: ReportJob = lambda _: None, *, resume: bool = False
) -> BatchResult:
    """Plan what is not planned yet.

    Every scenario is read before anything is planned. Raises InputError where jobs are none, the folder is not new
    (with `resume`: holds no batch), or another batch is at work in it. A shard goes on with what is there of it, and
    the result is of its jobs.
    """
    began, began_s = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    shard = request.shard
    require_free(request.folder, shard.name if shard else "")
    listed = list_jobs(request.source, settings=request.settings, seed=request.seed, engine=request.engine)
    runs = request.folder / indexes.RUNS_FOLDER
    index_file, fresh = request.folder / indexes.INDEX_FILE, not resume and shard is None
    indexes.claim_folder_of(index_file, runs, resume=resume, kind="batch", shared=bool(shard))
    with (
        alone_in(request.folder, shard.name if shard else ""),
        indexes.withdrawn_if_refused(index_file, runs, fresh=fresh),
    ):
        named_jobs = ((listing.name, replace(listing.job, figures=request.figures)) for listing in listed)
        jobs = in_folders(named_jobs, runs)
        index = _index(request, listed, jobs)
        indexes.write_index(request.folder, index)
        if shard:
            jobs_of_shard = shard.of(jobs)
            entries = tuple(entry for entry, job in zip(index.entries, jobs, strict=True) if shard.takes(job))
            jobs, index = jobs_of_shard, replace(index, entries=entries)
        endings = work_off(request.folder, jobs, executor, report)
    effort = BatchEffort(
        began=began,
        executor=request.executor,
        wall_s=time.monotonic() - began_s,
        runs=tuple(endings.efforts.items()),
        quarantined=tuple(endings.quarantined),
    )
    return BatchResult(batch=_collected(index, endings.notes), effort=effort, refused=endings.refused)


def _index(request: BatchRequest, listed: Sequence[NamedJob], jobs: Sequence[Job]) -> BatchIndex:
    entries = (
        BatchEntry(
            name=listing.name,
            scenario=str(job.scenario),
            settings=tuple(setting.text for setting in job.settings),
            seed=job.seed,
            engine=job.engine or "",
            run=job.folder.name,
            content=job.content,
        )
        for listing, job in zip(listed, jobs, strict=True)
    )
    return BatchIndex(source=str(request.source), entries=tuple(entries))


def read_batch(folder: Path) -> Batch:
    """The batch in a folder as far as it has come; nothing is changed there. Raises InputError."""
    index = indexes.read_index(folder)
    note_of_run: dict[str, RunNote] = {}
    for entry in index.entries:
        if entry.run not in note_of_run:
            note_of_run[entry.run] = last_note(
                folder / indexes.RUNS_FOLDER / entry.run, entry.content, entry.engine or None
            )
    return _collected(index, note_of_run)


def runs_of(folder: Path) -> list[Path]:
    """The run folders of a batch's jobs that are there, in the order of the jobs. Raises InputError."""
    names = dict.fromkeys(entry.run for entry in indexes.read_index(folder).entries)
    runs = [folder / indexes.RUNS_FOLDER / name for name in names]
    planned = [run for run in runs if (note := indexes.read_note(run)) and note.state is PointState.PLANNED]
    if not planned:
        raise InputError(f"{folder}: must be a batch with a plan, has none.", hint="Run it: planner batch --resume.")
    return planned


def _collected(index: BatchIndex, endings: Mapping[str, RunNote]) -> Batch:
    first = {entry.run: entry.name for entry in reversed(index.entries)}
    jobs = (
        ended(entry, endings.get(entry.run), "" if first[entry.run] == entry.name else first[entry.run])
        for entry in index.entries
    )
    return Batch(index=index, jobs=tuple(jobs))


def exit_status(batch: Batch) -> int:
    """0: every job is planned. 3: some are infeasible, and none failed. 1: some failed, or were not come to."""
    if batch.count(PointState.FAILED) or batch.count(PointState.MISSING):
        return EXIT_FAILURE
    return EXIT_INFEASIBLE if batch.count(PointState.INFEASIBLE) else EXIT_DONE
