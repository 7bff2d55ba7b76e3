"""Rows of one record by the hundred thousand, and cluster files with a line for each of them.

another value is left to `read_record`, which knows all rules and the words for what breaks them.

A value needs no second look where a field is a bounded number, a flag, a word of a few, or a printable name.

is quicker by half. Whatever is written otherwise is left to `parse_large_yaml`, and so are errors.

A line of YAML's flow style is JSON once its plain words are quoted; what JSON does not take then (comments, aliases,
numbers in other forms, words that mean something to YAML) was not ours.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from planner.errors import InputError, PlannerError
from planner.files.disk.documents import parse_large_yaml
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.records import NAME, REQUIRED, Document, Field, fields_of
from planner.files.sections import MOST_WHOLE, Section, UnusualRowError, is_printable, top_level

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
    if field.kind is NAME:
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


_QUICK = json.JSONDecoder()
ROW_KEYS = ("nodes", "pods")
_BEGIN = re.compile(rf"^({'|'.join(ROW_KEYS)}):\n(?=- \{{)", re.MULTILINE)
_END = re.compile(r"\n(?!- \{)|\Z")
# a quoted text without escapes, a plain word or a range of ids, each where a key or a value ends
_WORD = re.compile(r'(?:"[ !#-\[\]-~]*"|[A-Za-z_][A-Za-z0-9_./-]*|[0-9]+-[0-9]+)(?=: |[,}\]])')
_ORDINARY = re.compile(r"(?:#.*\n|\s*\n)*[a-z_]+:(?: |\n|$)")
_DOCUMENT_MARK = re.compile(r"^(?:---|\.\.\.|%)", re.MULTILINE)
_NO_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML may take for something else than text, in whatever letters."""
_OF_JSON = ("true", "false", "null")


class _UnusualError(PlannerError):
    """A text that is not laid out as ours."""


def parse_cluster_yaml(text: str, *, file: str) -> Section:
    """The top-level mapping of a cluster file: what `parse_large_yaml` gives, sooner where the file is one of ours."""
    try:
        return top_level(_document(text, file), file, text)
    except (_UnusualError, InputError, ValueError, RecursionError):
        return parse_large_yaml(text, file=file, most_bytes=MOST_OF_A_LIST)


def _document(text: str, file: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    at, quoted = 0, _Quoted()
    for match in _BEGIN.finditer(text):
        end = _end_of(text, match.end())
        parts = [*_plain_keys(text[at : match.start()], file), (match[1], _rows(text[match.end() : end], quoted))]
        at = end
        _add(values, parts)
    _add(values, _plain_keys(text[at:], file))
    if not at:
        raise _UnusualError("no rows")
    return values


def _end_of(text: str, start: int) -> int:
    match = _END.search(text, start)
    assert match is not None, "the end of the text is one"
    return match.end()


def _add(values: dict[str, Any], pairs: Any) -> None:
    for key, value in pairs:
        if key in values:
            raise _UnusualError("a key given twice")
        values[key] = value


def _plain_keys(text: str, file: str) -> Iterator[tuple[str, object]]:
    """What stands between the rows: a document by itself, as its lines begin without indentation."""
    if not text.strip():
        return iter(())
    if not _ORDINARY.match(text) or _DOCUMENT_MARK.search(text):
        raise _UnusualError("another layout")
    return iter(parse_large_yaml(text, file=file, most_bytes=MOST_OF_A_LIST).plain().items())


class _Quoted(dict[str, str]):
    """Words as JSON has them."""

    def __missing__(self, word: str) -> str:
        if word[0] != '"' and word not in _OF_JSON:
            if word.lower() in _NO_TEXT:
                raise _UnusualError("a word that the full loader knows")
            self[word] = f'"{word}"'
        else:
            self[word] = word
        return self[word]


def _rows(lines: str, quoted: _Quoted) -> list[object]:
    """The mappings of lines `- {...}`, each a document by itself."""
    rows: list[object] = []
    for line in _WORD.sub(lambda match: quoted[match[0]], lines).removesuffix("\n").split("\n"):
        try:
            row, end = _QUICK.raw_decode(line, 2)
            if line.count('":') != len(row):  # mappings inside it, or a key given twice
                row, end = _STRICT.raw_decode(line, 2)
        except json.JSONDecodeError:
            raise _UnusualError("no JSON") from None
        if end != len(line):
            raise _UnusualError("more than a mapping")
        rows.append(row)
    return rows


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _UnusualError("a key given twice")
    return values


_STRICT = json.JSONDecoder(object_pairs_hook=_distinct)
