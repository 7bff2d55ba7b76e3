"""What a sweep's folder says of itself: `sweep.json`."""

from pathlib import Path

from planner.domain.comparisons import SweepEntry, SweepIndex
from planner.files.disk.opening import is_there
from planner.files.plan.batches.indexes import write_document
from planner.files.plan.digests import read_sealed
from planner.files.sections import Section

INDEX_FILE = "sweep.json"
POINTS_FOLDER = "points"


def holds_sweep(folder: Path) -> bool:
    """Whether the folder is that of a sweep."""
    return is_there(folder / INDEX_FILE)


def write_index(folder: Path, index: SweepIndex) -> None:
    """Write `sweep.json`, whole or not at all, in place of an earlier one."""
    document = {
        "scenario": index.scenario,
        "keys": list(index.keys),
        "points": [
            {"values": list(entry.labels), "name": entry.name, "content": entry.content} for entry in index.entries
        ],
    }
    write_document(folder / INDEX_FILE, document)


def read_index(folder: Path) -> SweepIndex:
    """The index of a sweep's folder. Raises InputError."""
    section = read_sealed(folder / INDEX_FILE, hint="Restore the file, or sweep into another folder.")
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
