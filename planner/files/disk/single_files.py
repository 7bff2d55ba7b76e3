"""Writing one file, whole or not at all."""

import errno
import os
import secrets
import stat
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.opening import is_folder

_NO_ROOM, _NO_RIGHTS = "Make room there, or choose another folder.", "Choose a folder that you may write to."
_WAYS: dict[int | None, str] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _NO_ROOM),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _NO_RIGHTS),
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`), or choose another folder.",
}


def write_file(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write `content`; an existing file only with `force`. InputError where it cannot be."""
    refuse_existing(path, force=force)
    try:
        if is_folder(path):
            raise InputError(f"{path}: must be a file, is a folder.", hint="Add the file's name.")
        _write_beside(path, content)
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


def _write_beside(path: Path, content: bytes) -> None:
    """Written as any new file is, so that the user's umask counts; a file replaced hands its permissions on."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        if path.is_file():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
