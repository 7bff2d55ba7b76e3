"""A folder of manifests as things that can be compared: objects by kind and name, whatever file they stand in, other
documents by file, and what is neither (scripts, configurations, images' recipes) by its meaningful lines."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from planner.export.checking.foreign import as_written, listed
from planner.export.found import Fault
from planner.export.objects.documents import json_document, yaml_documents

_MOST_DEPTH = 64
LINES = "lines"
"""The kind of what is compared line by line."""
_DOCUMENTS = (".yaml", ".yml", ".json")
_MARK = re.compile(r"#(?!!|\s*(?:syntax|escape|check)\s*=)", re.IGNORECASE)
"""A comment, but not the line that names a script's shell, nor one that tells `docker build` how to read a recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing of one file: an object, a document without kind (values of a chart, JSON), or lines (`body` is a tuple
    of them). `name` is empty where only the file names it."""

    file: str
    kind: str
    name: str
    body: Any
    number: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """By what it is found again: an object may stand in another file, and anywhere in it."""
        version = self.body.get("apiVersion", "") if isinstance(self.body, Mapping) else ""
        return (str(version), self.kind, self.name) if self.name else (self.file, str(self.number))

    @property
    def place(self) -> str:
        """As faults name it: the file, and the object where it is one."""
        return f"{self.file}, {self.kind} {self.name}" if self.name else self.file


def items_of(files: Mapping[str, str]) -> tuple[tuple[Item, ...], tuple[Fault, ...]]:
    """Everything in `files` (name -> text), and a fault for each file that cannot be read."""
    items: list[Item] = []
    faults: list[Fault] = []
    for file, text in files.items():
        try:
            items += _items(file, text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            form = "JSON" if file.endswith(".json") else "YAML"
            faults.append(Fault(where=file, expected=f"must be {form}", got=" ".join(str(error).split())[:200]))
    return tuple(items), tuple(faults)


def lines_of(text: str) -> tuple[str, ...]:
    """The lines that mean something: no comments, no empty ones, however they are indented. Within a command of several
    lines all do: a shell, and pip, end it at a comment, at an empty line, and at a backslash with blanks behind it."""
    lines: list[str] = []
    goes_on = False
    for line in text.splitlines():
        stripped = line.lstrip() if line.rstrip().endswith("\\") else line.strip()
        if goes_on or (stripped and not _MARK.match(stripped)):
            lines.append(stripped)
        goes_on = line.endswith("\\") and (goes_on or not _MARK.match(stripped))
    return tuple(lines)


def _items(file: str, text: str) -> Iterator[Item]:
    suffix = PurePosixPath(file).suffix
    if suffix not in _DOCUMENTS:
        yield Item(file=file, kind=LINES, name="", body=lines_of(text))
        return
    documents = [json_document(text)] if suffix == ".json" else yaml_documents(text)
    bodies = [body for document in documents for body in listed(document) if body is not None]
    if any(map(is_deep, bodies)):
        raise ValueError(f"it is nested more than {_MOST_DEPTH} deep")
    for number, body in enumerate(bodies):
        kind, name = _kind_and_name(body)
        yield Item(file=file, kind=kind, name=name, body=as_written(body) if name else body, number=number)


def is_deep(body: object) -> bool:
    """Whether a body is nested beyond what any object is, and what the comparison could follow."""
    level = [body]
    for _ in range(_MOST_DEPTH):
        level = [
            below
            for node in level
            for below in (node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ())
        ]
        if not level:
            return False
    return True


def _kind_and_name(body: object) -> tuple[str, str]:
    """Both empty where a document is no object of Kubernetes."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(metadata, Mapping) or not metadata.get("name"):
        return "", ""
    return str(body.get("kind", "")), str(metadata["name"])
