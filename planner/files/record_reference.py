"""What the documents of our records hold: as a JSON Schema for programs, as rows of a reference for people."""

import json
from dataclasses import dataclass

from planner.files.disk.values import bounds_text
from planner.files.records import REQUIRED, Document, Field, Kind, fields_of

_UNITS = {
    "_usd_per_gpu_hour": "USD per GPU and hour",
    "_usd_per_hour": "USD/hour",
    "_gpu_hours": "GPU-hours",
    "_gb_s": "GB/s",
    "_tflops": "TFLOP/s",
    "_tokens": "tokens",
    "_rps": "requests/s",
    "_mib": "MiB",
    "_gb": "GB",
    "_ms": "ms",
    "_s": "s",
    "_w": "W",
}
"""What the end of a name says, longer ends before those that they end in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key in words. `key` stands with the keys above it, `ranges[].from` where those hold a list. `default` is
    `required` where it must be given; what does not apply is empty."""

    key: str
    type: str
    bounds: str
    unit: str
    default: str
    meaning: str


def key_rows(record: type, path: str = "") -> tuple[KeyRow, ...]:
    """A row for each key of the record's document and of the records in it, in their order, below `path`."""
    rows: list[KeyRow] = []
    for field in (field for field in fields_of(record) if field.key):
        key = f"{path}.{field.key}" if path else field.key
        rows.append(_row(key, field))
        inner = field.kind.items or field.kind
        if inner.record is not None:
            rows += key_rows(inner.record, key if field.kind.record else f"{key}[]")
    return tuple(rows)


def _row(key: str, field: Field) -> KeyRow:
    bounds = field.bounds
    return KeyRow(
        key=key,
        type=field.kind.words,
        bounds=bounds_text(bounds.low, bounds.high, bounds.above, bounds.below).removeprefix(" of "),
        unit=field.note.unit or next((unit for end, unit in _UNITS.items() if field.name.endswith(end)), ""),
        default=_default(field),
        meaning=field.note.meaning,
    )


def _default(field: Field) -> str:
    if field.default is REQUIRED:
        return "required"
    plain = field.plain(field.default)
    return "none" if plain is None else plain if isinstance(plain, str) and plain else json.dumps(plain)


def field_schemas(record: type, *names: str) -> Document:
    """The schemas of some fields of a record (of all without `names`), each under its key."""
    fields = {field.name: field for field in fields_of(record) if field.key}
    return {fields[name].key: _schema(fields[name]) for name in names or fields}


def record_schema(record: type, **further: Document) -> Document:
    """The strict JSON Schema of the record's document; the keys `further` follow its first."""
    first, *others = field_schemas(record).items()
    return object_schema(dict([first, *further.items(), *others]))


def object_schema(properties: Document) -> Document:
    """The strict JSON Schema of a mapping: keys without a default must be there."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [key for key, schema in properties.items() if "default" not in schema],
        "properties": properties,
    }


def _schema(field: Field) -> Document:
    schema = _of_kind(field.kind)
    if field.nullable:
        schema |= {"enum": [*schema["enum"], None]} if "enum" in schema else {"type": [schema["type"], "null"]}
    schema |= {"default": field.plain(field.default)} if field.optional else {}
    return schema | ({"description": field.note.meaning} if field.note.meaning else {})


def _of_kind(kind: Kind) -> Document:
    if kind.record is not None:
        return record_schema(kind.record)
    return {**kind.schema, **({"items": _of_kind(kind.items)} if kind.items is not None else {})}
