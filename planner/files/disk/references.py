"""Names and paths: a value of a scenario is a shipped name, or a path relative to the scenario's folder."""

from pathlib import Path

from planner.errors import InputError


def is_path(name_or_path: str, *suffixes: str) -> bool:
    """Whether the text means a file: it holds a slash or ends in one of `suffixes`."""
    return "/" in name_or_path or "\\" in name_or_path or name_or_path.lower().endswith(suffixes)


def resolve(path: str, base: Path | None) -> Path:
    """The path, relative to `base` (None: the current folder)."""
    try:
        target = Path(path).expanduser()
    except RuntimeError:  # ~name of nobody
        raise InputError(
            f"{path}: must begin with the name of a user who has a home.", hint="Write the path out."
        ) from None
    return target if base is None else base / target
