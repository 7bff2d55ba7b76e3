"""YAML taken strictly: each key once, decimal integers, and no tag, date or merge that the loader cannot build."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from planner.errors import InputError
from planner.files.disk.budget import MOST_DIGITS, too_deep
from planner.files.sections import Section, top_level

# tag, pattern and first characters of the floats that YAML 1.1 takes for text
EXPONENT_FLOAT = (
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
_INT = "tag:yaml.org,2002:int"
_MERGE = "tag:yaml.org,2002:merge"
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)$")
_KINDS = {
    "bool": "true or false",
    "int": f"a whole number of at most {MOST_DIGITS} decimal digits",
    "float": "a number",
    "timestamp": "a date",
}
_MOST_MERGED = 100_000
_MOST_CHARACTERS = 100_000
"""This loader takes two seconds for so many; `large_yaml` reads all but tags, dates and merge keys."""


class StrictLoader(yaml.SafeLoader):
    """Plain data only, each key once, and `1e-4` is a number as in JSON (YAML 1.1 asks for `1.0e-4`)."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._keys: dict[int, object] = {}
        self._merged = 0

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping; ConstructorError where a key is given twice, or is no plain text."""
        keys: set[object] = set()
        for key_node, value_node in node.value if isinstance(node, yaml.MappingNode) else ():
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise problem_at("a key must be plain text", key_node)
            if key in keys:
                raise problem_at(f"the key '{key}' is given twice", key_node)
            keys.add(key)
            self._keys[id(value_node)] = key
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value; ConstructorError names the key of one that its tag does not fit, such as `!!bool maybe`."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
            key, kind = self._keys.get(id(node), "the value"), node.tag.rpartition(":")[2]
            shown = f"{node.value!r:.60}" if isinstance(node, yaml.ScalarNode) else "a mapping or list"
            problem = f"{key!s:.60} must be {_KINDS.get(kind, f'what !!{kind} stands for')}, got {shown}"
            raise problem_at(
                problem, node, note="Correct the value, or put it in quotes and take its tag away."
            ) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number in decimal digits, with or without its tag."""
        text = str(self.construct_scalar(node))
        if not _DECIMAL.match(text) or len(text) > MOST_DIGITS:
            raise ValueError(text)
        return int(text.replace("_", ""))

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge keys put in place; ConstructorError where they stand for more pairs than anybody writes."""
        super().flatten_mapping(node)
        self._merged += len(node.value)
        if self._merged > _MOST_MERGED:
            raise problem_at(f"merge keys (<<) stand for more than {_MOST_MERGED} pairs", node)


StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _INT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# decimal alone: YAML 1.1 reads 010 as 8 and 1:30 as 90
StrictLoader.add_implicit_resolver(_INT, _DECIMAL, list("-+0123456789"))
StrictLoader.add_implicit_resolver(*EXPONENT_FLOAT)
StrictLoader.add_constructor(_INT, StrictLoader.construct_yaml_int)


def problem_at(text: str, where: Any, note: str | None = None) -> yaml.constructor.ConstructorError:
    """The error of a node or event that cannot be built; `note` is the remedy."""
    return yaml.constructor.ConstructorError(problem=text, problem_mark=where.start_mark, note=note)


def parse_yaml(text: str, *, file: str) -> Section:
    """The top-level mapping of a YAML text; `file` names it in errors."""
    if len(text) > _MOST_CHARACTERS:
        raise InputError(
            f"{file}: must have no tags, dates or merge keys where it is longer than {_MOST_CHARACTERS:,} "
            f"characters, has {len(text):,}.",
            hint="Write the values out, dates in quotes.",
        )
    try:
        # a subclass of SafeLoader: it builds plain data only
        document = yaml.load(text, Loader=StrictLoader)  # noqa: S506 - the loader is a SafeLoader
    except yaml.YAMLError as error:
        raise unreadable(file, error) from None
    except RecursionError:
        raise too_deep(file) from None
    return top_level(document, file, text)


def unreadable(file: str, error: yaml.YAMLError) -> InputError:
    """The error of a text that is no YAML, with its line and column where they are known."""
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return InputError(
        f"{file}: {where}is not readable YAML: {problem}.",
        hint=getattr(error, "note", None) or "Mend that line; indent with spaces, not tabs.",
    )
