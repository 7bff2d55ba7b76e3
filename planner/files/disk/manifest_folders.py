"""Folders of manifests and of schemas, read as text: what is in them is for the export's checks to judge."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from planner.errors import InputError
from planner.files.disk.opening import MIB, is_folder, read_text

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json", ".sh", ".cfg", ".lua")
SCHEMA_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_FILES = 10_000
_MOST_BYTES = 64 * MIB
_MOST_VALUES = 250_000  # lines and commas of one: no value comes without either, and as many are read in some 1.5 s
_ALIAS = re.compile(r"\*[-0-9A-Za-z_]")  # may be one: `{"a":*b}` has nothing but a colon before it
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_manifests(folder: Path) -> dict[str, str]:
    """Every manifest below `folder`: path within it -> text, sorted. Other files are passed over.

    Raises:
        InputError: no such folder, nothing in it, more than 10 000 files or 64 MiB of them, a file that cannot be
            read, a link that leaves the folder, more than 250 000 values in a file, or YAML aliases: a few lines of
            them can stand for any amount of text.
    """
    texts = _texts(folder, MANIFEST_SUFFIXES, "manifests")
    for name, text in texts.items():
        if not name.endswith((".sh", ".cfg", ".lua")):
            _refuse_many_values(folder / name, text)
            _refuse_aliases(folder / name, text)
    return texts


def load_schemas(folder: Path) -> dict[str, str]:
    """Every YAML and JSON file below `folder`: path within it -> text, sorted. InputError as `load_manifests`, but
    for the aliases."""
    return _texts(folder, SCHEMA_SUFFIXES, "schemas")


def load_recipes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Those of `names` (paths within `folder`) that are there, as text. InputError as `load_manifests`, but for the
    aliases."""
    paths = {name: folder / name for name in names if (folder / name).is_file()}
    for path in paths.values():
        _size(path, folder)
    return {name: read_text(path, most_bytes=_MOST_BYTES) for name, path in paths.items()}


def _texts(folder: Path, suffixes: tuple[str, ...], kind: str) -> dict[str, str]:
    if not is_folder(folder):
        raise InputError(f"{folder}: must be a folder of {kind}.", hint="Check the path.")
    paths = sorted(_paths(folder, suffixes, kind))
    if not paths:
        raise InputError(f"{folder}: must hold {kind} ({', '.join(suffixes)}), holds none.", hint="Check the path.")
    size = 0
    for path in paths:
        size += _size(path, folder)
        if size > _MOST_BYTES:
            raise InputError(
                f"{path}: {kind} must have at most {_MOST_BYTES >> 20} MiB together, with this file they have "
                f"{size >> 20}.",
                hint="Give the folder that `planner export` wrote.",
            )
    return {path.relative_to(folder).as_posix(): read_text(path, most_bytes=_MOST_BYTES) for path in paths}


def _paths(folder: Path, suffixes: tuple[str, ...], kind: str) -> Iterator[Path]:
    count = 0
    for path in folder.rglob("*"):
        if path.suffix in suffixes and path.is_file():
            count += 1
            if count > _MOST_FILES:
                raise InputError(
                    f"{folder}: must hold at most {_MOST_FILES} {kind}, holds more.",
                    hint="Give the folder that `planner export` wrote.",
                )
            yield path


def _size(path: Path, folder: Path) -> int:
    """Bytes of a file that lies in the folder."""
    try:
        real = path.resolve(strict=True)
        size = real.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.", hint="Mend or remove it.") from None
    if not real.is_relative_to(folder.resolve()):
        raise InputError(f"{path}: must not be a link out of the folder, leads to {real}.", hint="Copy the file.")
    return size


def _refuse_many_values(path: Path, text: str) -> None:
    values = text.count("\n") + text.count(",")
    if values > _MOST_VALUES:
        raise InputError(
            f"{path}: must have at most {_MOST_VALUES:,} values, has about {values:,}.",
            hint="Give the folder that `planner export` wrote.",
        )


def _refuse_aliases(path: Path, text: str) -> None:
    if not _ALIAS.search(text):
        return
    try:
        alias = next((t for t in yaml.scan(text, Loader=_LOADER) if isinstance(t, yaml.AliasToken)), None)
    except (yaml.YAMLError, RecursionError):
        return  # no YAML: the checks tell where
    if alias is not None:
        raise InputError(
            f"{path}: line {alias.start_mark.line + 1}: must not have YAML aliases, has *{alias.value}.",
            hint="Write the value out.",
        )
