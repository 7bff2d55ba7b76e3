"""How a job ended, noted beside its run: `NAME.note.json`; and runs that are no good, moved aside with the reason.

A note that cannot be read counts as none: then the run itself is looked at.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from planner.domain.comparisons import PointState, RunNote
from planner.errors import InputError
from planner.files.disk.documents import input_hash
from planner.files.disk.folders import PLAN_FILE, RUN_ENTRIES, errors_told, sync
from planner.files.disk.opening import is_there
from planner.files.disk.single_files import write_file
from planner.files.plan.sealed_documents import read_sealed_record, sealed_text
from planner.files.records import record_document

NOTE = ".note.json"
QUARANTINE_FOLDER = "quarantine"
_ATTEMPTS = 10_000


def write_note(run: Path, note: RunNote) -> None:
    """Note how the job of a run folder ended, for good. InputError where the disk does not take it."""
    path = _note_file(run)
    write_document(path, record_document(note))
    with errors_told(path.parent):
        sync(path)
        sync(path.parent)


def write_document(path: Path, document: Mapping[str, object]) -> None:
    """A sealed file of plain values, there whole or not at all, in place of an earlier one."""
    write_file(path, sealed_text(document), force=True)


def read_note(run: Path) -> RunNote | None:
    """How the job ended; None where that was not noted, or nobody can read it."""
    path = _note_file(run)
    if not is_there(path):
        return None
    try:
        return read_sealed_record(path, RunNote)
    except InputError:
        return None


def noted(note: RunNote, run: Path) -> RunNote:
    """The note of a job that has made a run, with what the run is known by. InputError where it is not there."""
    names = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    return replace(note, plan_sha256=input_hash(run / PLAN_FILE).sha256, files=tuple(names))


def is_untouched(note: RunNote, run: Path) -> bool:
    """Whether a run is still there as it was noted: the very plan, and every file."""
    try:
        plan_sha256 = input_hash(run / PLAN_FILE).sha256
    except InputError:
        return False
    return plan_sha256 == note.plan_sha256 and all((run / name).is_file() for name in note.files)


def missing_entries(run: Path) -> list[str]:
    """What every run folder holds and this one does not; figures aside, which a batch may do without."""
    return sorted(name for name in RUN_ENTRIES - {"figures"} if not (run / name).exists())


def is_ended(note: RunNote) -> bool:
    """Whether there is nothing left to do."""
    return note.state in (PointState.PLANNED, PointState.INFEASIBLE)


def quarantine(folder: Path, run: Path, reason: str) -> Path:
    """Move a run of the batch in `folder` aside, its note removed and the reason beside it; where to."""
    with errors_told(folder):
        place = _free(folder / QUARANTINE_FOLDER, run.name)
        place.parent.mkdir(exist_ok=True)
        _note_file(run).unlink(missing_ok=True)
        write_file(place.with_name(f"{place.name}.reason.txt"), f"{reason}\n".encode("utf-8", "replace"))
        run.rename(place)
    return place


def _free(folder: Path, name: str) -> Path:
    names = (f"{name}-{number}" for number in range(1, _ATTEMPTS))
    return next(folder / free for free in names if not (folder / free).exists())


def names_in(runs: Path, digits: int) -> dict[str, str]:
    """The runs that lie in a folder, or were begun: the last `digits` letters of a name -> the name."""
    paths = sorted(runs.iterdir()) if runs.is_dir() else []
    names = [path.name.removesuffix(NOTE) for path in paths if not path.name.startswith(".")]
    return {name[-digits:]: name for name in names}


def _note_file(run: Path) -> Path:
    return run.with_name(f"{run.name}{NOTE}")
