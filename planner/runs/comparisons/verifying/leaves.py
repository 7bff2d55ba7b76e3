"""Where two documents, tables or texts differ, leaf by leaf."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from planner.domain.comparisons import Difference

SAME = 1e-9
"""Relative difference of figures that another processor's rounding may leave."""
MISSING, NOTHING = "(missing)", "(nothing)"
_ABSENT = object()
_LONGEST = 100
_MOST_LINES = 20_000
"""Beyond these, lines are paired as they stand."""


def document_differences(file: str, written: Any, due: Any, *, free: frozenset[str] = frozenset()) -> list[Difference]:
    """Of two documents of plain values. `free`: names of keys that hold what was measured."""
    return [
        Difference(file=file, key=key, written=_shown(came), due=_shown(wanted))
        for key, came, wanted in _leaves("", written, due, free)
    ]


def _leaves(path: str, written: Any, due: Any, free: frozenset[str]) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(written, dict) and isinstance(due, dict):
        for key in dict.fromkeys((*due, *written)):
            if key not in free:
                below = f"{path}.{key}" if path else str(key)
                yield from _leaves(below, written.get(key, _ABSENT), due.get(key, _ABSENT), free)
    elif isinstance(written, list) and isinstance(due, list):
        for row, (came, wanted) in enumerate(zip_longest(written, due, fillvalue=_ABSENT)):
            yield from _leaves(f"{path}.{row}", came, wanted, free)
    elif not _alike(written, due):
        yield path, written, due


def _alike(written: Any, due: Any) -> bool:
    if _is_number(written) and _is_number(due):
        return math.isclose(written, due, rel_tol=SAME, abs_tol=SAME * SAME) or (
            math.isnan(written) and math.isnan(due)
        )
    return type(written) is type(due) and bool(written == due)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return MISSING if value is _ABSENT else _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def file_differences(file: str, written: bytes | None, due: bytes | None) -> list[Difference]:
    """Of a file, by what its name says it is; None: it is not there, or should not be."""
    if written is None or due is None:
        came, wanted = (NOTHING if content is None else f"a file of {len(content)} bytes" for content in (written, due))
        return [Difference(file=file, key="", written=came, due=wanted)]
    if written == due:
        return []
    try:
        texts = written.decode(), due.decode()
    except UnicodeDecodeError:
        return [_of_bytes(file, written, due)]
    if file.endswith(".json"):
        with_values = _parsed(texts[0]), _parsed(texts[1])
        if _ABSENT not in with_values:
            return document_differences(file, *with_values)
    if file.endswith(".csv"):
        return table_differences(file, *texts)
    return _line_differences(file, *texts) or [_of_bytes(file, written, due)]


def _of_bytes(file: str, written: bytes, due: bytes) -> Difference:
    came, wanted = (f"SHA-256 {hashlib.sha256(content).hexdigest()[:16]}" for content in (written, due))
    return Difference(file=file, key="", written=came, due=wanted)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _ABSENT


def table_differences(file: str, written: str, due: str) -> list[Difference]:
    """Of two CSV tables, cell by cell; numbers are the same however they are spelled."""
    tables = [list(csv.reader(io.StringIO(text, newline=""))) for text in (written, due)]
    header = tables[1][0] if tables[1] else []
    differences = []
    for number, (came, wanted) in enumerate(zip_longest(*tables, fillvalue=list[str]())):
        for column, cells in enumerate(zip_longest(came, wanted, fillvalue=_ABSENT)):
            if not _same_cell(*cells):
                name = header[column] if column < len(header) else f"column {column + 1}"
                texts = [MISSING if cell is _ABSENT else _short(str(cell)) for cell in cells]
                differences.append(
                    Difference(file=file, key=f"line {number + 1}, {name}", written=texts[0], due=texts[1])
                )
    return differences


def _same_cell(written: Any, due: Any) -> bool:
    if written == due or written is _ABSENT or due is _ABSENT:
        return bool(written == due)
    try:
        return _alike(float(written), float(due))
    except ValueError:
        return False


def _line_differences(file: str, written: str, due: str) -> list[Difference]:
    came, wanted = written.splitlines(), due.splitlines()
    if len(came) == len(wanted) or max(len(came), len(wanted)) > _MOST_LINES:
        pairs = list(zip_longest(enumerate(came, start=1), wanted))
        numbered = [(pair[0] if pair else len(came), pair[1] if pair else None, line) for pair, line in pairs]
        return [
            Difference(file=file, key=f"line {number}", written=texts[0], due=texts[1])
            for number, first, second in numbered
            if first != second
            for texts in (_around(first, second),)
        ]
    differences = []
    for kind, a, b, c, d in SequenceMatcher(None, came, wanted, autojunk=False).get_opcodes():
        if kind != "equal":
            texts = _around("\n".join(came[a:b]) or None, "\n".join(wanted[c:d]) or None)
            differences.append(Difference(file=file, key=f"line {a + 1}", written=texts[0], due=texts[1]))
    return differences


def _around(written: str | None, due: str | None) -> tuple[str, str]:
    """Both lines, from shortly before the first letter that differs."""
    if written is None or due is None:
        return (MISSING if written is None else _short(written), MISSING if due is None else _short(due))
    pairs = enumerate(zip(written, due, strict=False))
    first = next((place for place, (a, b) in pairs if a != b), min(len(written), len(due)))
    start = max(0, first - _LONGEST // 2) if max(len(written), len(due)) > _LONGEST else 0
    before = "... " if start else ""
    return before + _short(written[start:]), before + _short(due[start:])
