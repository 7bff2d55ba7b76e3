"""Reading large YAML files as strictly as small ones, and some twenty times as fast.

LibYAML gives the events; plain values are built from them at once, each distinct scalar resolved a single time. What
needs more than that (tags, merge keys, a PyYAML without LibYAML) is left to `strict_yaml.parse_yaml`.
"""

from collections.abc import Hashable
from typing import Any

import yaml

from planner.errors import PlannerError
from planner.files.disk.strict_yaml import StrictLoader, parse_yaml, problem_at, unreadable
from planner.files.sections import Section, top_level

_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null"))
_DEEPEST = 500


class _UnusualError(PlannerError):
    """Something that only the full loader builds."""


def parse_large_yaml(text: str, *, file: str) -> Section:
    """The top-level mapping of a YAML text; `file` names it in errors. What `parse_yaml` gives, sooner."""
    if not yaml.__with_libyaml__:
        return parse_yaml(text, file=file)
    try:
        document = _Builder(text).document()
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
            raise _UnusualError("a tag, a date, a merge key, or deep nesting")
        try:
            value = self[text] = self._loader.construct_object(yaml.ScalarNode(tag, text))
        except yaml.YAMLError:
            raise _UnusualError("a number that cannot be read: the full loader knows its place") from None
        return value


class _Builder:
    """Builds the document of one text; containers that are open stand on a stack."""

    def __init__(self, text: str) -> None:
        # a safe loader, used for its events alone
        self._loader = yaml.CSafeLoader(text)
        self._scalars = _Scalars()
        self._anchors: dict[str, object] = {}

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
                value = self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                if event.tag is not None or len(stack) > _DEEPEST:
                    raise _UnusualError("a tag, a date, a merge key, or deep nesting")
                stack.append(_Open(event, {} if kind is yaml.MappingStartEvent else []))
                continue
            elif kind is yaml.AliasEvent:
                value = self._alias(event)
            else:
                value = self._closed(stack.pop())
            if not stack:
                return value
            stack[-1].take(value, event)

    def _scalar(self, event: Any) -> object:
        if event.tag is not None:
            raise _UnusualError("a tag, a date, a merge key, or deep nesting")
        value = self._scalars[event.value] if event.implicit[0] else event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _closed(self, opened: "_Open") -> object:
        if opened.anchor is not None:
            self._anchors[opened.anchor] = opened.values
        return opened.values

    def _alias(self, event: Any) -> object:
        if event.anchor not in self._anchors:
            raise problem_at(f"found undefined alias {event.anchor!r}", event)
        return self._anchors[event.anchor]


_NO_KEY = object()


class _Open:
    """A mapping or sequence that is not closed yet."""

    __slots__ = ("_key", "anchor", "values")

    def __init__(self, event: Any, values: dict[Hashable, object] | list[object]) -> None:
        self.anchor: str | None = event.anchor
        self.values = values
        self._key: object = _NO_KEY

    def take(self, value: object, event: Any) -> None:
        """The next item; in a mapping keys and values in turn."""
        if isinstance(self.values, list):
            self.values.append(value)
        elif self._key is not _NO_KEY:
            self.values[self._key] = value
            self._key = _NO_KEY
        elif not isinstance(value, Hashable):
            raise problem_at("a key must be plain text", event)
        elif value in self.values:
            raise problem_at(f"the key '{value}' is given twice", event)
        else:
            self._key = value
