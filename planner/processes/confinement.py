"""A process that keeps to a folder: it writes there alone, reads what is its own, and connects to nothing.

What a call, or a file that a call names, says of paths is held here and not where each is read: Python tells of every
file that it opens (PEP 578), whoever asks for it. Libraries in C that open files by themselves are not seen; those of
the planner open what is shipped with them.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Mapping[str, tuple[tuple[int, int | None], ...]] = {
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
}
"""Event -> places of its paths, each with that of the folder's descriptor that it is relative to."""
_LISTS = ("os.listdir", "os.scandir")
_REFUSED = frozenset({
    *("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"),
})  # fmt: skip
SYSTEM = ("/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc/localtime", "/etc/mime.types")
"""Where libraries look for fonts, time zones and processors."""


def confine(writable: Iterable[Path]) -> None:
    """From here on, and for good, this process changes files below `writable` alone and reads there, where Python and
    its packages lie, and what is the system's; it opens no connection and starts no program.

    Whatever else is tried raises PermissionError.
    """
    written = tuple(os.path.realpath(path) for path in writable)
    packages = (sys.prefix, sys.base_prefix, *filter(None, sys.path), *SYSTEM)
    sys.addaudithook(_hook(written, (*written, *(os.path.realpath(path) for path in packages))))


def _hook(written: tuple[str, ...], read: tuple[str, ...]) -> Callable[[str, tuple[Any, ...]], None]:
    def heed(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            _require(path, None, written if isinstance(flags, int) and flags & _WRITES else read)
        elif event in _CHANGES:
            for place, folder in _CHANGES[event]:
                _require(arguments[place], None if folder is None else arguments[folder], written)
        elif event in _LISTS:
            _require(arguments[0], None, read)
        elif event in _REFUSED:
            raise PermissionError(errno.EPERM, "this process connects to nothing and starts no program", event)

    return heed


def _require(path: Any, folder: int | None, allowed: tuple[str, ...]) -> None:
    if path is None or isinstance(path, int):  # the current folder, or a file that is open
        return
    name = os.fsdecode(path)
    if folder is not None and folder >= 0:
        name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)  # noqa: PTH118, PTH115
    place = os.path.realpath(name)
    if place != os.devnull and not any(place == root or place.startswith(f"{root}{os.sep}") for root in allowed):
        raise PermissionError(errno.EACCES, "it lies outside of the folder that may be used", name)
