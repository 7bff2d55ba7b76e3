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

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from planner import files, pipeline
from planner.domain.comparisons.sweeps import PointState, Sweep, SweepEntry, SweepIndex, SweepPoint
from planner.errors import EXIT_INFEASIBLE, InputError
from planner.files.plan import sweep_indexes
from planner.files.scenario.settings import Setting, SweptKey
from planner.plans.comparisons.figures import plan_figures
from planner.runs.batches.executors import Executor
from planner.runs.batches.jobs import Job, Outcome, with_content

MOST_POINTS = 10_000
_DIGITS = 12  # of the digest that names a folder: 48 bits
_LONGEST_NAME = 48
_NO_LETTERS = re.compile(r"[^A-Za-z0-9.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """`scenario` at every combination of the values of `keys`; `seed` and `engine` as of a job."""

    scenario: Path
    keys: tuple[SweptKey, ...]
    folder: Path
    seed: int | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """`ended` of `total` points that had to be planned; `left_s`: time left at the pace so far; `outcome`: the last."""

    ended: int
    total: int
    left_s: float
    outcome: Outcome


ReportPoint = Callable[[SweepProgress], None]


def run_sweep(
    request: SweepRequest, executor: Executor, report: ReportPoint = lambda _: None, *, resume: bool = False
) -> Sweep:
    """Plan what is not planned yet.

    Every scenario of the grid is read before anything is planned. Raises InputError where one is none, a key is named
    twice, the grid is too large, or the folder is not new (with `resume`: holds no sweep).
    """
    jobs = _jobs(request)
    sweep_indexes.claim_sweep_folder(request.folder, resume=resume)
    index = _index(request, jobs)
    sweep_indexes.write_index(request.folder, index)
    due = [job for job in _distinct(jobs) if not _ended(request.folder, job)]
    failures: dict[str, str] = {}
    began_s = time.monotonic()
    with closing(executor.run(due)) as outcomes:
        for ended, outcome in enumerate(outcomes, start=1):
            name = Path(outcome.folder).name
            if outcome.status == EXIT_INFEASIBLE:
                sweep_indexes.write_refusal(request.folder, name, outcome.message)
            elif outcome.status:
                failures[name] = outcome.message
            left_s = (time.monotonic() - began_s) / ended * (len(due) - ended)
            report(SweepProgress(ended=ended, total=len(due), left_s=left_s, outcome=outcome))
    return _collected(request.folder, index, failures)


def _jobs(request: SweepRequest) -> list[Job]:
    """A job a point, in the order of the grid, with its content and folder; points of equal content have one folder,
    and the one of an earlier grid where that had the point. Raises InputError."""
    _require_grid(request.keys)
    points = request.folder / sweep_indexes.POINTS_FOLDER
    names = sweep_indexes.names_in(request.folder, _DIGITS)
    jobs: dict[str, Job] = {}
    listed = []
    for settings in product(*(key.settings for key in request.keys)):
        bare = Job(
            scenario=request.scenario, folder=points, settings=settings, seed=request.seed, engine=request.engine
        )
        job = with_content(bare)
        name = names.get(job.content[:_DIGITS]) or _name(settings, request.keys, job.content)
        first = jobs.setdefault(job.content, replace(job, folder=points / name))
        listed.append(replace(job, folder=first.folder))
    return listed


def _distinct(jobs: Sequence[Job]) -> list[Job]:
    """The first job of every content."""
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.content, job)
    return list(first.values())


def _require_grid(keys: Sequence[SweptKey]) -> None:
    if not keys:
        raise InputError("--set: must be given, a key and its values.", hint="Write --set inventory.H20=64..256:64.")
    points = 1
    for key in keys:
        points *= len(key.values)
    if points > MOST_POINTS:
        raise InputError(f"--set: must ask for at most {MOST_POINTS:,} points, got {points:,}.", hint="Take fewer.")


def _name(settings: Sequence[Setting], keys: Sequence[SweptKey], content: str) -> str:
    """Values of the keys that vary, for people, and the digest."""
    varying = [setting.label for setting, key in zip(settings, keys, strict=True) if len(key.values) > 1]
    words = "-".join(filter(None, (_NO_LETTERS.sub("-", label).strip("-.") for label in varying)))
    return f"{words[:_LONGEST_NAME].strip('-.') or 'point'}-{content[:_DIGITS]}"


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


def _ended(folder: Path, job: Job) -> bool:
    """Whether there is a finished run of the point, or it is known that nothing serves there."""
    if files.holds_run(job.folder):
        return not files.holds_search(job.folder)
    return sweep_indexes.read_refusal(folder, job.folder.name) is not None


def read_sweep(folder: Path) -> Sweep:
    """The sweep in a folder as far as it has come. Raises InputError."""
    return _collected(folder, sweep_indexes.read_index(folder), {})


def _collected(folder: Path, index: SweepIndex, failures: Mapping[str, str]) -> Sweep:
    """Every point with what is on the disk of it."""
    read: dict[str, SweepPoint] = {}
    points = []
    for entry in index.entries:
        repeats = entry.content in read
        if not repeats:
            read[entry.content] = _point(folder, entry, failures)
        points.append(replace(read[entry.content], entry=entry, repeats=repeats))
    return Sweep(index=index, points=tuple(points))


def _point(folder: Path, entry: SweepEntry, failures: Mapping[str, str]) -> SweepPoint:
    run = folder / sweep_indexes.POINTS_FOLDER / entry.name
    if files.holds_run(run):
        plan = pipeline.recheck(files.load_run(run), str(run))
        return SweepPoint(entry=entry, state=PointState.PLANNED, figures=plan_figures(plan, entry.name))
    reason = sweep_indexes.read_refusal(folder, entry.name)
    if reason is not None:
        return SweepPoint(entry=entry, state=PointState.INFEASIBLE, message=reason)
    if entry.name in failures:
        return SweepPoint(entry=entry, state=PointState.FAILED, message=failures[entry.name])
    return SweepPoint(entry=entry, state=PointState.MISSING, message="not planned yet")
