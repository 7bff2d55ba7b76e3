"""Writing files, each whole, and all of a command or none."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.opening import is_folder
from planner.processes.interrupts import held_back

_NO_ROOM, _NO_RIGHTS = "Make room there, or choose another folder.", "Choose a folder that you may write to."
_WAYS: dict[int | None, str] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _NO_ROOM),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _NO_RIGHTS),
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`), or choose another folder.",
}


def write_file(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write `content`; an existing file only with `force`. InputError where it cannot be."""
    write_files({path: content}, force=force)


def write_files(contents: Mapping[Path, bytes], *, force: bool = False) -> None:
    """Write all of them or none; existing files only with `force`. InputError where one cannot be."""
    with files_written(contents, force=force):
        pass


@contextmanager
def files_written(contents: Mapping[Path, bytes], *, force: bool = False) -> Iterator[None]:
    """Files that take their places together after the block, which may write something else; none where it fails."""
    for path in contents:
        refuse_existing(path, force=force)
    written: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            with _errors_named(path):
                if is_folder(path):
                    raise InputError(f"{path}: must be a file, is a folder.", hint="Add the file's name.")
                written[path] = _written_beside(path, content)
        yield
        with held_back():
            for path, temporary in written.items():
                with _errors_named(path):
                    temporary.replace(path)
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """What the system refuses is the user's to mend: another place."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(
            f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}.",
            hint=way_to_write(error, "Make the folder first, or choose another."),
        ) from None


def way_to_write(error: Exception, otherwise: str = "Choose another output folder.") -> str:
    """What to do where the system refuses to write; `otherwise`: where that is not for want of room or rights."""
    return _WAYS.get(getattr(error, "errno", None), otherwise)


def refuse_existing(path: Path, *, force: bool) -> None:
    """InputError where the file is there already and may not be replaced."""
    if os.path.lexists(path) and not is_folder(path) and not force:
        raise InputError(f"{path}: exists already.", hint="Choose another name, or give --force to replace it.")


def _written_beside(path: Path, content: bytes) -> Path:
    """Written as any new file is, so that the user's umask counts; a file replaced hands its permissions on."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        if path.is_file():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary
