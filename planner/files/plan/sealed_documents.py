"""Documents of a run folder other than plan.json: sealed by digests where they are written, held against them where
they are read, and where a record is what they hold, against its schema.

Whoever reads one reads it through here: what was edited, or is no such document, is an InputError that names the key.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jsonschema

from planner.errors import InputError
from planner.files.disk.documents import parse_json, read_text
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.disk.schema_answers import Accepts, acceptance, keeps_to
from planner.files.plan.digests import KEY, require_unedited, sealed
from planner.files.record_reference import record_schema
from planner.files.records import Document, load_record
from planner.files.sections import Section, top_level

Record = TypeVar("Record")
UNSEALED = "Write it again with this version, or restore the file."
_LONGEST = 200


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
    return sealed_section(read_text(path, most=MOST_OF_A_LIST), str(path), hint=hint)


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
    errors = jsonschema.Draft202012Validator(_schema(record)).iter_errors(document)
    for broken in sorted(errors, key=lambda error: [str(part) for part in error.absolute_path]):
        where = ".".join(str(part) for part in broken.absolute_path) or "top level"
        said = broken.message if len(broken.message) <= _LONGEST else f"{broken.message[:_LONGEST]} ..."
        raise InputError(f"{origin}: {where}: {said}.", hint=hint)


@cache
def _schema(record: type) -> Mapping[str, Any]:
    return record_schema(record)


@cache
def _accepted(record: type) -> Accepts | None:
    return acceptance(_schema(record))
