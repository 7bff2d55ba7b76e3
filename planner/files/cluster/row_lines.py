"""Cluster files as `cluster_writer` lays them out, a line for each node and pod: those lines are read as JSON, which
is quicker by half. Whatever is written otherwise is left to `parse_large_yaml`, and so are errors.

A line of YAML's flow style is JSON once its plain words are quoted; what JSON does not take then (comments, aliases,
numbers in other forms, words that mean something to YAML) was not ours.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from planner.errors import InputError, PlannerError
from planner.files.disk.large_yaml import parse_large_yaml
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.sections import Section, top_level

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
        return parse_large_yaml(text, file=file, most=MOST_OF_A_LIST)


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
    return iter(parse_large_yaml(text, file=file, most=MOST_OF_A_LIST).plain().items())


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
