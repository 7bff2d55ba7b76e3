"""A mapping of a document with its place.

Typed reading whose errors name the file, the key, what must hold and what came.
"""

import difflib
import math
import numbers
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeVar

from planner.errors import ABSENT, FaultyKeyError, InputError, PlannerError
from planner.files.disk.values import bounds_text, shown, within

MOST_TOKENS = 100_000_000  # of one prompt or answer: beyond any model, so surely a mistake
MOST_WHOLE = 10**15
"""Of any count: beyond, neither 64 bits nor a float's digits hold what is worked out from it."""

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_NAME_RULE = "a name of at most 63 letters, digits, '.', '_' or '-' that begins with a letter or digit"

STAND_IN_TEXT = "x"

Excused = Mapping[str, Mapping[str, object]]
"""Path of a section -> key, or place in a list as `[3]` -> what stands in for its faulty value."""

Choice = TypeVar("Choice", bound=StrEnum)
Item = TypeVar("Item")


class UnusualRowError(PlannerError):
    """A row that has to be read strictly."""


class Section:
    """Reads one mapping. A `default` of None means that the key must be there."""

    def __init__(
        self, values: Mapping[Any, object], *, file: str, path: str = "", excused: Excused | None = None, text: str = ""
    ) -> None:
        """`excused`: what stands in for values that are known to be faulty; `text`: of the document, for its lines."""
        self.file = file
        self.path = path
        self.document_text = text
        self._excused = excused
        self._values: dict[str, object] = {}
        for key, value in values.items():
            if not isinstance(key, str):
                above, _, last = path.rpartition(".")
                raise FaultyKeyError(
                    f"{self._place}: keys must be text, got {key!r} ({type(key).__name__}).",
                    hint="Quote the key.",
                    section_path=above,
                    key=last,
                    by_itself=True,
                )
            self._values[key] = value
        for key, stand_in in (excused or {}).get(path, {}).items():
            if stand_in is ABSENT:
                self._values.pop(key, None)
            elif not key.startswith("["):
                self._values[key] = stand_in

    def excusing(self, excused: Excused) -> "Section":
        """The same section with other values where `excused` has some."""
        return Section(self._values, file=self.file, path=self.path, excused=excused, text=self.document_text)

    @property
    def _place(self) -> str:
        return f"{self.file}: {self.path}" if self.path else self.file

    def key_path(self, key: str) -> str:
        """The key with the keys above it: `search.iterations`."""
        return f"{self.path}.{key}" if self.path else key

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def allow_only(self, *keys: str) -> None:
        """Refuse every key but these, naming the nearest."""
        for key in self._values:
            if key not in keys:
                raise self.refusal(
                    key, "is not a known key", hint=nearest_hint(key, keys, noun="keys here"), unknown=True
                )

    def fault(self, key: str, rule: str, *, hint: str = "") -> FaultyKeyError:
        """The error for `key`: where, which key, what must hold, what came."""
        return self._refused(key, rule, hint=hint)

    def refusal(
        self, key: str, text: str, *, hint: str, by_itself: bool = True, unknown: bool = False
    ) -> FaultyKeyError:
        """The error for `key` in words of one's own; `by_itself`: it is wrong whatever else the document says."""
        return FaultyKeyError(
            f"{self.file}: {self.key_path(key)} {text}.",
            hint=hint,
            section_path=self.path,
            key=key,
            by_itself=by_itself,
            unknown=unknown,
        )

    def _refused(
        self, key: str, rule: str, *, hint: str = "", by_itself: bool = False, stand_in: object = ABSENT
    ) -> FaultyKeyError:
        present = key in self._values
        answer = f", got {shown(self._values[key])}" if present else "; it is missing"
        return FaultyKeyError(
            f"{self.file}: {self.key_path(key)} must be {rule}{answer}.",
            hint=hint or ("Correct the value." if present else "Add the key."),
            section_path=self.path,
            key=key,
            by_itself=by_itself,
            stand_in=stand_in,
            missing=not present,
        )

    def _wrong(self, key: str, rule: str, default: object, stand_in: object, *, hint: str = "") -> FaultyKeyError:
        """The error of a value that no reader would take; `stand_in`: one that it takes where there is no `default`."""
        return self._refused(key, rule, hint=hint, by_itself=True, stand_in=stand_in if default is None else ABSENT)

    def text(self, key: str, *, default: str | None = None) -> str:
        """A text."""
        if key not in self._values and default is not None:
            return default
        value = self._values.get(key)
        if not isinstance(value, str):
            hint = "Add it." if key not in self._values else "Put it in quotes."
            raise self._wrong(key, "a text", default, STAND_IN_TEXT, hint=hint)
        if not is_unicode(value):
            rule = "Unicode text without halves of surrogate pairs"
            raise self._wrong(key, rule, default, STAND_IN_TEXT, hint="Write the character out.")
        return str(value)

    def printable(self, key: str, *, empty: bool = False) -> str:
        """A name as it may stand in tables and errors."""
        value = self.text(key)
        if not (is_printable(value) or (empty and not value)):
            rule = "a name of at most 253 printable characters without spaces at its ends"
            raise self._wrong(key, rule, None, STAND_IN_TEXT)
        return value

    def name(self, key: str, *, default: str | None = None) -> str:
        """A text that can stand in file names, labels and manifests."""
        value = self.text(key, default=default)
        if not NAME_PATTERN.fullmatch(value):
            raise self._wrong(key, _NAME_RULE, default, STAND_IN_TEXT, hint="Rename it.")
        return value

    def integer(self, key: str, *, default: int | None = None, low: int | None = None, high: int | None = None) -> int:
        """A whole number in low..high, and at most 10^15 either way where there is no bound."""
        if key not in self._values and default is not None:
            return default
        value = self._values.get(key)

        def refusal() -> InputError:
            return self._wrong(key, "a whole number" + bounds_text(low, high), default, within(low, high))

        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise refusal()
        number = int(value)
        if abs(number) > MOST_WHOLE and (low is None or high is None):
            rule = f"a whole number of at most {MOST_WHOLE:.0e} either way"
            raise self._wrong(key, rule, default, within(low, high))
        if (low is not None and number < low) or (high is not None and number > high):
            raise refusal()
        return number

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
        """A finite number; `low` and `high` may be reached, `above` and `below` may not."""
        if key not in self._values and default is not None:
            return default
        value = self._values.get(key)

        def refusal() -> InputError:
            rule = "a number" + bounds_text(low, high, above, below)
            return self._wrong(key, rule, default, within(low, high, above, below))

        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise refusal()
        try:
            number = float(value)
        except OverflowError:
            raise refusal() from None
        if not math.isfinite(number):
            raise self._wrong(key, "finite", default, within(low, high, above, below))
        if (low is not None and number < low) or (high is not None and number > high):
            raise refusal()
        if (above is not None and number <= above) or (below is not None and number >= below):
            raise refusal()
        return number

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        if key not in self._values and default is not None:
            return default
        value = self._values.get(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", default, stand_in=False)
        return value

    def choice(self, key: str, kind: type[Choice], *, default: Choice | None = None) -> Choice:
        """A member of an enumeration, by its value."""
        if key not in self._values and default is not None:
            return default
        return kind(self.one_of(key, tuple(member.value for member in kind)))

    def one_of(self, key: str, options: tuple[str, ...], *, default: str | None = None) -> str:
        """One of the texts `options`."""
        if key not in self._values and default is not None:
            return default
        value = self._values.get(key)
        if not isinstance(value, str) or str(value) not in options:
            hint = nearest_hint(str(value), options, noun="values")
            raise self._wrong(key, f"one of {', '.join(options)}", default, options[0], hint=hint)
        return str(value)

    def holds_section(self, key: str) -> bool:
        """Whether the value of `key` is a mapping."""
        return isinstance(self._values.get(key), Mapping)

    def holds_number(self, key: str) -> bool:
        """Whether the value of `key` is a number (a boolean is none)."""
        value = self._values.get(key)
        return isinstance(value, numbers.Real) and not isinstance(value, bool)

    def holds_text(self, key: str) -> bool:
        """Whether the value of `key` is a text."""
        return isinstance(self._values.get(key), str)

    def holds_list(self, key: str) -> bool:
        """Whether the value of `key` is a list."""
        return isinstance(self._values.get(key), list | tuple)

    def entries(self, key: str) -> tuple[object, ...]:
        """The items of a list, each as it is."""
        value = self._values.get(key)
        if not isinstance(value, list | tuple):
            raise self._wrong(key, "a list", None, [])
        return tuple(value)

    def integers(self, key: str, *, low: int, high: int) -> tuple[int, ...]:
        """A list of distinct whole numbers in low..high, ascending."""
        value = self._values.get(key)
        rule = f"a list of distinct whole numbers of {low} to {high}"
        if not isinstance(value, list | tuple) or not value:
            raise self._wrong(key, rule, None, [low])
        for item in value:
            if isinstance(item, bool) or not isinstance(item, numbers.Integral) or not low <= int(item) <= high:
                raise self._wrong(key, rule, None, [low])
        distinct = {int(item) for item in value}
        if len(distinct) < len(value):
            raise self._wrong(key, rule, None, [low])
        return tuple(sorted(distinct))

    def is_false(self, key: str) -> bool:
        """Whether the value of `key` is the boolean false."""
        return self._values.get(key) is False

    def is_empty(self, key: str) -> bool:
        """Whether `key` is missing or null."""
        return self._values.get(key) is None

    def is_infinite(self, key: str) -> bool:
        """Whether the value of `key` is infinity, which YAML and JSON may hold."""
        value = self._values.get(key)
        return isinstance(value, float) and math.isinf(value)

    def plain(self) -> dict[str, object]:
        """The mapping as it is, for a schema."""
        return dict(self._values)

    def section(self, key: str, *, optional: bool = False) -> "Section":
        """The mapping under `key`; an empty one where it is `optional` and missing."""
        value = self._values.get(key)
        if value is None and key not in self._values and optional:
            value = {}
        if not isinstance(value, Mapping):
            rule, hint = "a mapping of keys to values", "Write its keys indented below it."
            raise self._wrong(key, rule, True if optional else None, {}, hint=hint)
        return Section(value, file=self.file, path=self.key_path(key), excused=self._excused)

    def _rows(self, key: str) -> tuple[Mapping[Any, object], ...]:
        """A list of mappings, each as it is."""
        value = self._values.get(key)
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            raise self._wrong(key, "a list of mappings", None, [])
        return tuple(value)

    def _row(self, key: str, index: int, values: Mapping[Any, object]) -> "Section":
        """One of these mappings with its place."""
        return Section(values, file=self.file, path=f"{self.key_path(key)}[{index}]", excused=self._excused)

    def _excused_rows(self, key: str) -> Collection[str]:
        """Places of rows that are faulty in a way that nothing stands in for."""
        return (self._excused or {}).get(self.key_path(key), ())

    def sections(self, key: str) -> "tuple[Section, ...]":
        """A list of mappings."""
        faulty = self._excused_rows(key)
        rows = enumerate(self._rows(key))
        return tuple(self._row(key, index, item) for index, item in rows if f"[{index}]" not in faulty)

    def items_of(
        self, key: str, strict: "Callable[[Section], Item]", quick: Callable[[Mapping[Any, object]], Item]
    ) -> tuple[Item, ...]:
        """A list of mappings read one by one: `quick` takes those that need no second look, and raises UnusualRowError
        for the others, which `strict` reads."""
        items: list[Item] = []
        faulty, path = self._excused_rows(key), self.key_path(key)
        for index, row in enumerate(self._rows(key)):
            if self._excused and (f"[{index}]" in faulty or f"{path}[{index}]" in self._excused):
                items += [] if f"[{index}]" in faulty else [strict(self._row(key, index, row))]
                continue
            try:
                items.append(quick(row))
            except UnusualRowError:
                items.append(strict(self._row(key, index, row)))
        return tuple(items)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._values.get(key)
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) and is_unicode(item) for item in value):
            raise self._wrong(key, "a list of texts", None, [])
        return tuple(value)


def is_unicode(text: str) -> bool:
    """Whether the text can be written: JSON lets halves of surrogate pairs through, no file takes them."""
    return not _SURROGATES.search(text)


def is_printable(text: str) -> bool:
    """Whether the text can stand for a name in tables and errors."""
    return 0 < len(text) <= 253 and text.isprintable() and text == text.strip()


def top_level(document: object, file: str, text: str = "") -> Section:
    """A document as a section; InputError where it is no mapping. `text`: what it was read from."""
    if not isinstance(document, Mapping):
        shown_type = "an empty file" if document is None else f"a {type(document).__name__}"
        raise InputError(
            f"{file}: the top level must be a mapping of keys to values, got {shown_type}.",
            hint="Begin with `name: ...`, one key a line.",
        )
    return Section(document, file=file, text=text)


def nearest_hint(word: str, candidates: Collection[str], *, noun: str) -> str:
    """`Did you mean ...? The ... are ...`, for a word that is not among the known ones."""
    listed, more = ", ".join([*candidates][:40]), f" and {len(candidates) - 40} more" if len(candidates) > 40 else ""
    ask = f"Did you mean {' or '.join(near)}? " if (near := _nearest(word, candidates)) else ""
    return f"{ask}The {noun} are {listed}{more}."


def _nearest(word: str, candidates: Collection[str], limit: int = 3) -> list[str]:
    """At most so many: those that have the word in them (DGX-B200 for B200) or go on from it, then alike ones."""
    folded, begun = {name.casefold(): name for name in candidates}, word.casefold()
    holding = [folded[name] for name in folded if begun in re.split(r"[-_. ]", name) or name.startswith(f"{begun}-")]
    alike = difflib.get_close_matches(word, candidates, n=limit, cutoff=0.5) or [
        folded[name] for name in difflib.get_close_matches(word.casefold(), folded, n=limit, cutoff=0.5)
    ]
    return list(dict.fromkeys([*holding, *alike]))[:limit]


@contextmanager
def referred_from(document: Section, key: str) -> Iterator[None]:
    """An error in the file that `key` refers to says who refers to it."""
    try:
        yield
    except InputError as error:
        between = "\n" if "\n" in error.message else " "
        raise FaultyKeyError(
            f"{document.file}: {document.key_path(key)}:{between}{error.message}",
            hint=error.hint,
            section_path=document.path,
            key=key,
            by_itself=True,
        ) from None
