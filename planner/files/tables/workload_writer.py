"""Writing a workload file."""

from pathlib import Path

import yaml

from planner.domain import LengthProfile
from planner.errors import InputError
from planner.files.disk.single_files import refuse_existing, write_file
from planner.files.disk.strict_yaml import EXPONENT_FLOAT
from planner.files.sections import NAME_PATTERN
from planner.files.tables.workloads import workload_document


class _BlockDumper(yaml.SafeDumper):
    """Texts of several lines as literal blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockDumper.add_representer(str, _represent_text)
# what the loader would read as a number is quoted
_BlockDumper.add_implicit_resolver(*EXPONENT_FLOAT)


def write_workload(profile: LengthProfile, path: Path, force: bool = False, *, source: str = "") -> None:
    """Write a workload file, whole or not at all; an existing one only with `force`."""
    refuse_existing(path, force=force)
    write_file(path, workload_text(profile, source=source), force=force)


def workload_text(profile: LengthProfile, *, source: str = "") -> bytes:
    """A workload file. `source` says in words how the profile came about. The same profile gives the same bytes."""
    _require_name(profile.name)
    document = workload_document(profile, source=source)
    text: str = yaml.dump(document, Dumper=_BlockDumper, sort_keys=False, allow_unicode=True, width=100)
    return text.encode()


def workload_path(folder: Path, name: str) -> Path:
    """Where a workload of that name belongs in `folder`. Raises InputError for a name that is no plain name."""
    _require_name(name)
    return folder / f"{name}.yaml"


def _require_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name):
        raise InputError(
            f"workload name: must be letters, digits, '.', '_' or '-', at most 63, got {name!r}.",
            hint="Rename the workload.",
        )
