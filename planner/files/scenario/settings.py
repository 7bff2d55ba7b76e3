"""Keys of a scenario set from outside: `inventory.H20=64`, and every value of a sweep: `inventory.H20=64..256:64`.

A key stands with those above it, parted by dots, as the reference has them; a row of a list that has names by its
name: `services.chat.demand=40`. A value is YAML; null leaves the key out.
Whether there is such a key, and which values it takes, is what the reader of scenarios says: it reads the document
that comes of it as strictly as any other.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from planner.errors import InputError
from planner.files.disk.strict_yaml import parse_yaml

_KEY = re.compile(r"[A-Za-z0-9_][^=\s]*")
_RANGE = re.compile(r"(?P<first>[-+.0-9eE]+?)\.\.(?P<last>[-+.0-9eE]+):(?P<step>[-+.0-9eE]+)")
MOST_VALUES = 1000
_LARGEST = Decimal(10) ** 15


@dataclass(frozen=True, slots=True)
class Setting:
    """`key` of a scenario, with those above it, and the value that it is set to, as plain data."""

    key: str
    value: object

    @property
    def label(self) -> str:
        """The value in few words."""
        return _flow(self.value)

    @property
    def text(self) -> str:
        """As it is typed: `inventory.H20=64`."""
        return f"{self.key}={self.label}"


@dataclass(frozen=True, slots=True)
class SweptKey:
    """A key and the values that it is to have, in the order in which they were typed."""

    key: str
    values: tuple[object, ...]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """A setting a value."""
        return tuple(Setting(self.key, value) for value in self.values)


def read_setting(text: str) -> Setting:
    """`KEY=VALUE` as a setting; all after the first `=` is the value. Raises InputError."""
    key, typed = _parts(text)
    return Setting(key, parse_yaml(f"value: {typed}", file=f"--set {key}").plain()["value"])


def read_swept_key(text: str) -> SweptKey:
    """`KEY=VALUE,VALUE…`, ranges `a..b:step` among the values (b is reached where the steps meet it).

    Raises InputError where it is none, where a value comes twice, and for more than 1,000 values.
    """
    key, typed = _parts(text)
    items = parse_yaml(f"values: [{typed}]", file=f"--set {key}").plain()["values"]
    assert isinstance(items, list)
    return swept_key(key, (value for item in items for value in stretched(key, item)))


def swept_key(key: str, listed: Iterable[object]) -> SweptKey:
    """A key with these values. Raises InputError as `read_swept_key` does."""
    values = tuple(islice(listed, MOST_VALUES + 1))
    if len(values) > MOST_VALUES:
        raise InputError(f"--set {key}: must have at most {MOST_VALUES} values.", hint="Take larger steps.")
    if not values:
        raise InputError(f"--set {key}: must have a value, got none.", hint=f"Write --set {key}=VALUE,VALUE.")
    texts = [_flow(value) for value in values]
    twice = [label for label in texts if texts.count(label) > 1]
    if twice:
        raise InputError(f"--set {key}: must have each value once, got {twice[0]} twice.", hint="Leave one out.")
    return SweptKey(key, values)


def _parts(text: str) -> tuple[str, str]:
    key, equals, typed = text.partition("=")
    if not equals or not _KEY.fullmatch(key) or not typed.strip() or not text.isprintable():
        raise InputError(
            f"--set: must be KEY=VALUE, got {text!r:.80}.", hint="Write --set inventory.H20=64 or --set slo.tpot_ms=40."
        )
    return key, typed


def is_key(text: str) -> bool:
    """Whether a scenario may have such a key."""
    return bool(_KEY.fullmatch(text))


def stretched(key: str, item: object) -> list[object]:
    """The values that one typed value of a key stands for: itself, or those of a range `a..b:step`. Raises InputError
    where it is a range that leads nowhere."""
    match = _RANGE.fullmatch(item) if isinstance(item, str) else None
    if match is None:
        if isinstance(item, str) and re.fullmatch(r"[-+.\d]+\.\.[-+.\d]+", item):
            raise InputError(f"--set {key}: a range must have a step, got {item}.", hint=f"Write {item}:STEP.")
        return [item]
    first, last, step = (_number(key, match[name]) for name in ("first", "last", "step"))
    steps = (last - first) / step if step else Decimal(-1)
    if not 0 <= steps < MOST_VALUES:
        raise InputError(
            f"--set {key}: a range must lead from its first value to its last in 1 to {MOST_VALUES} steps, got {item}.",
            hint="Write first..last:step, such as 64..256:64 or 80..40:-20.",
        )
    exact = [first + n * step for n in range(int(steps) + 1)]
    are_integers = all(re.fullmatch(r"[-+]?\d+", match[name]) for name in ("first", "last", "step"))
    return [int(value) if are_integers else float(value) for value in exact]


def _number(key: str, text: str) -> Decimal:
    """Exact, so that no step is missed by a rounding error."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or abs(number) > _LARGEST:
        raise InputError(f"--set {key}: a range must be of numbers, got {text!r}.", hint="Write 64..256:64.")
    return number


def set_over(lower: Iterable[Setting], upper: Iterable[Setting]) -> tuple[Setting, ...]:
    """Settings with others over them, which take the place of those of the same key and of keys below it."""
    above = tuple(upper)
    return (*(old for old in lower if not any(_below(old.key, new.key) for new in above)), *above)


def with_settings(document: Mapping[str, object], settings: Iterable[Setting], origin: str) -> dict[str, object]:
    """The document with its keys set; `origin` names it in errors. Mappings above a key are made where there are none.

    Raises InputError where something else than a mapping stands above a key, or a key is set twice.
    """
    result, keys_set = dict(document), set[str]()
    for setting in settings:
        above = [key for key in keys_set if _below(setting.key, key) or _below(key, setting.key)]
        if above:
            raise InputError(f"{origin}: {setting.key} is set twice.", hint="Set each key once.")
        keys_set.add(setting.key)
        _set(result, setting.key.split("."), setting, origin)
    return result


def _below(key: str, other: str) -> bool:
    """Whether a key is another, or stands below it."""
    return key == other or key.startswith(f"{other}.")


def _set(values: dict[str, object], path: list[str], setting: Setting, origin: str) -> None:
    first, *below = path
    if not first:
        raise InputError(f"{origin}: {setting.key} must be names parted by single dots.", hint="Write inventory.H20.")
    if not below:
        if setting.value is None:
            values.pop(first, None)
        else:
            values[first] = setting.value
        return
    inner = values.get(first, {})
    if len(below) > 1 and (names := _names(inner)):
        values[first] = _set_of_row(inner, names, below, setting, origin)
        return
    if not isinstance(inner, Mapping):
        above = setting.key[: len(setting.key) - len(".".join(below)) - 1]
        raise InputError(
            f"{origin}: {setting.key} cannot be set: {above} is {inner!r:.40}, no mapping.",
            hint=f"Set {above} itself.",
        )
    values[first] = copied = dict(inner)
    _set(copied, below, setting, origin)


def _names(rows: object) -> list[object]:
    """Of a list whose rows have names, such as services; empty for anything else."""
    rows = rows if isinstance(rows, list) else []
    return [row["name"] for row in rows] if all(isinstance(row, Mapping) and "name" in row for row in rows) else []


def _set_of_row(rows: Any, names: list[object], path: list[str], setting: Setting, origin: str) -> list[object]:
    """The list with a key of one of its rows set, which is known by its name: `services.chat.demand`."""
    name, *below = path
    if name not in names:
        listed = ", ".join(map(str, names))
        raise InputError(f"{origin}: {setting.key} cannot be set: there is no {name} among {listed}.", hint="Name one.")
    row = dict(rows[names.index(name)])
    _set(row, below, setting, origin)
    return [row if place == names.index(name) else other for place, other in enumerate(rows)]


def _flow(value: object) -> str:
    """A value as YAML takes it back, on one line."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _flow_text(value) if isinstance(value, str) else str(value)


def _flow_text(text: str) -> str:
    """A text, in quotes where YAML would take it for something else."""
    try:
        plain = parse_yaml(f"values: [{text}]", file="text").plain()["values"] == [text]
    except InputError:
        plain = False
    return text if plain else json.dumps(text)
