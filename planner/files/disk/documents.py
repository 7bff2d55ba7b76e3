"""Reading YAML and JSON strictly: UTF-8, no duplicate keys, errors that name the file and the line."""

import json
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.budget import require_json_shape
from planner.files.disk.large_yaml import parse_large_yaml
from planner.files.disk.opening import MOST_OF_A_DOCUMENT, input_hash, read_bytes, read_text
from planner.files.disk.strict_yaml import parse_yaml
from planner.files.sections import Section, top_level

__all__ = ["input_hash", "parse_json", "parse_yaml", "read_bytes", "read_json", "read_text", "read_yaml"]


def read_yaml(path: Path, *, most: int = MOST_OF_A_DOCUMENT) -> Section:
    """The top-level mapping of a YAML file of at most `most` bytes."""
    return parse_large_yaml(read_text(path, most=most), file=str(path), most=most)


def read_json(path: Path, *, most: int = MOST_OF_A_DOCUMENT) -> Section:
    """The top-level object of a JSON file of at most `most` bytes."""
    return parse_json(read_text(path, most=most), file=str(path))


def parse_json(text: str, *, file: str) -> Section:
    """The top-level object of a JSON text; `file` names it in errors."""
    require_json_shape(text, file)
    try:
        document = json.loads(text, object_pairs_hook=_unique_pairs)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}: line {error.lineno}, column {error.colno}: is not readable JSON: {error.msg}.",
            hint="Mend that line.",
        ) from None
    except ValueError as error:
        raise InputError(f"{file}: {error}.", hint="Give each key once.") from None
    return top_level(document, file)


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key '{key}' is given twice")
        values[key] = value
    return values
