"""What a batch's folder says of itself: its jobs, what they took, how each ended; its table as Parquet.

A note that cannot be read counts as none: then the run itself is looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from planner.domain.comparisons import BatchEffort, BatchIndex, JobEffort, PointState, RunNote, SweepIndex
from planner.errors import InputError
from planner.files.disk.documents import input_hash
from planner.files.disk.folders import PLAN_FILE, RUN_ENTRIES, errors_told, place_of, sync
from planner.files.disk.opening import is_there
from planner.files.disk.single_files import write_file
from planner.files.plan.batches.locks import LOCK_FILE
from planner.files.plan.digests import read_sealed, read_sealed_record, sealed_text
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


INDEX_FILE, TIMES_FILE, SUMMARY_FILE = "batch.json", "times.json", "summary.json"
RUNS_FOLDER = "runs"
SWEEP_FILE, POINTS_FOLDER = "sweep.json", "points"
_ANEW = "Restore the file, or run the batch into another folder."
_SWEEP_ANEW = "Restore the file, or sweep into another folder."


def holds_batch(folder: Path) -> bool:
    """Whether the folder is that of a batch."""
    return is_there(folder / INDEX_FILE)


def holds_sweep(folder: Path) -> bool:
    """Whether the folder is that of a sweep."""
    return is_there(folder / SWEEP_FILE)


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
        _require_folder_name(f"{path}: entries.{row}.run", entry.run, _ANEW)
    return index


def write_sweep_index(folder: Path, index: SweepIndex) -> None:
    """Write `sweep.json`, whole or not at all, in place of an earlier one."""
    write_document(folder / SWEEP_FILE, record_document(index))


def read_sweep_index(folder: Path) -> SweepIndex:
    """The index of a sweep's folder. Raises InputError."""
    path = folder / SWEEP_FILE
    index = read_sealed_record(path, SweepIndex, hint=_SWEEP_ANEW)
    for row, entry in enumerate(index.entries):
        _require_folder_name(f"{path}: points.{row}.name", entry.name, _SWEEP_ANEW)
        if len(entry.labels) != len(index.keys):
            raise InputError(
                f"{path}: points.{row}.values: must be {len(index.keys)} texts, one a key, got {len(entry.labels)}.",
                hint=_SWEEP_ANEW,
            )
    return index


def _require_folder_name(place: str, name: str, hint: str) -> None:
    if "/" in name or name.startswith(".") or not name.isprintable() or not name:
        raise InputError(f"{place}: must be the name of a folder, got {name[:60]!r}.", hint=hint)


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


INSTALL_PARQUET = 'pip install "llm-fleet-planner[parquet]"'


def can_write_parquet() -> bool:
    """Whether the library is installed."""
    return find_spec("pyarrow") is not None


def parquet_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """A header and its rows. A column is of truth values, whole numbers, numbers or texts, as its values all are; None
    is missing."""
    import pyarrow as pa  # noqa: PLC0415  (an optional extra)
    import pyarrow.parquet as pq  # noqa: PLC0415  (as above)

    columns = [_column([row[place] for row in rows]) for place in range(len(header))]
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    arrays = [pa.array(values, types[kind]) for kind, values in columns]
    stream = BytesIO()
    pq.write_table(pa.table(dict(zip(header, arrays, strict=True))), stream)
    return stream.getvalue()


def _column(values: Sequence[object]) -> tuple[type, list[object]]:
    """The type that all values of a column are written as, and the values so."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} or kinds <= {int}:
        return next(iter(kinds), str), list(values)
    if kinds <= {int, float}:
        return float, [float(value) if isinstance(value, int) else value for value in values]
    return str, [None if value is None else str(value) for value in values]
