"""Digests of documents, so that an edited one is told from one as it was written; sealed documents read and written.

They are over content, not bytes: another layout, order of keys or spelling of a number (1.0, 1) changes nothing.
`digests.plan` covers the document and the digests of its parts; each of these has a word for every row of a list, or
one for the whole, so that an edit can be named. CPU-seconds are measured and differ from run to run: they are left out,
and so free. Whoever wants to can compute digests anew: they show edits, they are no signature.

they are read, and where a record is what they hold, against its schema.

Whoever reads one reads it through here: what was edited, or is no such document, is an InputError that names the key.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from planner.errors import InputError
from planner.files.disk.documents import parse_json, read_text
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.disk.schema_answers import Accepts, acceptance, keeps_to
from planner.files.records import Document, load_record, record_schema
from planner.files.sections import Section, top_level

SCHEMA_VERSION = 2
UNSEALED_VERSION = 1
"""Of plan.json before digests: read, and said to be unverified."""

KEY = "digests"
WHOLE_PLAN = "plan"
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
    digest_of_all = _digest_of_all(plain, parts)  # in place of that of a key of its name, which it covers
    return {**content, KEY: {WHOLE_PLAN: digest_of_all} | parts | {WHOLE_PLAN: digest_of_all}}


def require_unedited(document: Document, origin: str, *, hint: str = REMEDY) -> None:
    """Raises InputError naming the first part of a sealed document that is not as it was written."""
    written = _written(document[KEY], origin, hint)
    content = _plain({key: value for key, value in document.items() if key != KEY})
    parts = dict(_parts(content))
    for path in dict.fromkeys((*parts, *written)):
        if path != WHOLE_PLAN and parts.get(path) != written.get(path):
            raise _edited(origin, content, path, parts.get(path), written.get(path), hint)
    if written[WHOLE_PLAN] != _digest_of_all(content, parts):
        raise _edited(
            origin, document, f"{KEY}.{WHOLE_PLAN}", _digest_of_all(content, parts), written[WHOLE_PLAN], hint
        )


def _written(digests: Any, origin: str, hint: str) -> dict[str, str]:
    """The digests of a document, if they are some: names and texts, that of the whole among them."""
    if not isinstance(digests, dict):
        raise InputError(f"{origin}: {KEY}: must be a mapping of digests, got {_shown(digests)}.", hint=hint)
    for name in dict.fromkeys((WHOLE_PLAN, *digests)):
        if not isinstance(digests.get(name), str):
            actual = f"got {_shown(digests[name])}" if name in digests else "is missing"
            raise InputError(f"{origin}: {KEY}.{name}: must be a digest, {actual}.", hint=hint)
    return digests


def _edited(
    origin: str, content: Document, path: str, actual: str | None, written: str | None, hint: str
) -> InputError:
    if actual is None:
        fault = "must be there as it was written, is missing"
    elif written is None:
        fault = "must be one that was written, was added"
    else:
        path, shown = _narrowed(content, path, actual.split(), written.split())
        fault = f"must be as it was written, got {shown}"
    return InputError(f"{origin}: {path}: {fault}: the file was edited (its digest differs).", hint=hint)


def _narrowed(content: Document, path: str, actual: list[str], written: list[str]) -> tuple[str, str]:
    """The path of the first row that differs, if the part has rows, and what stands there."""
    value = _at(content, path)
    if not isinstance(value, list):
        return path, _shown(value)
    if len(actual) != len(written):
        return path, f"{len(actual)} rows where {len(written)} were written"
    row = next(row for row, (digest, other) in enumerate(zip_longest(actual, written)) if digest != other)
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


Record = TypeVar("Record")
UNSEALED = "Write it again with this version, or restore the file."
_LONGEST_FAULT = 200


def sealed_text(document: Mapping[str, Any], *, indent: int = 1) -> bytes:
    """The document with its digests, as the bytes of a file; names that are no Unicode are escaped."""
    text = json.dumps(sealed(dict(document)), indent=indent, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode("utf-8", "backslashreplace")


def with_seal(contents: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """Files of a folder, the document of that name among them sealed."""
    return {**contents, name: sealed_text(json.loads(contents[name]), indent=2)}


def read_sealed(path: Path, *, hint: str = UNSEALED) -> Section:
    """The top level of a sealed file, without its digests.

    Raises InputError where there is none, it is no JSON object, has no digests, or is not as it was written.
    """
    return sealed_section(read_text(path, most_bytes=MOST_OF_A_LIST), str(path), hint=hint)


def sealed_section(text: str, origin: str, *, hint: str = UNSEALED) -> Section:
    """The top level of a sealed document, as `read_sealed`; `origin` names it in errors."""
    section = parse_json(text, file=origin)
    document = section.plain()
    if KEY not in document:
        raise section.refusal(
            KEY, "must be there, is missing: the file was edited, or is of an earlier version", hint=hint
        )
    require_unedited(document, origin, hint=hint)
    return top_level({key: value for key, value in document.items() if key != KEY}, origin)


def read_sealed_record(path: Path, record: type[Record], *, hint: str = UNSEALED) -> Record:
    """The record that a sealed document holds. Raises as `read_sealed` does, and where it breaks the schema of it."""
    document = read_sealed(path, hint=hint).plain()
    require_schema(record, document, str(path), hint=hint)
    return load_record(record, document)


def require_schema(record: type, document: Document, origin: str, *, hint: str = UNSEALED) -> None:
    """InputError naming the first key of a document that breaks the schema of a record."""
    if keeps_to(_accepted(record), document):
        return
    import jsonschema  # noqa: PLC0415  (only a faulty document needs its words)

    errors = jsonschema.Draft202012Validator(_schema(record)).iter_errors(document)
    for broken in sorted(errors, key=lambda error: [str(part) for part in error.absolute_path]):
        where = ".".join(str(part) for part in broken.absolute_path) or "top level"
        message = broken.message if len(broken.message) <= _LONGEST_FAULT else f"{broken.message[:_LONGEST_FAULT]} ..."
        raise InputError(f"{origin}: {where}: {message}.", hint=hint)


@cache
def _schema(record: type) -> Mapping[str, Any]:
    return record_schema(record)


@cache
def _accepted(record: type) -> Accepts | None:
    return acceptance(_schema(record))


def read_saved_plan(path: Path) -> Section:
    """Its top level. Raises InputError where it is no JSON object, or was edited; earlier plans have no digests."""
    text = read_text(path, most_bytes=MOST_OF_A_LIST)
    section = parse_json(text, file=str(path))
    document = json.loads(text)
    if KEY in document:
        require_unedited(document, str(path))
    elif document.get("schema_version") == SCHEMA_VERSION:
        raise InputError(f"{path}: {KEY}: must be there, is missing: the file was edited.", hint=REMEDY)
    return section
