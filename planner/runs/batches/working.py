"""Jobs worked off in a folder: each once, whoever executes them, and whatever lies there already.

- A job's run folder is named by the digest of what decides its plan: a run that is there is that job's, whoever wrote
  it. Jobs of equal content share a run.
- How a job ended is noted beside its run as soon as it has (`NAME.note.json`). What has ended is not done again. A run
  without a note is one that a killed batch finished: it is read, and noted where it is sound.
- A run that is no good (its plan does not verify, files of it are missing, its journal is damaged) is moved to
  `quarantine/` with the reason, and its job is done again.
- A job whose worker died is done once more. A disk that takes no more ends the work: no other job would fare better.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from planner import files, pipeline
from planner.domain.comparisons import EndedJob, Entry, JobEffort, PointState, RunNote
from planner.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INFEASIBLE, InputError, PlannerError
from planner.files.disk.folders import at_work
from planner.files.plan.batches import indexes
from planner.plans.comparing import plan_figures
from planner.plans.provenance import versions
from planner.runs.batches.jobs import ENGINE, Executor, Job, Outcome, content_of
from planner.runs.batches.running import disk_refuses

DIGITS = 12
"""Of the digest that names a folder: 48 bits."""
_LONGEST_NAME = 48
_NO_LETTERS = re.compile(r"[^A-Za-z0-9.]+")
_STATES = {EXIT_DONE: PointState.PLANNED, EXIT_INFEASIBLE: PointState.INFEASIBLE}


MISSING = RunNote(content="", state=PointState.MISSING, status=EXIT_FAILURE, message="not planned yet")


def ended(entry: Entry, note: RunNote | None, same_as: str) -> EndedJob[Entry]:
    """What the note beside its run says of a job; `same_as`: the first that asks the same."""
    note = note or MISSING
    return EndedJob(
        entry=entry,
        state=note.state,
        status=note.status,
        message=note.message,
        figures=note.figures,
        same_as=same_as,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """`ended` of `total` jobs that had to be done, `failures` among them; `left_s`: time left at the pace so far, of
    `per_minute` jobs; `outcome`: the last."""

    ended: int
    total: int
    failures: int
    per_minute: float
    left_s: float
    outcome: Outcome


ReportJob = Callable[[BatchProgress], None]


@dataclass(slots=True, kw_only=True)
class Endings:
    """How jobs ended, by the name of their run folder; those that failed were not to be noted or failed in this call.
    `quarantined`: names with reasons. `refused`: why the disk took no more, empty where it did."""

    notes: dict[str, RunNote] = field(default_factory=dict)
    efforts: dict[str, JobEffort] = field(default_factory=dict)
    quarantined: list[tuple[str, str]] = field(default_factory=list)
    refused: str = ""


def in_folders(jobs: Iterable[tuple[str, Job]], runs: Path) -> list[Job]:
    """The jobs, which know their content, with folders below `runs`: named by words for people and the digest, those of
    equal content alike, and as they are called already where they lie there."""
    names = indexes.names_in(runs, DIGITS)
    folders: dict[str, Path] = {}
    listed = []
    for words, job in jobs:
        if job.content not in folders:
            folders[job.content] = runs / (names.get(job.content[:DIGITS]) or _name(words, job.content))
        listed.append(replace(job, folder=folders[job.content]))
    return listed


def _name(words: str, content: str) -> str:
    plain = _NO_LETTERS.sub("-", words)[:_LONGEST_NAME].strip("-.")
    return f"{plain or 'point'}-{content[:DIGITS]}"


def distinct(jobs: Iterable[Job]) -> list[Job]:
    """The first job of every content."""
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.content, job)
    return list(first.values())


def work_off(folder: Path, jobs: Sequence[Job], executor: Executor, report: ReportJob) -> Endings:
    """Do what is missing of `jobs`, whose runs lie in the batch or sweep in `folder`; the lock is the caller's."""
    endings = Endings()
    due = _kin_together([job for job in distinct(jobs) if not _is_over(folder, job, endings)])
    pace = _Pace(total=len(due), report=report)
    once_more = _executed(due, executor, endings, pace, again=True)
    remaining = [job for job in once_more if not _is_over(folder, job, endings)]
    for job in once_more:
        if job not in remaining:
            pace.tell(_finished_before_it_died(job, endings.notes[job.folder.name]))
    if remaining and not endings.refused:
        _executed(remaining, executor, endings, pace, again=False)
    return endings


def _executed(jobs: Sequence[Job], executor: Executor, endings: Endings, pace: "_Pace", *, again: bool) -> list[Job]:
    """Execute jobs; those to be done once more, where `again` allows that, as their workers died."""
    by_folder = {str(job.folder): job for job in jobs}
    died: list[Job] = []
    if not jobs:
        return died
    with closing(executor.run(jobs)) as outcomes:
        for outcome in outcomes:
            job = by_folder[outcome.folder]
            if outcome.worker_died and again:
                died.append(job)
                continue
            noted = _note(job, outcome, endings)
            pace.tell(noted)
            if noted.unwritable:
                endings.refused = noted.message
                break
    return died


def _note(job: Job, outcome: Outcome, endings: Endings) -> Outcome:
    """The outcome, as it is once it is noted on the disk."""
    name = job.folder.name
    note = RunNote(
        content=job.content,
        state=_STATES.get(outcome.status, PointState.FAILED),
        status=outcome.status,
        message=outcome.message if outcome.status else "",
        figures=outcome.figures if not outcome.status else None,
    )
    try:
        note = indexes.noted(note, job.folder) if note.state is PointState.PLANNED else note
        indexes.write_note(job.folder, note)
    except InputError as error:
        outcome = replace(outcome, status=EXIT_FAILURE, message=str(error), unwritable=disk_refuses(error))
        note = replace(note, state=PointState.FAILED, status=EXIT_FAILURE, message=str(error), figures=None)
    endings.notes[name] = note
    endings.efforts[name] = JobEffort(wall_s=outcome.wall_s, cpu_s=outcome.cpu_s)
    return outcome


def _finished_before_it_died(job: Job, note: RunNote) -> Outcome:
    rate = note.figures.rate_rps if note.figures else None
    return Outcome(scenario=job.name, folder=str(job.folder), status=note.status, throughput_rps=rate)


@dataclass(slots=True, kw_only=True)
class _Pace:
    """Counts what ends."""

    total: int
    report: ReportJob
    ended: int = 0
    failures: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def tell(self, outcome: Outcome) -> None:
        """A job has ended for good."""
        self.ended += 1
        self.failures += outcome.status not in _STATES
        passed_s = max(time.monotonic() - self.began_s, 1e-9)
        self.report(
            BatchProgress(
                ended=self.ended,
                total=self.total,
                failures=self.failures,
                per_minute=60 * self.ended / passed_s,
                left_s=passed_s / self.ended * (self.total - self.ended),
                outcome=outcome,
            )
        )


def _kin_together(jobs: Sequence[Job]) -> list[Job]:
    """Jobs whose tables are alike one after the other, kinds in the order of their first."""
    first: dict[str, int] = {}
    for place, job in enumerate(jobs):
        first.setdefault(job.kin, place)
    return sorted(jobs, key=lambda job: first[job.kin])


def _is_over(folder: Path, job: Job, endings: Endings) -> bool:
    """Whether there is nothing left to do of a job, whose note then is among the endings; what is no good of it is
    moved aside."""
    note, fault = look(job.folder, job.content, job.engine)
    if fault:
        indexes.quarantine(folder, job.folder, fault)
        endings.quarantined.append((job.folder.name, fault))
    elif note is not None and indexes.is_ended(note):
        endings.notes[job.folder.name] = note
        if indexes.read_note(job.folder) != note:
            indexes.write_note(job.folder, note)
        return True
    return False


def look(run: Path, content: str, engine: str | None = None) -> tuple[RunNote | None, str]:
    """How the job of a run folder ended (None: it has not), and what is wrong with what lies there (empty: nothing)."""
    files.recover(run)
    note = indexes.read_note(run)
    if note is not None and note.content != content:
        note = None
    if note is not None and note.state is PointState.PLANNED:
        if indexes.is_untouched(note, run):
            return note, ""
        note = None
    if files.holds_search(run):
        return note, _fault_of_search(run)
    if not run.exists() or (run.is_dir() and not any(run.iterdir())):
        return note, ""
    return _looked_into(run, content, engine)


def last_note(run: Path, content: str, engine: str | None = None) -> RunNote:
    """How the job of a run folder ended, for readers: nothing is changed there."""
    note, fault = look(run, content, engine)
    if fault:
        return replace(MISSING, message=f"{fault} Resume: it is done again.")
    return note or MISSING


def _fault_of_search(run: Path) -> str:
    """What keeps an unfinished search from being resumed."""
    try:
        files.Journal.reopen(run, versions()).close()
    except InputError as error:
        return "" if error.message == at_work(run).message else error.message
    return ""


def _looked_into(run: Path, content: str, engine: str | None) -> tuple[RunNote | None, str]:
    """A run that no note tells of, or another than the one that it tells of."""
    missing = indexes.missing_entries(run) if run.is_dir() else ["plan.json"]
    if missing:
        return None, f"{run}: must hold all of a run, lacks {', '.join(missing)}."
    try:
        plan = pipeline.recheck(files.load_run(run), str(run))
    except PlannerError as error:
        return None, error.message
    if content_of(plan.scenario, engine or plan.scenario.engine.name or ENGINE) != content:
        return None, f"{run}: must be the plan of its job, is that of another scenario."
    note = RunNote(content=content, state=PointState.PLANNED, status=EXIT_DONE, figures=plan_figures(plan, run.name))
    return indexes.noted(note, run), ""
