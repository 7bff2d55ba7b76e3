"""A folder of manifests as things that can be compared: objects by kind and name, whatever file they stand in, other
documents by file, and what is neither (scripts, configurations, images' recipes) by its meaningful lines.

Objects of other people in the same folder, and what an API server writes into ours.

An object of an unknown kind is passed over, and listed as such, unless it could take the plan's GPUs, change its number
of copies, or be one of the plan's own with its kind misspelt.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from planner.export.found import Fault, Kind
from planner.export.objects.documents import json_document, yaml_documents
from planner.export.objects.pods import GPU_RESOURCES

_MANAGED = "app.kubernetes.io/managed-by"
_SERVER_METADATA = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences"}
    | {"finalizers"}
)
_SCALED = frozenset({"scaleTargetRef", "targetRef"})
_CLAIMED = "deviceClassName"
_BUILT_IN = frozenset(
    {"v1", "apps/v1", "batch/v1", "policy/v1", "scheduling.k8s.io/v1", "rbac.authorization.k8s.io/v1"}
)


def obstacle(body: Mapping[str, Any], kinds: Sequence[Kind]) -> str:
    """Why an object of an unknown kind cannot be passed over; empty where it can."""
    version, kind = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    metadata = body.get("metadata")
    if not version or not kind or not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return "an object without version, kind and name is none"
    if managed(body):
        return "the planner writes no such kind"
    versioned = [row for row in kinds if row.api_version and not row.labelled]
    if any(row.kind == kind for row in versioned):
        return "the kind is known in another version"
    if any(row.api_version == version and version not in _BUILT_IN for row in versioned):
        return "the version has no such kind"
    fields = {key for key, value in _fields(body) if key in _asking_keys() and _asks(value)}
    if gpus := sorted(fields & (set(GPU_RESOURCES.values()) | {_CLAIMED})):
        return f"it asks for GPUs ({', '.join(gpus)}) that no plan gives it"
    return "it changes the number of copies" if fields & _SCALED else ""


def meddling(body: Mapping[str, Any], names: frozenset[str]) -> str:
    """Why an object that a plan does not write cannot stand beside those that it does, called `names`; empty where it
    can."""
    if managed(body):
        return "an object of the planner that the plan does not write"
    fields = [(key, value) for key, value in _fields(body) if key in _asking_keys() and _asks(value)]
    if gpus := sorted({key for key, _ in fields} & (set(GPU_RESOURCES.values()) | {_CLAIMED})):
        return f"it asks for GPUs ({', '.join(gpus)}) that no plan gives it"
    targets = {str(value.get("name")) for key, value in fields if key in _SCALED and isinstance(value, Mapping)}
    return "it changes the number of copies" if targets & names else ""


def managed(body: Mapping[str, Any]) -> bool:
    """Whether an object carries the planner's label."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(_MANAGED) == "planner"


def _asking_keys() -> frozenset[str]:
    return _SCALED | {_CLAIMED, *GPU_RESOURCES.values()}


def _asks(value: object) -> bool:
    return str(value) not in ("0", "", "None")


def _fields(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Every key of a body with its value, however deep; what is nested beyond all measure is cut off as a GPU."""
    if depth > MOST_DEPTH:
        yield _CLAIMED, "nested too deeply"
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key), inner
            yield from _fields(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner, depth + 1)


def listed(body: object) -> Iterator[object]:
    """The objects of a `List`, as `kubectl get -o yaml` writes several; any other body itself."""
    if isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list):
        yield from body["items"]
    else:
        yield body


def as_written(body: object) -> object:
    """A Kubernetes object without what an API server adds to it: status, and metadata that nobody writes."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict) or "apiVersion" not in body:
        return body
    metadata = {key: value for key, value in body["metadata"].items() if key not in _SERVER_METADATA}
    return {key: value for key, value in body.items() if key != "status"} | {"metadata": metadata}


MOST_DEPTH = 64
LINES = "lines"
"""The kind of what is compared line by line."""
_DOCUMENTS = (".yaml", ".yml", ".json")
_MARK = re.compile(r"#(?!!|SBATCH |\s*(?:syntax|escape|check)\s*=)", re.IGNORECASE)
"""A comment, but not the line that names a script's shell, nor one that sbatch reads, nor one that tells `docker build`
how to read a recipe."""


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
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep")
    for number, body in enumerate(bodies):
        kind, name = _kind_and_name(body)
        yield Item(file=file, kind=kind, name=name, body=as_written(body) if name else body, number=number)


def is_deep(body: object) -> bool:
    """Whether a body is nested beyond what any object is, and what the comparison could follow."""
    level = [body]
    for _ in range(MOST_DEPTH):
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
