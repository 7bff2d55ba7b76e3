"""Every field of every export counts: whatever leaf is changed or left out is told at its place, unless the table of
what operators may change has it; and an export does not differ from itself, however its text is laid out."""

import json
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import pytest
import yaml
from tools import table

from planner.export import TARGETS, compare
from planner.export.checking.freedoms import FREEDOMS
from planner.export.objects.documents import yaml_documents, yaml_text

DRAWN = 3
"""Leaves of an export, and lines of a file, that are changed, and as many that are left out."""
each_target = pytest.mark.parametrize("target", TARGETS)

Path = tuple[str | int, ...]


def made(target: str) -> list[table.Export]:
    """The exports that a target does not refuse."""
    return [export for export in table.exports_for(target) if export.files]


def leaves(node: object, path: Path = ()) -> Iterator[Path]:
    """The way to every scalar."""
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from leaves(value, (*path, key))
    elif isinstance(node, list) and node:
        for number, value in enumerate(node):
            yield from leaves(value, (*path, number))
    else:
        yield path


def at(node: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        node = node[key]
    return node


def changed(value: object) -> object:
    """Another value of the same type, where it has others."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(0, value - 1) if value else 7
    return f"{value}x" if isinstance(value, str) else "x"


def with_leaf(documents: list[Any], number: int, path: Path, value: object) -> str:
    """The file's text with one leaf changed; left out where `value` is Ellipsis."""
    edited = deepcopy(documents)
    parent = at(edited[number], path[:-1])
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return yaml_text([], edited)


@each_target
def test_an_export_is_itself_in_any_layout(target: str) -> None:
    for export in {export.engine: export for export in made(target)}.values():
        other = {
            file: yaml.safe_dump_all(list(yaml_documents(text)), sort_keys=True) if file.endswith(".yaml") else text
            for file, text in reversed(export.files.items())
        }
        assert compare(export.files, export.files).faults == ()
        assert compare(other, export.files).faults == ()


@each_target
def test_drawn_leaves_are_told_at_their_place(target: str) -> None:
    for export in made(target):
        draw = random.Random(f"{target}, {export.engine}: {export.plan_name}")
        names = [file for file, text in export.files.items() if file.endswith(".yaml") and "\n---\n" in f"\n{text}"]
        for file in draw.sample(names, min(DRAWN, len(names))):
            told_where_a_leaf_differs(file, export.files[file], draw)


def told_where_a_leaf_differs(file: str, text: str, draw: random.Random) -> None:
    documents = list(yaml_documents(text))
    number, path = draw.choice([(n, path) for n, body in enumerate(documents) for path in leaves(body)])
    for value in (changed(at(documents[number], path)), ...):
        faults = compare({file: with_leaf(documents, number, path, value)}, {file: text}).faults
        assert faults, (file, path, value)
        assert all(fault.where.startswith(file) for fault in faults), faults


@pytest.mark.parametrize("engine", TARGETS["script"].engines)
def test_drawn_lines_are_told(engine: str) -> None:
    for export in made("script"):
        draw = random.Random(f"script, {export.engine}: {export.plan_name}")
        for file, text in export.files.items() if export.engine == engine else ():
            if file.endswith((".sh", ".cfg")):
                told_where_a_line_differs(file, text, draw)
            elif file.endswith(".json"):
                told_where_a_key_differs(file, text, draw)


def told_where_a_line_differs(file: str, text: str, draw: random.Random) -> None:
    lines = text.splitlines()
    meant = [n for n, line in enumerate(lines) if line.strip() and not line.strip().startswith("#")]
    for number in draw.sample(meant, DRAWN):
        for line in ([f"{lines[number]}x"], []):
            edited = "\n".join([*lines[:number], *line, *lines[number + 1 :]])
            faults = compare({file: edited}, {file: text}).faults
            assert [fault.where.partition(",")[0] for fault in faults] == [file], (file, lines[number])


def told_where_a_key_differs(file: str, text: str, draw: random.Random) -> None:
    body = json.loads(text)
    for path in draw.sample(list(leaves(body)), DRAWN):
        edited = deepcopy(body)
        at(edited, path[:-1])[path[-1]] = changed(at(body, path))
        assert compare({file: json.dumps(edited)}, {file: text}).faults


def test_every_freedom_says_what_it_is() -> None:
    assert all(freedom.what and freedom.where for freedom in FREEDOMS)
