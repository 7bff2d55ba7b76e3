"""Folders that are there whole or not at all: written beside their place, then renamed into it.

A half-written folder is `.NAME.partial-*`, an old result on its way out `.NAME.replaced-*`. Whoever writes NAME next
removes what a killed writer left of the first, and puts back what it left of the second.
"""

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path, PurePosixPath

from planner.errors import InputError

PLAN_FILE = "plan.json"
RUN_ENTRIES = frozenset(
    {PLAN_FILE, "islands.csv", "routing.csv", "trials.csv", "summary.md", "figures", "manifests"},
)
"""What every run folder holds."""

SOME_RUN_ENTRIES = frozenset({"flows.csv"})
"""What some runs hold besides; a folder with anything else in it is never replaced."""

ATTEMPTS = 100
Strangers = Callable[[Path], list[str]]


def claim_run_folder(folder: Path, *, force: bool = False) -> None:
    """Check that a run can be written to `folder`, before the work begins; leaves nothing behind.

    Raises InputError where it holds a run and `force` is not given, holds anything else, or cannot be written.
    """
    with _errors_told(folder):
        place = _place(folder)
        # tried in the nearest folder that is there: parents made and taken back would trip writers at work below them
        nearest = next(path for path in place.parents if path.exists())
        with _scratch(nearest / place.name) as scratch:
            _refuse_what_is_there(folder, place, _strangers_to_a_run, force=force)
            (scratch / place.relative_to(nearest)).mkdir(parents=True)


def write_run(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> None:
    """Write a run: all of `files` (relative path -> content), or nothing.

    Raises InputError as `claim_run_folder` does, and where a path would leave the folder.
    """
    _write(folder, files, _strangers_to_a_run, force=force)


def write_folder(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> None:
    """Write any other folder whole; `force` replaces one that holds nothing but files of the same kinds."""
    _write(folder, files, lambda place: _other_kinds(place, files), force=force)


def _write(folder: Path, files: Mapping[str, bytes], strangers: Strangers, *, force: bool) -> None:
    paths = {_inside(name): content for name, content in files.items()}
    with _errors_told(folder):
        place = _place(folder)
        with _scratch(place) as scratch:
            _refuse_what_is_there(folder, place, strangers, force=force)
            for path, content in paths.items():
                (scratch / path).parent.mkdir(parents=True, exist_ok=True)
                (scratch / path).write_bytes(content)
            with _locked(place.parent):
                # looked at once more: another writer may have been quicker
                _refuse_what_is_there(folder, place, strangers, force=force)
                _put(scratch, place)


def _inside(name: str) -> PurePosixPath:
    """A relative path that cannot leave its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise InputError(f"file name {name!r}: must stay below its folder.", hint="Use a plain name.")
    return path


@contextmanager
def _errors_told(folder: Path) -> Iterator[None]:
    """What the system refuses is the user's to mend: another folder."""
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise _unwritable(folder, "part of its path is a file") from error
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error)) from error


def _unwritable(folder: Path, reason: str) -> InputError:
    return InputError(f"{folder}: cannot be written: {reason}.", hint="Choose another output folder.")


def _place(folder: Path) -> Path:
    """Where `folder` is, links followed; renaming must not pull the current folder from under the user."""
    if "\0" in str(folder):
        raise _unwritable(folder, "its name holds a NUL")
    place = Path(os.path.realpath(folder))
    if Path.cwd().is_relative_to(place):
        raise _unwritable(folder, "it is the current folder or one above it")
    return place


def _refuse_what_is_there(folder: Path, place: Path, strangers: Strangers, *, force: bool) -> None:
    if not place.exists():
        return
    if not place.is_dir():
        raise InputError(f"{folder}: must be a folder, is a file.", hint="Choose another output folder.")
    held = sorted(path.name for path in place.iterdir())
    strange = strangers(place)
    if strange:
        raise InputError(
            f"{folder}: must be new, empty or an earlier result, holds {', '.join(strange[:3])}.",
            hint="Choose another output folder; this one is left alone even with --force.",
        )
    if held and not force:
        raise InputError(
            f"{folder}: already holds a result ({', '.join(held[:3])}).",
            hint="Choose another output folder, or give --force to replace it.",
        )


def _strangers_to_a_run(place: Path) -> list[str]:
    """Entries that no run has; all of them where there is no plan."""
    held = sorted(path.name for path in place.iterdir())
    return [name for name in held if PLAN_FILE not in held or name not in RUN_ENTRIES | SOME_RUN_ENTRIES]


def _other_kinds(place: Path, files: Mapping[str, bytes]) -> list[str]:
    """Entries unlike those of `files`: files of another suffix, folders of another name."""
    paths = [PurePosixPath(name) for name in files]
    suffixes = {path.suffix for path in paths if len(path.parts) == 1}
    folders = {path.parts[0] for path in paths if len(path.parts) > 1}
    return sorted(
        path.name
        for path in place.iterdir()
        if (path.name not in folders if path.is_dir() else path.suffix not in suffixes)
    )


@contextmanager
def _scratch(place: Path) -> Iterator[Path]:
    """A folder beside `place` (same file system, so that renaming is atomic), gone afterwards."""
    made = next((p for p in reversed([place.parent, *place.parent.parents]) if not p.exists()), None)
    scratch = place.with_name(f".{place.name}.partial-{secrets.token_hex(4)}")
    try:
        entered = _enter(place.parent)
        try:
            _sweep(place)
            scratch.mkdir()
            held = _lock(scratch)
        finally:
            os.close(entered)
        try:
            yield scratch
        finally:
            os.close(held)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if made is not None:
            _remove_empty(place.parent, made)


def _remove_empty(folder: Path, top: Path) -> None:
    """Take back parents that were made for a result that never came."""
    with suppress(OSError):  # not empty: another writer uses it by now
        while folder.is_relative_to(top):
            if folder.exists():
                with _locked(folder):  # not while another writer begins in it
                    folder.rmdir()
            folder = folder.parent


def _enter(parent: Path) -> int:
    """Make and lock `parent`, again where another writer takes it back meanwhile; the descriptor keeps the lock."""
    for left in reversed(range(ATTEMPTS)):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            entered = _lock(parent)
        except (FileNotFoundError, FileExistsError):  # removed between two steps, or really not to be had
            if not left:
                raise
            continue
        if _is(entered, parent):
            return entered
        os.close(entered)
    raise FileNotFoundError(errno.ENOENT, "other writers keep removing the folder above it")


def _is(descriptor: int, folder: Path) -> bool:
    """Whether the open folder is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone among the writers into `folder`."""
    held = _lock(folder)
    try:
        yield
    finally:
        os.close(held)


def _lock(folder: Path) -> int:
    """Lock a folder for as long as the returned descriptor is open; the system lets go of it if we are killed."""
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks: writers there must keep out of each other's way
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _abandoned(folder: Path) -> bool:
    """Whether nobody holds the folder's lock any more."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _sweep(place: Path) -> None:
    """Clean up after writers of this very folder that were killed half-way. The parent must be locked."""
    name = escape(place.name)
    for partial in place.parent.glob(f".{name}.partial-*"):
        if _abandoned(partial):
            shutil.rmtree(partial, ignore_errors=True)
    for replaced in place.parent.glob(f".{name}.replaced-*"):
        if place.exists():
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            replaced.replace(place)


def _put(scratch: Path, place: Path) -> None:
    """Rename into place; an old result is moved aside first and removed last."""
    if not place.exists() or not any(place.iterdir()):
        scratch.replace(place)
        return
    aside = place.with_name(f".{place.name}.replaced-{secrets.token_hex(4)}")
    place.replace(aside)
    try:
        scratch.replace(place)
    except OSError:
        aside.replace(place)
        raise
    shutil.rmtree(aside, ignore_errors=True)
