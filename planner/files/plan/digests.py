"""Digests of what plan.json says, so that an edited plan is told from one as it was written.

They are over content, not bytes: another layout, order of keys or spelling of a number (1.0, 1) changes nothing.
`digests.plan` covers the document and the digests of its parts; each of these has a word for every row of a list, or
one for the whole, so that an edit can be named. CPU-seconds are measured and differ from run to run: they are left out,
and so free. Whoever wants to can compute digests anew: they show edits, they are no signature.
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from planner.errors import InputError

Document = dict[str, Any]

SCHEMA_VERSION = 2
UNSEALED_VERSION = 1
"""Of plan.json before digests: read, and said to be unverified."""

KEY = "digests"
WHOLE = "plan"
REMEDY = "Plan again, or restore the file."
MEASURED = frozenset({"generation_cpu_s", "evaluation_cpu_s"})
"""Keys of a round of the search that no digest covers."""

_WORD = 8  # hexadecimal digits: enough to name the part, the whole has all 64
_EXACT = 2**53  # beyond it a float is no longer every whole number
_LONGEST = 60
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def sealed(document: Document) -> Document:
    """The document with its digests, in place of any that it has."""
    content = {key: value for key, value in document.items() if key != KEY}
    plain = _plain(content)
    parts = dict(_parts(plain))
    whole = _digest_of_all(plain, parts)  # in place of that of a key of its name, which it covers
    return {**content, KEY: {WHOLE: whole} | parts | {WHOLE: whole}}


def require_unedited(document: Document, origin: str, *, hint: str = REMEDY) -> None:
    """Raises InputError naming the first part of a sealed document that is not as it was written."""
    written = _written(document[KEY], origin, hint)
    content = _plain({key: value for key, value in document.items() if key != KEY})
    parts = dict(_parts(content))
    for path in dict.fromkeys((*parts, *written)):
        if path != WHOLE and parts.get(path) != written.get(path):
            raise _edited(origin, content, path, parts.get(path), written.get(path), hint)
    if written[WHOLE] != _digest_of_all(content, parts):
        raise _edited(origin, document, f"{KEY}.{WHOLE}", _digest_of_all(content, parts), written[WHOLE], hint)


def _written(digests: Any, origin: str, hint: str) -> dict[str, str]:
    """The digests of a document, if they are some: names and texts, that of the whole among them."""
    if not isinstance(digests, dict):
        raise InputError(f"{origin}: {KEY}: must be a mapping of digests, got {_shown(digests)}.", hint=hint)
    for name in dict.fromkeys((WHOLE, *digests)):
        if not isinstance(digests.get(name), str):
            came = f"got {_shown(digests[name])}" if name in digests else "is missing"
            raise InputError(f"{origin}: {KEY}.{name}: must be a digest, {came}.", hint=hint)
    return digests


def _edited(origin: str, content: Document, path: str, came: str | None, written: str | None, hint: str) -> InputError:
    if came is None:
        fault = "must be there as it was written, is missing"
    elif written is None:
        fault = "must be one that was written, was added"
    else:
        path, shown = _narrowed(content, path, came.split(), written.split())
        fault = f"must be as it was written, got {shown}"
    return InputError(f"{origin}: {path}: {fault}: the file was edited (its digest differs).", hint=hint)


def _narrowed(content: Document, path: str, came: list[str], written: list[str]) -> tuple[str, str]:
    """The path of the first row that differs, if the part has rows, and what stands there."""
    value = _at(content, path)
    if not isinstance(value, list):
        return path, _shown(value)
    if len(came) != len(written):
        return path, f"{len(came)} rows where {len(written)} were written"
    row = next(row for row, (digest, other) in enumerate(zip_longest(came, written)) if digest != other)
    return f"{path}.{row}", _shown(value[row])


def _at(content: Document, path: str) -> Any:
    top, _, below = path.partition(".")
    return content[top][below] if below else content[top]


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _parts(content: Document) -> Iterator[tuple[str, str]]:
    """Path and digest of every key of every section, and of every top-level key that is no section."""
    for top, section in content.items():
        if isinstance(section, dict) and section:
            yield from ((f"{top}.{key}", _words(value)) for key, value in section.items())
        else:
            yield top, _words(section)


def _words(value: object) -> str:
    """A list's are of rows of one, so that a list of one thing is not the thing."""
    parts = [[row] for row in value] if isinstance(value, list) else [value]
    return " ".join(_digest(part)[:_WORD] for part in parts)


def _digest_of_all(content: Document, parts: dict[str, str]) -> str:
    return _digest([content, parts])


def _digest(value: object) -> str:
    return hashlib.sha256(_ENCODER.encode(value).encode()).hexdigest()


def _plain(document: Document) -> Document:
    """As it is read back from JSON, without what is measured; a float without a fraction is a whole number."""
    plain: Document = json.loads(json.dumps(document), parse_float=_number)
    search = plain.get("search")
    rounds = search.get("rounds") if isinstance(search, dict) else None
    if isinstance(search, dict) and isinstance(rounds, list):
        search["rounds"] = [_unmeasured(row) for row in rounds]
    return plain


def _unmeasured(row: Any) -> Any:
    return {key: value for key, value in row.items() if key not in MEASURED} if isinstance(row, dict) else row


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value
