"""Values of manifests in a form in which like is equal: texts that hold JSON, YAML, a command line or lines of a
configuration are taken apart, and amounts are numbers."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from planner.export.checking.comparing.items import is_deep, lines_of
from planner.export.objects.documents import json_document, yaml_documents

COMMANDS = frozenset({"args", "command"})
"""Keys whose lists are command lines."""


class Missing:
    """Stands for what is not there."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = Missing()


class Flags(dict[str, tuple[str, ...]]):
    """A command line: flag -> its values, one for each time that it stands there; words before all flags under ""."""


class Lines(tuple[str, ...]):
    """A configuration's meaningful lines."""

    __slots__ = ()


def taken_apart(key: str, value: object) -> Any:
    """What a value under `key` holds; itself where it is one thing."""
    if isinstance(value, list) and key in COMMANDS and value and all(isinstance(word, str) for word in value):
        return flags_of(value)
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] in ("{", "["):
        return _document(value)
    if value.startswith("--") and " " in value:
        return _command_line(value)
    return _text(value) if "\n" in value.strip() else value


def flags_of(words: Sequence[str]) -> Flags:
    """The flags of a command line; `--flag=value` and `--flag value` are the same."""
    flags: dict[str, list[str]] = {"": []}
    name = ""
    for word in words:
        if word.startswith("-") and word.strip("-") and not _is_number(word):
            name, equals, value = word.partition("=")
            flags.setdefault(name, []).append(value if equals else "")
        elif not name:
            flags[""].append(word)
        else:
            flags[name][-1] = f"{flags[name][-1]} {word}".strip()
    return Flags({name: tuple(map(_plain, values)) for name, values in flags.items()})


def _plain(value: str) -> str:
    """JSON and numbers in one notation."""
    if value[:1] in ("{", "["):
        try:
            return json.dumps(json_document(value), sort_keys=True)
        except ValueError:
            return value
    return repr(float(value)) if "." in value and _is_number(value) else value


def _is_number(word: str) -> bool:
    return word.lstrip("-").replace(".", "", 1).isdecimal() and len(word) <= 18


def _document(text: str) -> Any:
    try:
        document = json_document(text)
    except ValueError:
        return text
    return text if is_deep(document) else document


def _command_line(text: str) -> Any:
    try:
        return flags_of(shlex.split(text))
    except ValueError:
        return text


def _text(text: str) -> Any:
    """Several lines: a document where they are one that is no mere sentence, else lines."""
    try:
        documents = list(yaml_documents(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        documents = []
    if len(documents) == 1 and isinstance(documents[0], Mapping) and not is_deep(documents[0]):
        return documents[0]
    return Lines(lines_of(text))
