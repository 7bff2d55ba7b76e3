"""A scenario at every point of a grid of its keys, each planned once.

What is guaranteed, beside what holds for every batch (`jobs`):

- The plan of a point is the one that `planner plan SCENARIO --set KEY=VALUE …` gives, to the byte but for CPU-seconds
  that were measured.
- A point's folder is named by the digest of what decides its plan. So a run that is there is that point's run, whoever
  wrote it and whatever grid it was written for; points that ask the same share it.
- Whenever a sweep is killed, what has ended stays, and nothing is half-written. Resumed, it plans only what is missing,
  or what a change of scenario, engine, planner or libraries makes another point; an unfinished search goes on.
- A point where nothing serves is noted with its reason, and is no failure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from planner.domain.comparisons import RunNote, Sweep, SweepEntry, SweepIndex
from planner.errors import InputError
from planner.files.plan.batches import indexes
from planner.files.plan.batches.indexes import claim_folder_of, withdrawn_if_refused
from planner.files.plan.batches.locks import alone_in, require_free
from planner.files.scenario.settings import SweptKey
from planner.runs.batches.jobs import Executor, Job, with_content
from planner.runs.batches.working import ReportJob, ended, in_folders, last_note, work_off

MOST_POINTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """`scenario` at every combination of the values of `keys`; `seed` and `engine` as of a job."""

    scenario: Path
    keys: tuple[SweptKey, ...]
    folder: Path
    seed: int | None = None
    engine: str | None = None


def run_sweep(
    request: SweepRequest, executor: Executor, report: ReportJob = lambda _: None, *, resume: bool = False
) -> Sweep:
    """Plan what is not planned yet.

    Every scenario of the grid is read before anything is planned. Raises InputError where one is none, a key is named
    twice, the grid is too large, the folder is not new (with `resume`: holds no sweep), or is another's at this moment.
    """
    require_free(request.folder)
    points = request.folder / indexes.POINTS_FOLDER
    jobs = in_folders(_jobs(request), points)
    index_file = request.folder / indexes.SWEEP_FILE
    claim_folder_of(index_file, points, resume=resume, kind="sweep")
    with alone_in(request.folder), withdrawn_if_refused(index_file, points, fresh=not resume):
        index = _index(request, jobs)
        indexes.write_sweep_index(request.folder, index)
        endings = work_off(request.folder, jobs, executor, report)
    return _collected(index, endings.notes)


def _jobs(request: SweepRequest) -> Iterator[tuple[str, Job]]:
    """A job a point, in the order of the grid, with its content, and values of the keys that vary. InputError."""
    _require_grid(request.keys)
    for settings in product(*(key.settings for key in request.keys)):
        varying = (setting.label for setting, key in zip(settings, request.keys, strict=True) if len(key.values) > 1)
        bare = Job(
            scenario=request.scenario, folder=Path(), settings=settings, seed=request.seed, engine=request.engine
        )
        yield "-".join(varying), with_content(bare)


def _require_grid(keys: Sequence[SweptKey]) -> None:
    if not keys:
        raise InputError("--set: must be given, a key and its values.", hint="Write --set inventory.H20=64..256:64.")
    points = 1
    for key in keys:
        points *= len(key.values)
    if points > MOST_POINTS:
        raise InputError(f"--set: must ask for at most {MOST_POINTS:,} points, got {points:,}.", hint="Take fewer.")


def _index(request: SweepRequest, jobs: Sequence[Job]) -> SweepIndex:
    return SweepIndex(
        scenario=str(request.scenario),
        keys=tuple(key.key for key in request.keys),
        entries=tuple(
            SweepEntry(
                labels=tuple(setting.label for setting in job.settings), name=job.folder.name, content=job.content
            )
            for job in jobs
        ),
    )


def read_sweep(folder: Path) -> Sweep:
    """The sweep in a folder as far as it has come. Raises InputError."""
    index = indexes.read_sweep_index(folder)
    points = folder / indexes.POINTS_FOLDER
    entries = {entry.name: entry for entry in index.entries}
    return _collected(index, {name: last_note(points / name, entry.content) for name, entry in entries.items()})


def _collected(index: SweepIndex, notes: Mapping[str, RunNote]) -> Sweep:
    """Every point with what became of it."""
    first = {entry.content: place for place, entry in reversed(list(enumerate(index.entries)))}
    points = (
        ended(entry, notes.get(entry.name), entry.name if first[entry.content] < place else "")
        for place, entry in enumerate(index.entries)
    )
    return Sweep(index=index, points=tuple(points))
