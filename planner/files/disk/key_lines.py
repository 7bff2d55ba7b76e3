"""On which line of a text each key of its document stands."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

_MOST_VALUES = 100_000
"""A second's work; errors in longer texts name no lines."""


def key_lines(text: str) -> Mapping[str, int]:
    """Path of each key and item (`search.iterations`, `nodes[3]`) -> its line, from 1. Empty where the text is too long
    or no YAML (JSON is)."""
    if not text or text.count("\n") + text.count(",") > _MOST_VALUES:
        return {}
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        node = yaml.compose(text, Loader=loader)
        return {} if node is None else dict(_lines(node, "", set()))
    except (yaml.YAMLError, RecursionError):
        return {}


def _lines(node: Any, path: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """`seen`: nodes that were met; what an alias stands for has its lines where it is written, and there alone."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            yield below, key.start_mark.line + 1
            yield from _lines(value, below, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield f"{path}[{index}]", value.start_mark.line + 1
            yield from _lines(value, f"{path}[{index}]", seen)
