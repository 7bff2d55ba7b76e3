"""Reading YAML and JSON strictly: UTF-8, no duplicate keys, errors that name the file and the line."""

import hashlib
import json
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from planner.domain import InputHash
from planner.errors import InputError
from planner.files.sections import Section

# tag, pattern and first characters of the floats that YAML 1.1 takes for text
EXPONENT_FLOAT = (
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


class StrictLoader(yaml.SafeLoader):
    """Plain data only, each key once, and `1e-4` is a number as in JSON (YAML 1.1 asks for `1.0e-4`)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping; ConstructorError where a key is given twice, or is no plain text."""
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    problem="a key must be plain text", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key '{key}' is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:int"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# decimal alone: YAML 1.1 reads 010 as 8 and 1:30 as 90
StrictLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9][0-9_]*)$"), list("-+0123456789"))
StrictLoader.add_implicit_resolver(*EXPONENT_FLOAT)


def read_bytes(path: Path) -> bytes:
    """The file's bytes; InputError where there is no such file or it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file.", hint="Check the path; it is relative to the referring file."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}.", hint="Give a readable file, not a folder.") from None


def read_text(path: Path) -> str:
    """The file as UTF-8 text, a byte-order mark dropped; InputError names the first other byte."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: must be UTF-8 text; line {line} has the byte 0x{data[error.start]:02x}.",
            hint="Save the file in UTF-8.",
        ) from None


def input_hash(path: Path) -> InputHash:
    """The file's name (without folder) and SHA-256."""
    return InputHash(name=path.name, sha256=hashlib.sha256(read_bytes(path)).hexdigest())


def read_yaml(path: Path) -> Section:
    """The top-level mapping of a YAML file."""
    return parse_yaml(read_text(path), file=str(path))


def parse_yaml(text: str, *, file: str) -> Section:
    """The top-level mapping of a YAML text; `file` names it in errors."""
    try:
        # a subclass of SafeLoader: it builds plain data only
        document = yaml.load(text, Loader=StrictLoader)  # noqa: S506 - the loader is a SafeLoader
    except yaml.YAMLError as error:
        raise unreadable(file, error) from None
    except RecursionError:
        raise InputError(f"{file}: is nested too deeply.", hint="Flatten the file.") from None
    except ValueError as error:  # a timestamp such as 2025-13-45
        raise InputError(f"{file}: holds a value that YAML cannot read: {error}.", hint="Quote it.") from None
    return top_level(document, file)


def unreadable(file: str, error: yaml.YAMLError) -> InputError:
    """The error of a text that is no YAML, with its line and column where they are known."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return InputError(
        f"{file}: {where}is not readable YAML: {problem}.",
        hint="Mend that line; indent with spaces, not tabs.",
    )


def read_json(path: Path) -> Section:
    """The top-level object of a JSON file."""
    return parse_json(read_text(path), file=str(path))


def parse_json(text: str, *, file: str) -> Section:
    """The top-level object of a JSON text; `file` names it in errors."""
    try:
        document = json.loads(text, object_pairs_hook=_unique_pairs)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}: line {error.lineno}, column {error.colno}: is not readable JSON: {error.msg}.",
            hint="Mend that line.",
        ) from None
    except RecursionError:
        raise InputError(f"{file}: is nested too deeply.", hint="Flatten the file.") from None
    except ValueError as error:
        raise InputError(f"{file}: {error}.", hint="Give each key once and numbers of ordinary size.") from None
    return top_level(document, file)


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key '{key}' is given twice")
        values[key] = value
    return values


def top_level(document: object, file: str) -> Section:
    """A document as a section; InputError where it is no mapping."""
    if not isinstance(document, Mapping):
        came = "an empty file" if document is None else f"a {type(document).__name__}"
        raise InputError(
            f"{file}: the top level must be a mapping of keys to values; came {came}.",
            hint="Begin with `name: ...`, one key a line.",
        )
    return Section(document, file=file)
