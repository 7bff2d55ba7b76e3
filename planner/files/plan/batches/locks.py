"""One batch, or one watch, at a time in a folder; and whether other machines see it.

The system holds the lock (`flock`), not the file: what a killed process leaves is taken over by the next one. The file
tells who holds it. Over NFS the lock holds between machines where the mount has locks (the default since version 4). Of
a file system without any, what the file says decides: it is respected while its process lives, and where it is another
machine's until somebody removes it; two that begin in the same instant there are not told apart.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from planner.errors import InputError
from planner.files.disk.folders import errors_told

LOCK_FILE, BATCH = ".batch.lock", "batch"
_LOCK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who is at work. `began`: of the process, in the system's clock ticks since it was started; 0: not known."""

    pid: int
    host: str
    since: str
    began: int


@contextmanager
def alone_in(folder: Path, shard: str = "") -> Iterator[None]:
    """No other batch in the folder, which is there, until the block is left; of a batch in parts no other process with
    the part `shard`, and no batch that is not in parts. InputError: one is, or it cannot be written."""
    if not shard:
        with locked(folder, LOCK_FILE):
            yield
        return
    with errors_told(folder):
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _take(folder, descriptor, fcntl.LOCK_SH)
        with locked(folder, f"{LOCK_FILE}-{shard}"):
            yield
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, name: str, work: str = BATCH) -> Iterator[None]:
    """The lock file of that name in a folder that is there, until the block is left. `work`: what it is of, for the
    error. InputError: another process has it, or it cannot be written."""
    with errors_told(folder):
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _take(folder, descriptor, name=name, work=work)
        with errors_told(folder):
            _write(descriptor, json.dumps(asdict(_this_process())).encode())
        try:
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def require_free(folder: Path, shard: str = "") -> None:
    """InputError where a batch is at work in the folder, that of another part left aside; nothing is written."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except (OSError, ValueError):  # none was there, or there is something else to be said of the folder
        return
    try:
        _take(folder, descriptor, fcntl.LOCK_SH if shard else fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _take(
    folder: Path, descriptor: int, kind: int = fcntl.LOCK_EX, *, name: str = LOCK_FILE, work: str = BATCH
) -> None:
    """The lock, as long as the descriptor is open."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _at_work(folder / name, work, _holder(descriptor)) from None
    except OSError:  # a file system without locks
        holder = _holder(descriptor)
        if holder is not None and _lives(holder):
            raise _at_work(folder / name, work, holder) from None


def _at_work(lock: Path, work: str, holder: Holder | None) -> InputError:
    worker = "another process" if holder is None else f"process {holder.pid} on {holder.host} since {holder.since}"
    return InputError(
        f"{lock.parent}: another {work} is at work in it: {worker}.",
        hint=f"Let it finish, or choose another folder; where that process is no more, remove {lock}.",
    )


def _holder(descriptor: int) -> Holder | None:
    try:
        row = json.loads(os.pread(descriptor, _LOCK_BYTES, 0))
        return Holder(pid=int(row["pid"]), host=str(row["host"]), since=str(row["since"]), began=int(row["began"]))
    except (OSError, ValueError, KeyError, TypeError):  # it has not said yet who it is, or has ended
        return None


def _lives(holder: Holder) -> bool:
    """Whether the process is at work; of another machine nobody here can tell that it is not."""
    if holder.host != socket.gethostname():
        return True
    return _ticks(holder.pid) == holder.began


def _this_process() -> Holder:
    return Holder(
        pid=os.getpid(),
        host=socket.gethostname(),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        began=_ticks(os.getpid()) or 0,
    )


def _ticks(pid: int) -> int | None:
    """When a process of this machine was started, in ticks since it was booted; None: there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _write(descriptor: int, content: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)


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
