"""Reading YAML and JSON strictly: UTF-8, no duplicate keys, errors that name the file and the line.

LibYAML gives the events; plain values are built from them at once, each distinct scalar resolved a single time. What
needs more than that (tags, merge keys, a PyYAML without LibYAML) is left to `strict_yaml.parse_yaml`.
"""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from planner.errors import InputError, PlannerError
from planner.files.disk.budget import (
    BYTES_A_VALUE,
    DEEPEST,
    MEANT,
    MOST_PLAIN,
    require_json_shape,
    too_deep,
    too_many_values,
)
from planner.files.disk.opening import MOST_OF_A_DOCUMENT, input_hash, read_bytes, read_text
from planner.files.disk.strict_yaml import StrictLoader, parse_yaml, problem_at, unreadable
from planner.files.sections import Section, top_level

_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp"))
_UNUSUAL = "a tag or a merge key"


class _UnusualError(PlannerError):
    """Something that only the full loader builds."""


def parse_large_yaml(text: str, *, file: str, most_bytes: int = MOST_OF_A_DOCUMENT) -> Section:
    """The top-level mapping of a YAML text; `file` names it in errors. What `parse_yaml` gives, sooner; `most_bytes`:
    what such a file may have, from which follows how many values."""
    if not yaml.__with_libyaml__:
        return parse_yaml(text, file=file)
    try:
        document = _Builder(text, file, most_bytes // BYTES_A_VALUE).document()
    except _UnusualError:
        return parse_yaml(text, file=file)
    except yaml.YAMLError as error:
        raise unreadable(file, error) from None
    return top_level(document, file, text)


class _Scalars(dict[str, Any]):
    """Plain scalars by their text."""

    def __init__(self) -> None:
        super().__init__()
        self._loader = StrictLoader("")

    def __missing__(self, text: str) -> object:
        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        if tag not in _PLAIN_TAGS:
            raise _UnusualError(_UNUSUAL)
        value = self[text] = self._loader.construct_object(yaml.ScalarNode(tag, text))
        return value


class _Builder:
    """Builds the document of one text; containers that are open stand on a stack."""

    def __init__(self, text: str, file: str, most_values: int) -> None:
        # a safe loader, used for its events alone
        self._loader = yaml.CSafeLoader(text)
        self._scalars = _Scalars()
        self._anchors: dict[str, tuple[object, int]] = {}
        self._file = file
        self._values, self._most_values = 0, most_values

    def document(self) -> object:
        """The only document of the text (None: it is empty)."""
        loader = self._loader
        try:
            loader.get_event()  # the stream begins
            if isinstance(loader.get_event(), yaml.StreamEndEvent):
                return None
            value = self._value()
            loader.get_event()  # the document ends
            event = loader.get_event()
            if not isinstance(event, yaml.StreamEndEvent):
                raise problem_at("a file must hold a single document", event)
            return value
        finally:
            loader.dispose()

    def _value(self) -> object:
        """The value that begins with the next event."""
        stack: list[_Open] = []
        while True:
            event: Any = self._loader.get_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                value = self._scalar(event, stack)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                if event.tag is not None:
                    raise _UnusualError(_UNUSUAL)
                if len(stack) >= DEEPEST:
                    raise too_deep(self._file)
                stack.append(_Open(event, {} if kind is yaml.MappingStartEvent else [], self._values))
                continue
            elif kind is yaml.AliasEvent:
                value = self._alias(event)
            else:
                value = self._closed(stack.pop())
            self._values += 1
            if self._values > self._most_values:
                raise too_many_values(self._file, self._most_values)
            if not stack:
                return value
            stack[-1].take(value, event)

    def _scalar(self, event: Any, stack: "list[_Open]") -> object:
        if event.tag is not None:
            raise _UnusualError(_UNUSUAL)
        try:
            value = self._scalars[event.value] if event.implicit[0] else event.value
        except yaml.constructor.ConstructorError as error:
            problem = str(error.problem)
            if stack and stack[-1].key_text:
                problem = f"{stack[-1].key_text} {problem.removeprefix('the value ')}"
            raise problem_at(problem, event, note=error.note) from None
        if event.anchor is not None:
            self._anchors[event.anchor] = value, 0
        return value

    def _closed(self, opened: "_Open") -> object:
        if opened.anchor is not None:
            self._anchors[opened.anchor] = opened.values, self._values - opened.begun
        return opened.values

    def _alias(self, event: Any) -> object:
        if event.anchor not in self._anchors:
            raise problem_at(f"found undefined alias {event.anchor!r}", event)
        value, values = self._anchors[event.anchor]
        self._values += values
        return value


_NO_KEY = object()


class _Open:
    """A mapping or sequence that is not closed yet."""

    __slots__ = ("_key", "_plain", "anchor", "begun", "values")

    def __init__(self, event: Any, values: dict[Hashable, object] | list[object], begun: int) -> None:
        """`begun`: how many values stand before it."""
        self.anchor: str | None = event.anchor
        self.values = values
        self.begun = begun
        self._key: object = _NO_KEY
        self._plain = 0

    @property
    def key_text(self) -> str:
        """The key whose value comes next; empty in a list."""
        return "" if self._key is _NO_KEY else f"{self._key!s:.60}"

    def take(self, value: object, event: Any) -> None:
        """The next item; in a mapping keys and values in turn."""
        if isinstance(self.values, list):
            self.values.append(value)
            if not isinstance(value, dict) or not value:
                self._count(event)
        elif self._key is not _NO_KEY:
            self.values[self._key] = value
            self._key = _NO_KEY
        elif not isinstance(value, Hashable):
            raise problem_at("a key must be plain text", event)
        elif value in self.values:
            raise problem_at(f"the key '{value}' is given twice", event)
        else:
            self._key = value
            self._count(event)

    def _count(self, event: Any) -> None:
        """One plain value or key more."""
        self._plain += 1
        if self._plain > MOST_PLAIN:
            raise problem_at(
                f"a list holds more than {MOST_PLAIN:,} plain values, or a mapping more keys",
                event,
                note=MEANT,
            )


__all__ = ["input_hash", "parse_json", "parse_yaml", "read_bytes", "read_json", "read_text", "read_yaml"]


def read_yaml(path: Path, *, most_bytes: int = MOST_OF_A_DOCUMENT) -> Section:
    """The top-level mapping of a YAML file of at most `most_bytes`."""
    return parse_large_yaml(read_text(path, most_bytes=most_bytes), file=str(path), most_bytes=most_bytes)


def read_json(path: Path, *, most_bytes: int = MOST_OF_A_DOCUMENT) -> Section:
    """The top-level object of a JSON file of at most `most_bytes`."""
    return parse_json(read_text(path, most_bytes=most_bytes), file=str(path))


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
