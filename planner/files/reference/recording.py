"""A section that writes down what its reader asks for: which keys there may be, and what each may hold.

The reader of a document is the one place that knows its keys, their kinds, bounds and defaults. Given samples in which
every key occurs, it tells all of them, whatever it makes of the values.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from planner.files.sections import Item, Section

Choice = TypeVar("Choice", bound=StrEnum)
_INDEX = re.compile(r"\[\d+\]")


@dataclass(slots=True, kw_only=True)
class KeyReading:
    """What readers asked of one key: `kinds` of values in their words, `default` where it may be missing (None: they
    named none), `optional` where they looked whether it is there."""

    kinds: dict[str, None] = field(default_factory=dict)
    default: object = None
    optional: bool = False


KeyLog = dict[str, dict[str, KeyReading]]
"""All readings of a document by the path of their section (items of a list as `[]`) and key, in order."""


class RecordingSection(Section):
    """Reads as a section does, and keeps a log of it."""

    def __init__(self, values: Mapping[Any, object], log: KeyLog, path: str = "") -> None:
        super().__init__(values, file="sample", path=path)
        self._log = log

    def _reading(self, key: str) -> KeyReading:
        """Of one key, a new one where it was not asked for before."""
        return self._log.setdefault(_INDEX.sub("[]", self.path), {}).setdefault(key, KeyReading())

    def _note(self, key: str, kind: str, default: object = None) -> None:
        reading = self._reading(key)
        reading.kinds[kind] = None
        if default is not None:
            reading.default, reading.optional = default, True

    def _may_be_missing(self, key: str) -> None:
        self._reading(key).optional = True

    def __contains__(self, key: str) -> bool:
        self._may_be_missing(key)
        return super().__contains__(key)

    def allow_only(self, *keys: str) -> None:
        """Note the keys that there may be, in the reader's order."""
        for key in keys:
            self._reading(key)
        super().allow_only(*keys)

    def text(self, key: str, *, default: str | None = None) -> str:
        """A text."""
        self._note(key, "a text", default)
        return super().text(key, default=default)

    def name(self, key: str, *, default: str | None = None) -> str:
        """A text that can stand in file names; it is read as a text."""
        name = super().name(key, default=default)
        self._reading(key).kinds.pop("a text", None)
        self._note(key, "a name", default)
        return name

    def integer(self, key: str, *, default: int | None = None, low: int | None = None, high: int | None = None) -> int:
        """A whole number."""
        self._note(key, "a whole number" + _limits(low, high), default)
        return super().integer(key, default=default, low=low, high=high)

    def number(
        self,
        key: str,
        *,
        default: float | None = None,
        low: float | None = None,
        high: float | None = None,
        above: float | None = None,
        below: float | None = None,
    ) -> float:
        """A number."""
        self._note(key, "a number" + _limits(low, high, above, below), default)
        return super().number(key, default=default, low=low, high=high, above=above, below=below)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        self._note(key, "true or false", default)
        return super().flag(key, default)

    def choice(self, key: str, kind: type[Choice], *, default: Choice | None = None) -> Choice:
        """A member of an enumeration."""
        self._note(key, _one_of(tuple(member.value for member in kind)), default and default.value)
        return super().choice(key, kind, default=default)

    def one_of(self, key: str, options: tuple[str, ...], *, default: str | None = None) -> str:
        """One of several texts."""
        self._note(key, _one_of(options), default)
        return super().one_of(key, options, default=default)

    def entries(self, key: str) -> tuple[object, ...]:
        """A list."""
        self._note(key, "a list")
        return super().entries(key)

    def integers(self, key: str, *, low: int, high: int) -> tuple[int, ...]:
        """A list of distinct whole numbers."""
        self._note(key, f"a list of distinct whole numbers of {low} to {high}")
        return super().integers(key, low=low, high=high)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        self._note(key, "a list of texts")
        return super().texts(key)

    def is_empty(self, key: str) -> bool:
        """Whether it is missing: so it may be."""
        self._may_be_missing(key)
        return super().is_empty(key)

    def section(self, key: str, *, optional: bool = False) -> Section:
        """The mapping under a key, which goes on noting."""
        self._note(key, "a mapping")
        self._reading(key).optional |= optional
        return RecordingSection(super().section(key, optional=optional)._values, self._log, self.key_path(key))

    def sections(self, key: str) -> tuple[Section, ...]:
        """A list of mappings, each of which goes on noting."""
        self._note(key, "a list of mappings")
        return tuple(RecordingSection(row._values, self._log, row.path) for row in super().sections(key))

    def items_of(
        self, key: str, strict: Callable[[Section], Item], quick: Callable[[Mapping[Any, object]], Item]
    ) -> tuple[Item, ...]:
        """A list of mappings, all of them read strictly: only then is it noted what they may hold."""
        del quick  # it would note nothing
        return tuple(strict(row) for row in self.sections(key))


def _one_of(options: tuple[str, ...]) -> str:
    return f"one of {', '.join(options)}"


def _limits(low: float | None, high: float | None, above: float | None = None, below: float | None = None) -> str:
    limits = (("at least", low), ("more than", above), ("at most", high), ("less than", below))
    rules = [f"{word} {_plain(limit)}" for word, limit in limits if limit is not None]
    return f" of {' and '.join(rules)}" if rules else ""


def _plain(limit: float) -> str:
    return f"{int(limit):,}" if limit == int(limit) else f"{limit:g}"
