"""YAML text: comments on top, documents below, every value quoted by the dumper; and the strict reading of such text,
which may have been edited.

Amounts of Kubernetes as numbers, so that 512Gi and 524288Mi are the same.

suffix          factor                source
m, u, n         10^-3, 10^-6, 10^-9   Kubernetes' resource.Quantity, decimal SI
k M G T P E     10^3 to 10^18
Ki Mi Gi ... Ei 2^10 to 2^60          binary SI
e3, E3          10^3                  decimal exponent
"""

import json
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import yaml

from planner.export.objects.names import one_line

_ONE_LINE = 1_000_000  # never fold: a wrapped argument is hard to read and to compare
_OTHERWISE = ("\\", "'':", "\n...")  # what libyaml alone writes so: escapes, a key without characters, an end


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that occurs twice twice, instead of an anchor and an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML fixes the signature
        return True


class _QuickDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # libyaml's: five times faster
    """The same by libyaml."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # as above
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_PlainDumper.add_representer(str, _text)
_QuickDumper.add_representer(str, _text)


def yaml_text(comments: Iterable[str], documents: Iterable[Mapping[str, Any]]) -> str:
    """The text of one file. Comments may hold any characters; what a comment cannot carry is dropped."""
    head = "".join(f"# {one_line(comment)}\n" for comment in comments)
    return head + _body([dict(document) for document in documents])


def _body(documents: list[dict[str, Any]]) -> str:
    """The documents as text, quickly where both dumpers write the same."""
    try:
        text = _dumped(documents, _QuickDumper)
    except UnicodeEncodeError:  # half of a pair of surrogates
        return _dumped(documents, _PlainDumper)
    return _dumped(documents, _PlainDumper) if any(mark in text for mark in _OTHERWISE) else text


def _dumped(documents: list[dict[str, Any]], dumper: type[yaml.SafeDumper]) -> str:
    return str(
        yaml.dump_all(
            documents, Dumper=dumper, sort_keys=False, allow_unicode=True, width=_ONE_LINE, explicit_start=True
        )
    )


_MOST_DIGITS = 18
_INT_BITS = 64  # Kubernetes' largest; a longer one cannot even be written into an error text


class StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml's is ten times faster
    """Plain data only, each key once (an API server refuses or drops the second), whole numbers of 64 bits."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping; ConstructorError where a key is given twice."""
        keys: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in keys:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark
                )
            keys.add((key.tag, key.value))
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """The number; ConstructorError where it is larger than any that Kubernetes takes."""
        number: int = super().construct_yaml_int(node)
        if number.bit_length() >= _INT_BITS:
            raise yaml.constructor.ConstructorError(
                problem=f"a whole number must have less than {_INT_BITS} bits", problem_mark=node.start_mark
            )
        return number


StrictLoader.add_constructor("tag:yaml.org,2002:int", StrictLoader.construct_yaml_int)


def yaml_documents(text: str) -> Iterator[object]:
    """The documents of a YAML text: plain data, no key twice.

    Raises:
        yaml.YAMLError: the text is no such YAML.
    """
    yield from yaml.load_all(text, Loader=StrictLoader)  # a subclass of the safe loader


def json_document(text: str) -> Any:
    """A JSON text: no key twice, finite numbers of ordinary size.

    Raises:
        ValueError: the text is no such JSON, or is nested too deeply.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a whole number must have at most {_MOST_DIGITS} characters, has {len(text)}")
    return int(text)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"a number must be finite, is {text}")
    return number


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return mapping


def mapping_below(node: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The mapping under a chain of keys; an empty one where there is none."""
    for key in keys:
        inner = node.get(key)
        node = inner if isinstance(inner, Mapping) else {}
    return node


def mappings_of(value: object) -> Iterator[Mapping[str, Any]]:
    """The mappings in a list; none of what is no list."""
    yield from (row for row in value if isinstance(row, Mapping)) if isinstance(value, list) else ()


def whole_number(value: object) -> int:
    """`value` as a count; 0, which no check takes for right, where it is none or longer than any count."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


_PATTERN = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|)")
_EXPONENT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE](?P<power>[+-]?[0-9]{1,2})")
_BINARY = {f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {letter: Fraction(1000) ** power for power, letter in zip(range(-3, 7), "num kMGTPE", strict=True)}
_FACTORS = {"": Fraction(1)} | _BINARY | {letter: factor for letter, factor in _DECIMAL.items() if letter != " "}
_MOST_CHARACTERS = 40
MOST_OF_A_CONFIG_MAP = 2**20
"""Bytes of keys and values together (Kubernetes' limit on a ConfigMap's data)."""


def amount(value: object) -> Fraction | None:
    """The number that a quantity stands for (bytes, cores, pieces); None where it is no quantity, or below 0."""
    text = str(value)
    if isinstance(value, bool) or len(text) > _MOST_CHARACTERS:
        return None
    if match := _PATTERN.fullmatch(text):
        return _number(match["number"]) * _FACTORS[match["suffix"]]
    if match := _EXPONENT.fullmatch(text):
        return _number(match["number"]) * Fraction(10) ** int(match["power"])
    return None


def _number(text: str) -> Fraction:
    return Fraction(text if text.strip(".") == text else f"0{text}0")


def config_map_bytes(data: Mapping[str, str]) -> int:
    """What counts against `MOST_OF_A_CONFIG_MAP`."""
    return sum(len(text.encode(errors="replace")) for pair in data.items() for text in pair)
