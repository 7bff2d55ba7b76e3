"""The flags that engines' own parsers know, and words held against them as argparse would read them.

The tables in `flags/` are made by tests/export/make_flag_tables.py from the parsers of vLLM, SGLang and ai-dynamo (all
Apache-2.0); each names its version and source.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from types import MappingProxyType

_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
# (flexible, plain): both engines know suffixes, and not the same
_SIZES = MappingProxyType(
    {
        True: re.compile(r"[+-]?[0-9]+|[0-9]+(\.[0-9]+)?[kmgt]|[0-9]+[KMGT]"),
        False: re.compile(r"[+-]?[0-9]+|[0-9]+(\.[0-9]+)?[kMGT]|[0-9]+[KMGT]i"),
    }
)
_NEGATIVE = re.compile(r"-[0-9]+|-[0-9]*\.[0-9]+")
_LEVEL = re.compile(r"-O.*")
_LONGEST_NAME = 64
_EXPANDED = "$"  # what Kubernetes or a shell puts in place of it is not known here
_TYPES = {
    "whole": "a whole number",
    "size": "a whole number, or one as 8k",
    "number": "a number",
    "json": "JSON",
    "object": "JSON of an object",
}

Breach = tuple[str, str]
"""What must hold and what came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag by all its names. `values`: 0, 1, ?, + or *, as argparse counts them; `type`: text, whole, size, number,
    json or object; `words`: texts that it takes beside its type; `choices`: empty where it takes any."""

    names: tuple[str, ...]
    values: str
    type: str
    choices: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTable:
    """The flags of one version of a program by name. `flexible`: vLLM's parser, which takes underscores for hyphens,
    --name.key for keys of an object and -O1; `exact`: names that cannot be cut short."""

    program: str
    version: str
    source: str
    flexible: bool
    exact: frozenset[str]
    flags: Mapping[str, Flag]

    def matches(self, name: str) -> tuple[Flag, ...]:
        """What `name` may be read as: the flag itself, or those that it is cut short from."""
        if name in self.flags:
            return (self.flags[name],)
        longer = [flag for flag in self.flags if flag.startswith(name) and flag not in self.exact and name != "--"]
        return tuple(dict.fromkeys(self.flags[flag] for flag in longer))


@cache
def flag_table(program: str) -> FlagTable:
    """The table of vllm, sglang, dynamo.vllm or dynamo.sglang."""
    text = resources.files("planner.export").joinpath("flags", f"{program}.json").read_text(encoding="utf-8")
    table = json.loads(text)
    rows = [
        Flag(names=tuple(names), values=values, type=kind, choices=tuple(choices), words=tuple(words))
        for names, values, kind, choices, words in table["flags"]
    ]
    return FlagTable(
        program=table["program"],
        version=table["version"],
        source=table["source"],
        flexible=table["dialect"] == "flexible",
        exact=frozenset(table["exact"]),
        flags={name: row for row in rows for name in row.names},
    )


def word_faults(words: Sequence[str], table: FlagTable, *, positional: int = 0) -> Iterator[Breach]:
    """What the program would not take of `words`, those behind its name: unknown flags, values that are missing, of
    another type or none of the choices, and more than so many words without a flag."""
    at, loose = 0, 0
    while at < len(words):
        word = words[at]
        if not _is_flag(word):
            loose += 1
            if loose > positional:
                yield f"{table.program} {table.version} must be given flags and their values alone", word
            at += 1
            continue
        values = _values_behind(words, at)
        count, breach = _read(word, values, table)
        if breach:
            yield breach
        at += 1 + count


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NEGATIVE.fullmatch(word)


def _values_behind(words: Sequence[str], at: int) -> tuple[str, ...]:
    end = next((i for i in range(at + 1, len(words)) if _is_flag(words[i])), len(words))
    return tuple(words[at + 1 : end])


def _read(word: str, behind: tuple[str, ...], table: FlagTable) -> tuple[int, Breach | None]:
    """How many of the words behind the flag are its values, and what is wrong with it."""
    if table.flexible and _LEVEL.fullmatch(word):
        return (1 if word == "-O" else 0), None
    name, equals, value = word.partition("=")
    plain, _, key = name.partition(".") if table.flexible else (name, "", "")
    plain = f"--{plain[2:].replace('_', '-')}" if table.flexible and plain.startswith("--") else plain
    matches = table.matches(plain)
    if len(matches) != 1:
        return (0 if equals else len(behind)), _unknown(name, matches, table)
    flag = matches[0]
    if key:
        return (0 if equals else 1), _key_fault(name, flag, bool(equals or behind))
    if equals:
        return 0, _no_value(name, value) if flag.values == "0" else _value_fault(name, flag, (value,), table)
    values = behind[: {"0": 0, "1": 1, "?": 1}.get(flag.values, len(behind))]
    return len(values), _value_fault(name, flag, values, table)


def _unknown(name: str, matches: Sequence[Flag], table: FlagTable) -> Breach:
    if matches:
        return f"{name} must be written in full, as {' or '.join(flag.names[0] for flag in matches)}", name
    near = get_close_matches(name[:_LONGEST_NAME], table.flags, n=1)
    hint = f" ({near[0]} is one)" if near else ""
    return f"{name} must be a flag of {table.program} {table.version}{hint}", name


def _no_value(name: str, value: str) -> Breach:
    return f"{name} must be given without a value", value or "an empty one"


def _key_fault(name: str, flag: Flag, has_value: bool) -> Breach | None:
    if flag.type not in ("json", "object"):
        return f"{name} must be given without a key: {flag.names[0]} takes no object", name
    return None if has_value else (f"{name} must have a value", "none")


def _value_fault(name: str, flag: Flag, values: Sequence[str], table: FlagTable) -> Breach | None:
    if not values and flag.values in ("1", "+"):
        return f"{name} must have a value", "none"
    for value in values:
        if _EXPANDED not in value and value not in flag.words:
            if not _is_type(value, flag.type, flexible=table.flexible):
                return f"{name} must be {_TYPES[flag.type]}", value or "no value"
            if flag.choices and value not in flag.choices:
                return f"{name} must be one of {', '.join(flag.choices)}", value or "no value"
    return None


def _is_type(value: str, kind: str, *, flexible: bool) -> bool:
    if kind == "whole":
        return _WHOLE.fullmatch(value.strip()) is not None
    if kind == "size":
        return _SIZES[flexible].fullmatch(value.strip()) is not None
    try:
        if kind == "number":
            float(value)
        elif kind in ("json", "object"):
            return isinstance(json.loads(value), dict) or kind == "json"
    except (ValueError, RecursionError):
        return False
    return True
