"""Folders that are there whole or not at all: written beside their place, then renamed into it."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from planner.errors import InputError

PLAN_FILE = "plan.json"


def claim_run_folder(folder: Path, *, force: bool = False) -> None:
    """Check that a run can be written to `folder`, before the work begins; leaves nothing behind.

    Raises InputError where it holds a run and `force` is not given, holds anything else, or cannot be written.
    """
    _refuse_what_is_there(folder, marker=PLAN_FILE, force=force)
    with _scratch(folder):
        pass


def write_run(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> None:
    """Write a run: all of `files` (relative path -> content), or nothing."""
    _write(folder, files, marker=PLAN_FILE, force=force)


def write_folder(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> None:
    """Write any other folder whole; `force` replaces one that holds nothing but files of the same kinds."""
    _write(folder, files, marker=None, force=force)


def _write(folder: Path, files: Mapping[str, bytes], *, marker: str | None, force: bool) -> None:
    _refuse_what_is_there(folder, marker=marker, force=force, names=files)
    with _scratch(folder) as scratch:
        for name, content in files.items():
            path = scratch / _inside(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        _put(scratch, folder)


def _inside(name: str) -> PurePosixPath:
    """A relative path that cannot leave its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise InputError(f"file name {name!r}: must stay below its folder.", hint="Use a plain name.")
    return path


def _refuse_what_is_there(
    folder: Path, *, marker: str | None, force: bool, names: Mapping[str, bytes] | None = None
) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: must be a folder, is a file.", hint="Choose another output folder.")
    held = sorted(path.name for path in folder.iterdir())
    if not held:
        return
    ours = (
        marker in held
        if marker
        else {Path(name).suffix for name in names or ()} >= {Path(name).suffix for name in held}
    )
    if not ours:
        raise InputError(
            f"{folder}: must be new, empty or an earlier result, holds {', '.join(held[:3])}.",
            hint="Choose another output folder; this one is left alone even with --force.",
        )
    if not force:
        raise InputError(
            f"{folder}: already holds a result ({', '.join(held[:3])}).",
            hint="Choose another output folder, or give --force to replace it.",
        )


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` (same file system, so that renaming is atomic), gone afterwards."""
    place = folder.absolute()
    scratch = place.with_name(f".{place.name}.partial-{os.getpid()}")
    made = next((p for p in reversed([place.parent, *place.parent.parents]) if not p.exists()), None)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _sweep(place)
        scratch.mkdir()
        yield scratch
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror or error}.", hint="Choose another output folder."
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if made is not None:
            _remove_empty(place.parent, made)


def _remove_empty(folder: Path, top: Path) -> None:
    """Take back parents that were made for a result that never came."""
    while folder.is_relative_to(top) and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _sweep(place: Path) -> None:
    """Remove what writers killed half-way left for this very folder."""
    for stale in place.parent.glob(f".{place.name}.partial-*"):
        pid = stale.name.rpartition("-")[2]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(stale, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _put(scratch: Path, folder: Path) -> None:
    """Rename into place; an old result is moved aside first and removed last."""
    if not folder.exists() or not any(folder.iterdir()):
        scratch.replace(folder)
        return
    aside = scratch.with_name(scratch.name + "-old")
    folder.replace(aside)
    try:
        scratch.replace(folder)
    except OSError:
        aside.replace(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)
