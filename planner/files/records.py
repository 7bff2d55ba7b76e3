"""One codec for our own documents: records read and written by what their fields' annotations say (`domain.keys`).

`read_record` reads strictly, with the errors of `Section`; `load_record` reads what a schema has checked already;
`record_document` is the way back. What a field has of its own is handed over under its name; rules across keys stay
with the callers. `record_schema` describes the same documents for programs.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from planner.domain import IslandClass, Layout
from planner.domain.keys import FILE, INTERNAL, PRINTABLE, RANGES, Bounds, Items, Key, Mapped, OneOf
from planner.files.disk.values import ranges_text, read_ranges
from planner.files.sections import MOST_WHOLE, Section

REQUIRED: Any = dataclasses.MISSING
"""The default of a key that must be given."""

Document = dict[str, Any]
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How values of one type stand in documents; `schema` but for what `items` (of a list) or `record` (of a mapping of
    its own) say."""

    schema: Document
    read: Callable[[Section, str], Any]
    load: Callable[[Any], Any] = lambda value: value
    plain: Callable[[Any], Any] = lambda value: value
    items: "Kind | None" = None
    record: type | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a record. `key` is empty where no document has it; `default` may be REQUIRED."""

    name: str
    key: str
    note: Key
    bounds: Bounds
    kind: Kind
    nullable: bool
    default: Any

    @property
    def optional(self) -> bool:
        """Whether a document that keeps to the schema may lack it."""
        return self.note.sparse or self.note.added

    def read(self, section: Section, needed: Collection[str] = ()) -> Any:
        """Its value in a section; InputError where it cannot have that value, or is missing though it is needed."""
        if self.key not in section and self.default is not REQUIRED and self.key not in needed:
            return self.default
        if self.nullable and not self.note.sparse and section.is_empty(self.key):
            return None
        return self.kind.read(section, self.key)

    def load(self, row: Mapping[str, Any]) -> Any:
        """Its value in a mapping that keeps to the schema."""
        if self.optional and self.key not in row:
            return self.default
        value = row[self.key]
        return None if value is None else self.kind.load(value)

    def plain(self, value: Any) -> Any:
        """A value of it as it is written."""
        return None if value is None else self.kind.plain(value)


def record_keys(record: type) -> tuple[str, ...]:
    """The keys of the record's document, in its order."""
    return _keys_of(record)


@cache
def _keys_of(record: Any) -> tuple[str, ...]:
    return tuple(field.key for field in fields_of(record) if field.key)


def read_record(
    record: type[Record], section: Section, needed: Collection[str] = (), **by_hand: Callable[[Section], object]
) -> Record:
    """The record that a section holds; fields named in `by_hand` are read by what is given there, in their turn.

    InputError for a key that the record does not have, a value that a field cannot have, or a key that is missing
    though it has no default or is `needed`.
    """
    fields = fields_of(record)
    section.allow_only(*record_keys(record))
    values = {
        field.name: by_hand[field.name](section) if field.name in by_hand else field.read(section, needed)
        for field in fields
        if field.key or field.name in by_hand
    }
    return record(**values)


def load_record(record: type[Record], row: Mapping[str, Any], **overrides: object) -> Record:
    """The record of a mapping that keeps to its schema; fields named in `overrides` are taken from there."""
    values = {
        field.name: overrides[field.name] if field.name in overrides else field.load(row)
        for field in fields_of(record)
        if field.key or field.name in overrides
    }
    return record(**values)


def record_document(record: Any, **overrides: object) -> Document:
    """The record as plain values in the order of its fields; keys of fields named in `overrides` hold what is given."""
    document: Document = {}
    for field in fields_of(type(record)):
        value = getattr(record, field.name)
        if field.name in overrides:
            document[field.key] = overrides[field.name]
        elif field.key and not (field.note.sparse and value == field.default):
            document[field.key] = field.plain(value)
    return document


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


def fields_of(record: Any) -> tuple[Field, ...]:
    """The fields of a record's type, those that are no keys among them."""
    return _fields_of(record)


@cache
def _fields_of(record: Any) -> tuple[Field, ...]:
    hints = get_type_hints(record, include_extras=True)
    return tuple(_field(field, hints[field.name]) for field in dataclasses.fields(record))


def _field(field: "dataclasses.Field[Any]", hint: Any) -> Field:
    notes = getattr(hint, "__metadata__", ())
    note: Key = _note(notes, Key)
    kind, nullable = _kind_or_null(hint, notes)
    return Field(
        name=field.name,
        key="" if INTERNAL in notes else note.name or field.name,
        note=note,
        bounds=_note(notes, Bounds),
        kind=kind,
        nullable=nullable,
        default=field.default if field.default_factory is dataclasses.MISSING else field.default_factory(),
    )


def _note(notes: tuple[Any, ...], kind: type[Record]) -> Record:
    """The annotation of that kind, or the empty one."""
    return next((note for note in notes if isinstance(note, kind)), kind())


def _kind_or_null(hint: Any, notes: tuple[Any, ...]) -> tuple[Kind, bool]:
    if get_origin(hint) is Annotated:
        return _kind_or_null(get_args(hint)[0], notes)
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if get_origin(options[0]) is Annotated:
        return _kind_or_null(options[0], notes + options[0].__metadata__)[0], True
    return _kind(options[0], notes), type(None) in options


def _kind(hint: Any, notes: tuple[Any, ...]) -> Kind:
    marked = [_MARKED[note] for note in notes if note in _MARKED]
    if marked:
        return marked[0]
    if get_origin(hint) is tuple:
        return _kind_of_tuple(get_args(hint), notes)
    words = next((note.words for note in notes if isinstance(note, OneOf)), ())
    if words:
        return Kind(
            schema={"enum": list(words)},
            read=lambda section, key: section.one_of(key, words),
        )
    if hint in (int, float):
        return _number(hint, _note(notes, Bounds))
    if hint in _PLAIN:
        return _PLAIN[hint]
    return _word(hint) if isinstance(hint, type) and issubclass(hint, StrEnum) else _nested(hint)


def _number(hint: type, bounds: Bounds) -> Kind:
    limits = {
        "minimum": bounds.low,
        "maximum": bounds.high,
        "exclusiveMinimum": bounds.above,
        "exclusiveMaximum": bounds.below,
    }
    range_schema = {name: limit for name, limit in limits.items() if limit is not None}
    if hint is int:
        low, high = (None if limit is None else int(limit) for limit in (bounds.low, bounds.high))
        read: Callable[[Section, str], Any] = lambda section, key: section.integer(key, low=low, high=high)  # noqa: E731
        return Kind(schema={"type": "integer", **range_schema}, read=read)
    ends = dataclasses.asdict(bounds)
    return Kind(
        schema={"type": "number", **range_schema},
        read=lambda section, key: section.number(key, **ends),
    )


def _word(kind: type[StrEnum]) -> Kind:
    values = [member.value for member in kind]
    return Kind(
        schema={"enum": values},
        read=lambda section, key: section.choice(key, kind),
        load=kind,
        plain=lambda member: member.value,
    )


def _nested(record: type) -> Kind:
    return Kind(
        schema={},
        read=lambda section, key: read_record(record, section.section(key)),
        load=partial(load_record, record),
        plain=record_document,
        record=record,
    )


def _kind_of_tuple(hints: tuple[Any, ...], notes: tuple[Any, ...]) -> Kind:
    if RANGES in notes:
        return _ranges(int(_note(notes, Bounds).high or MOST_WHOLE))
    if hints[-1] is not Ellipsis:
        return _row([_kind(hint, notes) for hint in hints])
    mapped = next((note for note in notes if isinstance(note, Mapped)), None)
    if mapped is not None:
        return _mapping(_kind(get_args(hints[0])[1], notes), ascending=mapped.ascending)
    return _list(_kind(hints[0], notes), _note(notes, Items))


def _list(item: Kind, items: Items) -> Kind:
    limits: Document = {"uniqueItems": True} if items.distinct else {}
    limits |= {"minItems": items.least} if items.least else {}

    def read(section: Section, key: str) -> tuple[Any, ...]:
        if item.record is not None:
            return tuple(read_record(item.record, row) for row in section.sections(key))
        return section.texts(key)

    return Kind(
        schema={"type": "array", **limits},
        read=read,
        load=lambda rows: tuple(item.load(row) for row in rows),
        plain=lambda values: [item.plain(value) for value in values],
        items=item,
    )


def _row(cells: list[Kind]) -> Kind:
    """Values of several kinds, as a list."""
    schemas = [cell.schema for cell in cells]
    alike = all(schema == schemas[0] for schema in schemas)
    size = {"minItems": len(cells), "maxItems": len(cells)}
    return Kind(
        schema={"type": "array", **({"items": schemas[0]} if alike else {"prefixItems": schemas}), **size},
        read=_unread,
        load=lambda row: tuple(cell.load(value) for cell, value in zip(cells, row, strict=True)),
        plain=lambda row: [cell.plain(value) for cell, value in zip(cells, row, strict=True)],
    )


def _mapping(value: Kind, *, ascending: bool) -> Kind:
    def load(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        return tuple(sorted(row.items()) if ascending else row.items())

    def read(section: Section, key: str) -> tuple[tuple[str, Any], ...]:
        below = section.section(key)
        return tuple((name, value.read(below, name)) for name in (sorted(below) if ascending else below))

    return Kind(
        schema={"type": "object", "additionalProperties": value.schema},
        read=read,
        load=load,
        plain=dict,
    )


def _ranges(highest: int) -> Kind:
    return Kind(
        schema={"type": "string"},
        read=_unread,
        load=lambda text: read_ranges(text, highest),
        plain=ranges_text,
    )


def _unread(section: Section, key: str) -> Any:
    raise TypeError(f"{section.key_path(key)} has no strict reader: hand one to read_record")


NAME = Kind(schema={"type": "string"}, read=lambda section, key: section.printable(key))
_FILE = Kind(schema={}, read=_unread)
_ISLAND = Kind(
    schema={"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2},
    read=_unread,
    load=lambda row: IslandClass(gpu=row[0], size=row[1]),
    plain=lambda island: [island.gpu, island.size],
)
_COUNTED = [{"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}]
_LAYOUT = Kind(
    schema={"type": "array", "items": {"type": "array", "prefixItems": _COUNTED, "minItems": 3, "maxItems": 3}},
    read=_unread,
    load=lambda rows: Layout(counts=tuple((IslandClass(gpu=gpu, size=size), count) for gpu, size, count in rows)),
    plain=lambda layout: [[island.gpu, island.size, count] for island, count in layout.counts],
)
_MARKED = {FILE: _FILE, PRINTABLE: NAME}
_PLAIN = {
    bool: Kind(schema={"type": "boolean"}, read=lambda section, key: section.flag(key)),
    str: Kind(schema={"type": "string"}, read=lambda section, key: section.text(key)),
    IslandClass: _ISLAND,
    Layout: _LAYOUT,
}
