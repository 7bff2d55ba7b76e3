"""What a batch's folder says of itself: `batch.json`, the jobs; `times.json`, what they took."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from planner.domain.comparisons import BatchEffort, BatchIndex, JobEffort
from planner.errors import InputError
from planner.files.disk.folders import errors_told, place_of
from planner.files.disk.opening import is_there
from planner.files.plan.batches.locks import LOCK_FILE
from planner.files.plan.batches.notes import write_document
from planner.files.plan.sealed_documents import read_sealed, read_sealed_record
from planner.files.records import record_document

INDEX_FILE, TIMES_FILE, SUMMARY_FILE = "batch.json", "times.json", "summary.json"
RUNS_FOLDER = "runs"
_ANEW = "Restore the file, or run the batch into another folder."


def holds_batch(folder: Path) -> bool:
    """Whether the folder is that of a batch."""
    return is_there(folder / INDEX_FILE)


def claim_folder_of(index: Path, runs: Path, *, resume: bool, kind: str, shared: bool = False) -> None:
    """Check that the folder of a batch or a sweep (`kind`), which `index` stands in, is new or empty, or with `resume`
    holds one; and make it, with that of its `runs`. `shared`: others may be making the same. Raises InputError."""
    folder = index.parent
    names = (index.name, runs.name) if shared else ()
    if resume and not is_there(index):
        raise InputError(f"{folder}: holds no {kind}.", hint="Leave out --resume to begin one there.")
    with errors_told(folder):
        place = place_of(folder)
        if not resume and place.exists() and (not place.is_dir() or _holds_anything(place, names)):
            raise InputError(
                f"{folder}: must be a new folder, or an empty one.",
                hint=f"Give --resume to go on with the {kind} in it." if is_there(index) else "Choose another.",
            )
        runs.mkdir(parents=True, exist_ok=True)


@contextmanager
def withdrawn_if_refused(index: Path, runs: Path, *, fresh: bool) -> Iterator[None]:
    """An InputError of the block takes back what a `fresh` batch or sweep has begun, where no job of it has ended: the
    same line with the mistake mended finds the folder as new. The lock file stays, as others may be looking at it."""
    try:
        yield
    except InputError:
        if fresh:
            with suppress(OSError):  # something lies in it
                runs.rmdir()
                index.unlink(missing_ok=True)
        raise


def _holds_anything(folder: Path, names: tuple[str, ...]) -> bool:
    """Whether there is something else than locks; nothing, where there is one of `names`: it is being made."""
    listed = [path.name for path in folder.iterdir()]
    return not set(names) & set(listed) and not all(name.startswith(LOCK_FILE) for name in listed)


def write_index(folder: Path, index: BatchIndex) -> None:
    """Write `batch.json`, whole or not at all, in place of an earlier one."""
    write_document(folder / INDEX_FILE, record_document(index))


def read_index(folder: Path) -> BatchIndex:
    """The index of a batch's folder. Raises InputError."""
    path = folder / INDEX_FILE
    index = read_sealed_record(path, BatchIndex, hint=_ANEW)
    for row, entry in enumerate(index.entries):
        if "/" in entry.run or entry.run.startswith(".") or not entry.run.isprintable() or not entry.run:
            raise InputError(
                f"{path}: entries.{row}.run: must be the name of a folder, got {entry.run[:60]!r}.", hint=_ANEW
            )
    return index


def write_times(folder: Path, effort: BatchEffort) -> None:
    """Write `times.json`, with what earlier calls took for the runs that this one did not make."""
    runs = {**earlier_times(folder), **dict(effort.runs)}
    document: Mapping[str, object] = {
        "began": effort.began,
        "executor": effort.executor,
        "wall_s": round(effort.wall_s, 3),
        "quarantined": [{"run": run, "reason": reason} for run, reason in effort.quarantined],
        "runs": {
            run: {"wall_s": round(took.wall_s, 3), "cpu_s": round(took.cpu_s, 3)} for run, took in sorted(runs.items())
        },
    }
    write_document(folder / TIMES_FILE, document)


def earlier_times(folder: Path) -> dict[str, JobEffort]:
    """What runs took, by name; nothing where nobody can read it."""
    path = folder / TIMES_FILE
    if not is_there(path):
        return {}
    try:
        runs = read_sealed(path).section("runs")
        rows = {name: runs.section(name) for name in runs}
        return {
            name: JobEffort(wall_s=row.number("wall_s", low=0), cpu_s=row.number("cpu_s", low=0))
            for name, row in rows.items()
        }
    except InputError:
        return {}
