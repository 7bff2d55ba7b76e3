"""The fields that a controller makes an island's pods from, so that two exports can be compared: where one differs the
pods are replaced."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import PodField
from planner.export.found import FoundWorkload

_SCHEDULERS = ("leaderworkerset.sigs.k8s.io/", "kueue.x-k8s.io/")
"""Labels and annotations of the object itself that its controller, or Kueue, carries on to the pods."""


def pod_fields(workload: FoundWorkload) -> tuple[PodField, ...]:
    """The object of the workload, fields of its template, and what schedulers take from its object."""
    manifest = workload.manifest
    metadata = {**manifest.labels, **manifest.annotations, **workload.labels, **workload.annotations}
    scheduling = {f"object's {key}": value for key, value in metadata.items() if key.startswith(_SCHEDULERS)}
    made_by = {"object": f"{manifest.kind} {manifest.name}"} if manifest.api_version else {}
    return tuple(_flat({**made_by, **scheduling, **workload.template}, ""))


def _flat(value: Any, path: str) -> Iterator[PodField]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        yield from _row(value, path)
    else:
        yield PodField(path=path, words=(_text(value),))


def _row(values: Sequence[Any], path: str) -> Iterator[PodField]:
    """A list of plain values is one field; objects are keyed by their names, or else by their places."""
    if not any(isinstance(value, Mapping | list) for value in values):
        yield PodField(path=path, words=tuple(_text(value) for value in values))
        return
    names = [str(value.get("name", at)) if isinstance(value, Mapping) else str(at) for at, value in enumerate(values)]
    for at, value in enumerate(values):
        alone = isinstance(value, Mapping) and names.count(names[at]) == 1
        unnamed = {key: inner for key, inner in value.items() if key != "name"} if alone else value
        yield from _flat(unnamed, f"{path}.{names[at] if alone else at}")


def _text(value: object) -> str:
    return str(value)
