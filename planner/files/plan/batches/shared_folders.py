"""Whether other machines see the folders and files of this one: a small file, written here and looked for there."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from planner.files.disk.folders import errors_told

PROBE = ".planner-probe-"


@contextmanager
def probes_in(folders: Iterable[Path]) -> Iterator[tuple[Path, ...]]:
    """A new empty file in each folder, or in the closest of its parents that is there; gone with the block.

    Raises InputError where one cannot be written.
    """
    name = f"{PROBE}{uuid4().hex}"
    probes: list[Path] = []
    try:
        for folder in dict.fromkeys(map(_nearest, folders)):
            with errors_told(folder):
                (folder / name).touch(exist_ok=False)
            probes.append(folder / name)
        yield tuple(probes)
    finally:
        for probe in probes:
            with suppress(OSError):
                probe.unlink()


def present(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Files that are here, each once, by paths that do not depend on the current folder."""
    return tuple(path.absolute() for path in dict.fromkeys(paths) if path.is_file())


def unseen(paths: Sequence[Path]) -> tuple[str, ...]:
    """Those of `paths` that are not here, and probes in folders that are read-only, each as words of a sentence."""
    return tuple(reason for reason in map(_fault, paths) if reason)


def _fault(path: Path) -> str:
    if path.name.startswith(PROBE):
        if not path.exists():
            return f"folder {path.parent}"
        return "" if os.access(path.parent, os.W_OK) else f"folder {path.parent} (not writable)"
    return "" if path.is_file() else f"file {path}"


def _nearest(folder: Path) -> Path:
    path = folder.absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path
