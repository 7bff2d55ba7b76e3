"""Folders that are there whole or not at all: written beside their place, then renamed into it.

A half-written folder is `.NAME.partial-*`, an old result on its way out `.NAME.replaced-*`. Whoever writes NAME next
removes what a killed writer left of the first, and puts back what it left of the second.

A search at work keeps what it has done in the folder of its run, under `search/` (see `journals`).
"""

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path, PurePosixPath

from planner.errors import InputError
from planner.files.disk.single_files import way_to_write
from planner.processes.interrupts import held_back

PLAN_FILE = "plan.json"
RUN_ENTRIES = frozenset(
    {PLAN_FILE, "islands.csv", "routing.csv", "trials.csv", "summary.md", "figures", "manifests"},
)
"""What every run folder holds."""

CLUSTER_FILE = "cluster.json.gz"
"""The cluster of a plan that lies on one; plan.json has its digest."""

SEARCH_FOLDER, JOURNAL_FILE, EXPERIMENT_FILE = "search", "journal.jsonl", "experiment.json"
PAGE_FILE = "report.html"
"""The page that `planner report` adds."""
SOME_RUN_ENTRIES = frozenset(
    {CLUSTER_FILE, "flows.csv", "latency.csv", "placement.csv", "pools.csv", "sites.csv", SEARCH_FOLDER, PAGE_FILE}
    | {"changes.json", "change.md", "change.html", "change", "steps"}  # of a plan that took another's place
)
"""What some runs hold besides; a folder with anything else in it is never replaced."""

SEARCH_ENTRIES = frozenset({JOURNAL_FILE, EXPERIMENT_FILE})
SEARCH_LEFTOVERS = (".", "earlier-")
"""How the names of further files of a search begin: being written, or of the run that a search will replace."""

ATTEMPTS = 100


def claim_run_folder(folder: Path, *, force: bool = False) -> None:
    """Check that a run can be written to `folder`, before the work begins; leaves nothing behind.

    Raises InputError where it holds a run or an unfinished search and `force` is not given, holds anything else, or
    cannot be written.
    """
    with errors_told(folder):
        place = place_of(folder)
        # tried in the nearest folder that is there: parents made and taken back would trip writers at work below them
        nearest = next(path for path in place.parents if path.exists())
        with _scratch(nearest / place.name) as scratch:
            refuse_what_is_there(folder, place, force=force)
            (scratch / place.relative_to(nearest)).mkdir(parents=True)


def claim_folder(folder: Path, names: Iterable[str], *, force: bool = False) -> None:
    """Check that `write_folder` can write files of these names, before the work begins; leaves nothing behind.

    `names`: all that such a result may hold, `write_folder`'s `kinds` among them.
    """
    kinds = list(names)
    with errors_told(folder):
        place = place_of(folder)
        nearest = next(path for path in place.parents if path.exists())
        with _scratch(nearest / place.name):
            _refuse_unless_folder(
                folder, place, lambda target: _refuse(folder, target, _other_kinds(target, kinds), force=force)
            )


def write_run(
    folder: Path, files: Mapping[str, bytes], *, force: bool = False, searched: bool = False, durable: bool = False
) -> None:
    """Write a run: all of `files` (relative path -> content), or nothing.

    `searched`: the folder holds the caller's own search, which the run takes the place of; then, as with `durable`, it
    is on the disk for good before this returns. Raises InputError as `claim_run_folder` does, and where a path would
    leave the folder.
    """

    def refuse(place: Path) -> None:
        if searched:
            _refuse_strangers(folder, strangers_to_a_run(place))
        else:
            refuse_what_is_there(folder, place, force=force)

    _write(folder, files, refuse, durable=searched or durable)


def write_folder(folder: Path, files: Mapping[str, bytes], *, force: bool = False, kinds: Iterable[str] = ()) -> None:
    """Write any other folder whole; `force` replaces one that holds nothing but files of the same kinds.

    `kinds`: names of files that an earlier result of this sort may hold and this one need not, such as figures.
    """
    names = [*files, *kinds]
    _write(folder, files, lambda place: _refuse(folder, place, _other_kinds(place, names), force=force))


def _write(folder: Path, files: Mapping[str, bytes], refuse: Callable[[Path], None], *, durable: bool = False) -> None:
    paths = {_inside(name): content for name, content in files.items()}
    with errors_told(folder):
        place = place_of(folder)
        with _scratch(place) as scratch:
            _refuse_unless_folder(folder, place, refuse)
            for path, content in paths.items():
                (scratch / path).parent.mkdir(parents=True, exist_ok=True)
                (scratch / path).write_bytes(content)
            if durable:
                _sync(scratch)
            with _locked(place.parent):
                # looked at once more: another writer may have been quicker
                _refuse_unless_folder(folder, place, refuse)
                with held_back():
                    _put(scratch, place)
            if durable:
                sync(place.parent)


def _sync(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        sync(path)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _inside(name: str) -> PurePosixPath:
    """A relative path that cannot leave its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise InputError(f"file name {name!r}: must stay below its folder.", hint="Use a plain name.")
    return path


@contextmanager
def errors_told(folder: Path) -> Iterator[None]:
    """What the system refuses is the user's to mend: another folder."""
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise _unwritable(folder, "part of its path is a file") from error
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error), way_to_write(error)) from error


def _unwritable(folder: Path, reason: str, hint: str = "Choose another output folder.") -> InputError:
    return InputError(f"{folder}: cannot be written: {reason}.", hint=hint)


def place_of(folder: Path) -> Path:
    """Where `folder` is, links followed; renaming must not pull the current folder from under the user."""
    if "\0" in str(folder):
        raise _unwritable(folder, "its name holds a NUL")
    place = Path(os.path.realpath(folder))
    if Path.cwd().is_relative_to(place):
        raise _unwritable(folder, "it is the current folder or one above it")
    return place


def _refuse_unless_folder(folder: Path, place: Path, refuse: Callable[[Path], None]) -> None:
    if not place.exists():
        return
    if not place.is_dir():
        raise InputError(f"{folder}: must be a folder, is a file.", hint="Choose another output folder.")
    refuse(place)


def refuse_what_is_there(folder: Path, place: Path, *, force: bool) -> None:
    """InputError where `place` (told as `folder`) may not take a run, as `claim_run_folder` says."""

    def refuse(place: Path) -> None:
        strange = strangers_to_a_run(place)
        _refuse_strangers(folder, strange)
        journal = place / SEARCH_FOLDER / JOURNAL_FILE
        if journal.exists():
            _refuse_search(folder, journal, force=force)
        elif sorted(path.name for path in place.iterdir()) != [SEARCH_FOLDER]:  # else: killed before it began
            _refuse(folder, place, strange, force=force)

    _refuse_unless_folder(folder, place, refuse)


def _refuse_search(folder: Path, journal: Path, *, force: bool) -> None:
    if _busy(journal):
        raise at_work(folder)
    if not force:
        raise InputError(
            f"{folder}: holds an unfinished search.",
            hint=f"Go on with `planner plan --resume {folder}` (of a changed scenario: `planner plan SCENARIO --resume "
            f"{folder}`), or give --force to start anew.",
        )


def at_work(folder: Path) -> InputError:
    """The error of who meets another planner in its folder."""
    return InputError(
        f"{folder}: another planner is at work on its search.", hint="Let it finish, or choose another output folder."
    )


def _refuse_strangers(folder: Path, strange: list[str]) -> None:
    if strange:
        raise InputError(
            f"{folder}: must be new, empty or an earlier result, holds {', '.join(strange[:3])}.",
            hint="Choose another output folder; this one is left alone even with --force.",
        )


def _refuse(folder: Path, place: Path, strange: list[str], *, force: bool) -> None:
    _refuse_strangers(folder, strange)
    entries = sorted(path.name for path in place.iterdir())
    if entries and not force:
        raise InputError(
            f"{folder}: already holds a result ({', '.join(entries[:3])}).",
            hint="Choose another output folder, or give --force to replace it.",
        )


def strangers_to_a_run(place: Path) -> list[str]:
    """Entries that no run has; where there is no plan, all but a search's own."""
    entries = sorted(path.name for path in place.iterdir())
    if entries == [SEARCH_FOLDER]:
        return _strangers_to_a_search(place / SEARCH_FOLDER)
    return [name for name in entries if PLAN_FILE not in entries or name not in RUN_ENTRIES | SOME_RUN_ENTRIES]


def _strangers_to_a_search(search: Path) -> list[str]:
    if not search.is_dir():
        return [SEARCH_FOLDER]
    names = sorted(path.name for path in search.iterdir())
    strange = [name for name in names if name not in SEARCH_ENTRIES and not name.startswith(SEARCH_LEFTOVERS)]
    return [f"{SEARCH_FOLDER}/{name}" for name in strange]


def _other_kinds(place: Path, names: Iterable[str]) -> list[str]:
    """Entries unlike those of these names: files of another suffix, folders of another name."""
    paths = [PurePosixPath(name) for name in names]
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
    topmost = to_be_made(place.parent)
    scratch = place.with_name(f".{place.name}.partial-{secrets.token_hex(4)}")
    try:
        with entered(place):
            scratch.mkdir()
            lock = _lock(scratch)
        try:
            yield scratch
        finally:
            os.close(lock)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if topmost is not None:
            remove_empty(place.parent, topmost)


def to_be_made(folder: Path) -> Path | None:
    """The highest of `folder` and its parents that is not there yet."""
    return next((path for path in reversed([folder, *folder.parents]) if not path.exists()), None)


@contextmanager
def entered(place: Path) -> Iterator[None]:
    """Alone among the writers beside `place`: its parents made, and what killed writers left of it swept up."""
    descriptor = _enter(place.parent)
    try:
        _sweep(place)
        yield
    finally:
        os.close(descriptor)


def remove_empty(folder: Path, top: Path) -> None:
    """Take back parents that were made for a result that never came."""
    with suppress(OSError):  # not empty: another writer uses it by now
        while folder.is_relative_to(top):
            if folder.exists():
                with _locked(folder):  # not while another writer begins in it
                    folder.rmdir()
            folder = folder.parent


def _enter(parent: Path) -> int:
    """Make and lock `parent`, again where another writer takes it back meanwhile; the descriptor keeps the lock."""
    for retries in reversed(range(ATTEMPTS)):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            entered = _lock(parent)
        except (FileNotFoundError, FileExistsError):  # removed between two steps, or really not to be had
            if not retries:
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
    lock = _lock(folder)
    try:
        yield
    finally:
        os.close(lock)


def _lock(folder: Path) -> int:
    """Lock a folder for as long as the returned descriptor is open; the system lets go of it if we are killed."""
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks: writers there must keep out of each other's way
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _busy(journal: Path) -> bool:
    """Whether a planner holds the journal's lock."""
    descriptor = os.open(journal, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


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
