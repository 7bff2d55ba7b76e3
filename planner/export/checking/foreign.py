"""Objects of other people in the same folder, and what an API server writes into ours.

An object of an unknown kind is passed over, and listed as such, unless it could take the plan's GPUs, change its number
of copies, or be one of the plan's own with its kind misspelt.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.found import Kind
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
_MOST_DEPTH = 64


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
    fields = {key for key, value in _fields(body) if key in _wanted() and _asks(value)}
    if gpus := sorted(fields & (set(GPU_RESOURCES.values()) | {_CLAIMED})):
        return f"it asks for GPUs ({', '.join(gpus)}) that no plan gives it"
    return "it changes the number of copies" if fields & _SCALED else ""


def meddling(body: Mapping[str, Any], names: frozenset[str]) -> str:
    """Why an object that a plan does not write cannot stand beside those that it does, called `names`; empty where it
    can."""
    if managed(body):
        return "an object of the planner that the plan does not write"
    fields = [(key, value) for key, value in _fields(body) if key in _wanted() and _asks(value)]
    if gpus := sorted({key for key, _ in fields} & (set(GPU_RESOURCES.values()) | {_CLAIMED})):
        return f"it asks for GPUs ({', '.join(gpus)}) that no plan gives it"
    targets = {str(value.get("name")) for key, value in fields if key in _SCALED and isinstance(value, Mapping)}
    return "it changes the number of copies" if targets & names else ""


def managed(body: Mapping[str, Any]) -> bool:
    """Whether an object carries the planner's label."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(_MANAGED) == "planner"


def _wanted() -> frozenset[str]:
    return _SCALED | {_CLAIMED, *GPU_RESOURCES.values()}


def _asks(value: object) -> bool:
    return str(value) not in ("0", "", "None")


def _fields(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Every key of a body with its value, however deep; what is nested beyond all measure is cut off as a GPU."""
    if depth > _MOST_DEPTH:
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
