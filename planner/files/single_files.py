"""Writing one file, whole or not at all."""

import os
import tempfile
from pathlib import Path

from planner.errors import InputError


def write_file(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write `content`; an existing file only with `force`. InputError where it cannot be."""
    refuse_existing(path, force=force)
    try:
        if path.is_dir():
            raise InputError(f"{path}: must be a file, is a folder.", hint="Add the file's name.")
        _write_beside(path, content)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}.", hint="Make the folder first, or choose another."
        ) from None


def refuse_existing(path: Path, *, force: bool) -> None:
    """InputError where the file is there already and may not be replaced."""
    if os.path.lexists(path) and not path.is_dir() and not force:
        raise InputError(f"{path}: exists already.", hint="Choose another name, or give --force to replace it.")


def _write_beside(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
