"""Whether plain values keep to a JSON Schema, said quickly: a yes or a no for documents of a hundred thousand rows.

It decides exactly what a validator of the draft 2020-12 decides, for the keywords that our schemas use; for a schema
with any other there is no answer. What is wrong with a value a validator has to say.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import PlannerError

Accepts = Callable[[Any], bool]
_WORDS = frozenset(
    {"$schema", "$id", "$defs", "$comment", "title", "description", "default", "format", "examples", "then", "else"}
)
_NUMBER = (int, float)


class _UnknownKeywordError(PlannerError):
    """A keyword that is not decided here."""


def acceptance(schema: Mapping[str, Any]) -> Accepts | None:
    """The question whether a value keeps to `schema`; None where the schema has a keyword that is not decided here."""
    try:
        return _Compiler(schema).all_of(schema)
    except _UnknownKeywordError:
        return None


class _Compiler:
    """Makes the questions of one schema's parts; `$ref` leads into its `$defs`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})
        self._named: dict[str, Accepts] = {}

    def all_of(self, schema: Any) -> Accepts:
        """The question of a schema: all of its keywords agree."""
        if isinstance(schema, bool):
            return lambda _: schema
        keywords = [self._keyword(name, schema) for name in schema if name not in _WORDS]
        parts = tuple(part for part in keywords if part is not None)
        return parts[0] if len(parts) == 1 else lambda value: all(part(value) for part in parts)

    def _keyword(self, name: str, schema: Mapping[str, Any]) -> Accepts | None:
        """The question of one keyword; None for those that another one asks along."""
        rule = schema[name]
        if name in _BOUNDS:
            return _bound(_BOUNDS[name], rule)
        if name in _SIZES:
            return _size(*_SIZES[name], rule)
        if name == "prefixItems" and "items" in schema:
            return None
        make = getattr(self, f"_{name.lstrip('$').lower()}", None)
        if make is None:
            raise _UnknownKeywordError(name)
        accepts: Accepts = make(rule, schema)
        return accepts

    def _ref(self, rule: str, _: Mapping[str, Any]) -> Accepts:
        name = rule.removeprefix("#/$defs/")
        if name not in self._definitions:
            raise _UnknownKeywordError(rule)
        if name not in self._named:
            self._named[name] = self._later(name)  # a definition may refer to itself
            self._named[name] = self.all_of(self._definitions[name])
        return self._named[name]

    def _later(self, name: str) -> Accepts:
        """The question of a definition that is not made yet."""

        def accepts(value: Any) -> bool:
            return self._named[name](value)

        return accepts

    def _type(self, rule: str | list[str], _: Mapping[str, Any]) -> Accepts:
        tests = [_TYPES[word] for word in ([rule] if isinstance(rule, str) else rule)]
        return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)

    def _properties(self, rule: Mapping[str, Any], _: Mapping[str, Any]) -> Accepts:
        parts = {name: self.all_of(below) for name, below in rule.items()}

        def accepts(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            return all(part(item) for name, item in value.items() if (part := parts.get(name)) is not None)

        return accepts

    def _additionalproperties(self, rule: Any, schema: Mapping[str, Any]) -> Accepts:
        if "patternProperties" in schema:
            raise _UnknownKeywordError("patternProperties")
        declared, other = frozenset(schema.get("properties", ())), self.all_of(rule)
        if rule is False:
            return lambda value: not isinstance(value, dict) or value.keys() <= declared
        return lambda value: (
            not isinstance(value, dict) or all(other(item) for name, item in value.items() if name not in declared)
        )

    def _required(self, rule: list[str], _: Mapping[str, Any]) -> Accepts:
        names = frozenset(rule)
        return lambda value: not isinstance(value, dict) or names <= value.keys()

    def _dependentrequired(self, rule: Mapping[str, list[str]], _: Mapping[str, Any]) -> Accepts:
        return lambda value: (
            not isinstance(value, dict)
            or all(value.keys() >= set(names) for name, names in rule.items() if name in value)
        )

    def _items(self, rule: Any, schema: Mapping[str, Any]) -> Accepts:
        first = tuple(self.all_of(part) for part in schema.get("prefixItems", ()))
        each, count = self.all_of(rule), len(first)
        return lambda value: (
            not isinstance(value, list)
            or (
                all(part(item) for part, item in zip(first, value, strict=False))
                and all(each(item) for item in (value[count:] if count else value))
            )
        )

    def _prefixitems(self, rule: list[Any], _: Mapping[str, Any]) -> Accepts:
        return self._items(True, {"prefixItems": rule})

    def _uniqueitems(self, rule: bool, _: Mapping[str, Any]) -> Accepts:
        def accepts(value: Any) -> bool:
            if not rule or not isinstance(value, list):
                return True
            if not all(type(item) in (int, str) for item in value):
                raise UndecidedError("values that are no texts or whole numbers")
            return len({(type(item), item) for item in value}) == len(value)

        return accepts

    def _enum(self, rule: list[Any], _: Mapping[str, Any]) -> Accepts:
        if not all(option is None or isinstance(option, bool | int | float | str) for option in rule):
            raise _UnknownKeywordError("enum")
        words = {(isinstance(option, bool), option) for option in rule}
        return lambda value: not isinstance(value, list | dict) and (isinstance(value, bool), value) in words

    def _const(self, rule: Any, schema: Mapping[str, Any]) -> Accepts:
        return self._enum([rule], schema)

    def _pattern(self, rule: str, _: Mapping[str, Any]) -> Accepts:
        search = re.compile(rule).search
        return lambda value: not isinstance(value, str) or search(value) is not None

    def _allof(self, rule: list[Any], _: Mapping[str, Any]) -> Accepts:
        parts = [self.all_of(part) for part in rule]
        return lambda value: all(part(value) for part in parts)

    def _anyof(self, rule: list[Any], _: Mapping[str, Any]) -> Accepts:
        parts = [self.all_of(part) for part in rule]
        return lambda value: any(part(value) for part in parts)

    def _oneof(self, rule: list[Any], _: Mapping[str, Any]) -> Accepts:
        parts = [self.all_of(part) for part in rule]
        return lambda value: sum(part(value) for part in parts) == 1

    def _not(self, rule: Any, _: Mapping[str, Any]) -> Accepts:
        part = self.all_of(rule)
        return lambda value: not part(value)

    def _if(self, rule: Any, schema: Mapping[str, Any]) -> Accepts:
        when, then, other = (self.all_of(part) for part in (rule, schema.get("then", True), schema.get("else", True)))
        return lambda value: then(value) if when(value) else other(value)


class UndecidedError(PlannerError):
    """A value of a kind that is not compared here."""


def keeps_to(accepts: Accepts | None, value: Any) -> bool:
    """Whether it is certain that the value keeps to the schema; False also where only a validator can tell."""
    try:
        return accepts is not None and accepts(value)
    except (UndecidedError, RecursionError):
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


_TYPES: Mapping[str, Accepts] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}
_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}
_SIZES: Mapping[str, tuple[type[Any], bool]] = {
    "minItems": (list, True),
    "maxItems": (list, False),
    "minLength": (str, True),
    "maxLength": (str, False),
    "minProperties": (dict, True),
    "maxProperties": (dict, False),
}


def _bound(holds: Callable[[float, float], bool], limit: float) -> Accepts:
    return lambda value: not _is_number(value) or holds(value, limit)


def _size(kind: type[Any], is_minimum: bool, limit: int) -> Accepts:
    if is_minimum:
        return lambda value: not isinstance(value, kind) or len(value) >= limit
    return lambda value: not isinstance(value, kind) or len(value) <= limit
