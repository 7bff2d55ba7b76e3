"""What differs between two bodies: one change for each field, item, flag or line, with the way there.

Values of manifests in a form in which like is equal: texts that hold JSON, YAML, a command line or lines of a
configuration are taken apart, and amounts are numbers.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

import yaml

from planner.export.checking.items import is_deep, lines_of
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


_NAMES = ("name", "mountPath", "key", "id")
"""Keys that tell the items of a list apart, the first that all of them have."""
_LINE = 'line "'
_MOST_OF_A_LINE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """At `path` stands `written` where `planned` should; either may be MISSING. Items of lists are `[name]` or
    `[number]` in the path, flags and lines stand there as they are."""

    path: tuple[str, ...]
    planned: Any
    written: Any

    @property
    def field(self) -> str:
        """The path as people write it."""
        return ".".join(self.path).replace(".[", "[").replace(f".{_LINE}", f", {_LINE}") or "all of it"


def changes(planned: object, written: object, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """From what the plan says to what is written; equal values in another notation are none."""
    key = path[-1] if path else ""
    planned, written = taken_apart(key, planned), taken_apart(key, written)
    if isinstance(planned, Flags) and isinstance(written, Flags):
        yield from _of_flags(planned, written, path)
    elif isinstance(planned, Mapping) and isinstance(written, Mapping):
        yield from _of_mappings(planned, written, path)
    elif isinstance(planned, Lines) and isinstance(written, Lines):
        yield from line_changes(planned, written, path)
    elif isinstance(planned, list) and isinstance(written, list):
        yield from _of_lists(planned, written, path)
    elif type(planned) is not type(written) or planned != written:
        yield Change(path=path, planned=planned, written=written)


def line_changes(planned: Sequence[str], written: Sequence[str], path: tuple[str, ...] = ()) -> Iterator[Change]:
    """Lines that are others, that are missing, and that were added; a line is its own name."""
    matcher = SequenceMatcher(None, planned, written, autojunk=False)
    for _, first, last, start, end in (block for block in matcher.get_opcodes() if block[0] != "equal"):
        for before, after in zip_longest(planned[first:last], written[start:end], fillvalue=MISSING):
            name = before if before is not MISSING else after
            yield Change(path=(*path, f'{_LINE}{str(name)[:_MOST_OF_A_LINE]}"'), planned=before, written=after)


def _of_mappings(planned: Mapping[Any, Any], written: Mapping[Any, Any], path: tuple[str, ...]) -> Iterator[Change]:
    for key in dict.fromkeys((*planned, *written)):
        before, after = planned.get(key, MISSING), written.get(key, MISSING)
        if before is MISSING or after is MISSING:
            yield Change(path=(*path, str(key)), planned=before, written=after)
        else:
            yield from changes(before, after, (*path, str(key)))


def _of_flags(planned: Flags, written: Flags, path: tuple[str, ...]) -> Iterator[Change]:
    for flag in dict.fromkeys((*planned, *written)):
        before, after = planned.get(flag, ()), written.get(flag, ())
        if before != after:
            places = (*path, flag) if flag else path
            yield Change(path=places, planned=_words(before), written=_words(after))


def _words(values: tuple[str, ...]) -> Any:
    return ", ".join(value or "no value" for value in values) if values else MISSING


def _of_lists(planned: list[Any], written: list[Any], path: tuple[str, ...]) -> Iterator[Change]:
    name = next((name for name in _NAMES if _tells_apart(name, planned) and _tells_apart(name, written)), "")
    if name:
        yield from _of_named(planned, written, path, name)
    elif len(planned) == len(written):
        for number, (before, after) in enumerate(zip(planned, written, strict=True)):
            yield from changes(before, after, (*path, f"[{number}]"))
    else:
        matcher = SequenceMatcher(None, list(map(repr, planned)), list(map(repr, written)), autojunk=False)
        for _, first, last, start, end in (block for block in matcher.get_opcodes() if block[0] != "equal"):
            pairs = zip_longest(planned[first:last], written[start:end], fillvalue=MISSING)
            for number, (before, after) in enumerate(pairs, start=first):
                yield from changes(before, after, (*path, f"[{number}]"))


def _of_named(planned: list[Any], written: list[Any], path: tuple[str, ...], name: str) -> Iterator[Change]:
    before, after = ({str(item[name]): item for item in items} for items in (planned, written))
    common = [[key for key in side if key in before and key in after] for side in (before, after)]
    if common[0] != common[1]:  # containers, variables and taints are read in their order
        yield Change(path=(*path, "order"), planned=", ".join(common[0]), written=", ".join(common[1]))
    for key in dict.fromkeys((*before, *after)):
        here = (*path, f"[{key}]")
        if key in before and key in after:
            yield from changes(before[key], after[key], here)
        else:
            yield Change(path=here, planned=before.get(key, MISSING), written=after.get(key, MISSING))


def _tells_apart(name: str, items: Sequence[Any]) -> bool:
    names = [item.get(name) if isinstance(item, Mapping) else None for item in items]
    return all(isinstance(item, str) for item in names) and len(set(names)) == len(names)
