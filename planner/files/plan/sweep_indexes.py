"""What a sweep's folder says of itself: `sweep.json`, and why a point has no plan."""

import json
from collections.abc import Mapping
from pathlib import Path

from planner.domain.comparisons.sweeps import SweepEntry, SweepIndex
from planner.errors import InputError
from planner.files.disk.documents import read_json
from planner.files.disk.opening import is_there
from planner.files.disk.single_files import write_file
from planner.files.sections import Section

INDEX_FILE = "sweep.json"
POINTS_FOLDER = "points"
REFUSAL = ".infeasible.json"


def holds_sweep(folder: Path) -> bool:
    """Whether the folder is that of a sweep."""
    return is_there(folder / INDEX_FILE)


def claim_sweep_folder(folder: Path, *, resume: bool) -> None:
    """Make the folder of a sweep, which must be new or empty, or with `resume` hold one. Raises InputError."""
    if resume and not holds_sweep(folder):
        raise InputError(f"{folder}: holds no sweep.", hint="Leave out --resume to begin one there.")
    try:
        if not resume and is_there(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(
                f"{folder}: must be a new folder, or an empty one.",
                hint="Give --resume to go on with the sweep in it." if holds_sweep(folder) else "Choose another.",
            )
        (folder / POINTS_FOLDER).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(
            f"{folder}: cannot be written: {getattr(error, 'strerror', None) or error}.", hint="Choose another folder."
        ) from None


def names_in(folder: Path, digits: int) -> dict[str, str]:
    """The points that are in the folder of a sweep, or were begun: the last `digits` letters of a name -> the name."""
    points = folder / POINTS_FOLDER
    paths = sorted(points.iterdir()) if points.is_dir() else []
    names = [path.name.removesuffix(REFUSAL) for path in paths if not path.name.startswith(".")]
    return {name[-digits:]: name for name in names}


def write_index(folder: Path, index: SweepIndex) -> None:
    """Write `sweep.json`, whole or not at all, in place of an earlier one."""
    document = {
        "scenario": index.scenario,
        "keys": list(index.keys),
        "points": [
            {"values": list(entry.labels), "name": entry.name, "content": entry.content} for entry in index.entries
        ],
    }
    _write(folder / INDEX_FILE, document)


def read_index(folder: Path) -> SweepIndex:
    """The index of a sweep's folder. Raises InputError."""
    section = read_json(folder / INDEX_FILE)
    section.allow_only("scenario", "keys", "points")
    keys = section.texts("keys")
    return SweepIndex(
        scenario=section.text("scenario"),
        keys=keys,
        entries=tuple(_entry(row, len(keys)) for row in section.sections("points")),
    )


def _entry(row: Section, keys: int) -> SweepEntry:
    row.allow_only("values", "name", "content")
    values = row.texts("values")
    if len(values) != keys:
        raise row.fault("values", f"{keys} texts, one a key")
    return SweepEntry(labels=values, name=row.name("name"), content=row.text("content"))


def _refusal_file(folder: Path, name: str) -> Path:
    return folder / POINTS_FOLDER / f"{name}{REFUSAL}"


def write_refusal(folder: Path, name: str, message: str) -> None:
    """Note that nothing serves at a point, and why."""
    _write(_refusal_file(folder, name), {"infeasible": message})


def read_refusal(folder: Path, name: str) -> str | None:
    """Why nothing serves at a point; None where that was not noted. Raises InputError."""
    path = _refusal_file(folder, name)
    return read_json(path).text("infeasible") if is_there(path) else None


def _write(path: Path, document: Mapping[str, object]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False)
    write_file(path, f"{text}\n".encode("utf-8", "backslashreplace"), force=True)
