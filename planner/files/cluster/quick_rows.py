"""Rows of one record by the hundred thousand: values that need no second look are taken as they are, and any row with
another value is left to `read_record`, which knows all rules and the words for what breaks them.

A value needs no second look where a field is a bounded number, a flag, a word of a few, or a printable name.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from planner.files.records import REQUIRED, Document, Field, fields_of
from planner.files.sections import MOST_WHOLE, UnusualRowError, is_printable

Record = TypeVar("Record")
Take = Callable[[Any], Any]


class QuickReader(Generic[Record]):
    """Reads plain mappings as records of one type; `by_hand`: what reads the values of some fields, by field name."""

    def __init__(self, record: type[Record], **by_hand: Take) -> None:
        fields = [field for field in fields_of(record) if field.key]
        self._record = record
        self._takes = {field.key: (field.name, by_hand.get(field.name) or _take_of(field)) for field in fields}
        self._needed = frozenset(field.key for field in fields if field.default is REQUIRED)

    def read(self, row: Mapping[str, Any]) -> Record:
        """The record. Raises UnusualRowError where a key or a value needs a second look."""
        takes = self._takes
        try:
            values = {(pair := takes[key])[0]: pair[1](value) for key, value in row.items()}
        except (KeyError, TypeError):
            raise UnusualRowError("a key or a value") from None
        if not self._needed <= row.keys():
            raise UnusualRowError("a value")
        return self._record(**values)


def _take_of(field: Field) -> Take:
    """What takes a field's plain values; it raises UnusualRowError, KeyError or TypeError for any other."""
    schema = field.kind.schema
    if field.kind.words == "name":
        return _name
    if "enum" in schema:
        members = {value: field.kind.load(value) for value in schema["enum"]}
        return members.__getitem__
    if schema.get("type") == "boolean":
        return _flag
    if schema.get("type") in ("integer", "number") and not {"exclusiveMinimum", "exclusiveMaximum"} & schema.keys():
        return _whole_number(schema) if schema["type"] == "integer" else _number(schema)
    return _unusual


def _unusual(_: object) -> Any:
    raise UnusualRowError("a value")


def _name(value: object) -> str:
    if type(value) is not str or not is_printable(value):
        raise UnusualRowError("a value")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise UnusualRowError("a value")
    return value


def _whole_number(schema: Document) -> Take:
    low, high = schema.get("minimum", -MOST_WHOLE), schema.get("maximum", MOST_WHOLE)

    def take(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise UnusualRowError("a value")
        return value

    return take


def _number(schema: Document) -> Take:
    low, high = schema.get("minimum", -sys.float_info.max), schema.get("maximum", sys.float_info.max)

    def take(value: object) -> float:
        if (type(value) is not int and type(value) is not float) or not low <= value <= high:
            raise UnusualRowError("a value")
        return float(value)

    return take
