"""What the fields of a record may hold, and what they mean: annotations that its documents are read, written and
described by.

    work_limit: Annotated[float, Bounds(above=0), Key("of one solve")] = 20.0

Every field of such a record is a key of its document, under its own name, unless a `Key` says otherwise or it is
`INTERNAL`. One without a default must be given.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of a number, or of each in a list: `low` and `high` may be reached, `above` and `below` may not."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """What a key means, in a phrase. `unit` where the name does not tell it; `name` where it is not the field's.

    A `sparse` key is left out where it has its default; of a nullable one null stands for nothing, and is refused. An
    `added` one is missing from documents of before it.
    """

    meaning: str = ""
    unit: str = ""
    name: str = ""
    sparse: bool = False
    added: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """The texts that a field may be."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Of a list: how many items at `least`, and whether they are `distinct`."""

    least: int = 0
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Pairs that stand as a mapping in documents; read back `ascending`, or in its order."""

    ascending: bool = False


@dataclass(frozen=True, slots=True)
class _Mark:
    word: str


INTERNAL: Final = _Mark("internal")
"""A field that is no key: it follows from others, or comes from elsewhere."""

FILE: Final = _Mark("file")
"""What a file holds; documents name the file, or have it in full."""

PRINTABLE: Final = _Mark("printable")
"""A name as it may stand in tables and errors."""

RANGES: Final = _Mark("ranges")
"""Ids that stand as ranges in documents: 0-7,16."""
