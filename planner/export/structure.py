"""The structure of finished manifests: parsed safely, then held against the small schemas in `schemas/`.

The schemas know only the fields that the targets emit, so that a misspelt or stray key fails here and not in
a cluster.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from planner.errors import InconsistentPlanError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # both safe; libyaml's is ten times faster
_SCHEMAS = {
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): "leaderworkerset.json",
    ("v1", "Service"): "service.json",
    ("v1", "ConfigMap"): "configmap.json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of one file."""

    file: str
    kind: str
    name: str
    body: Mapping[str, Any]

    @property
    def labels(self) -> Mapping[str, str]:
        """The object's own labels."""
        found: Mapping[str, str] = self.body["metadata"].get("labels", {})
        return found

    def fault(self, field: str, expected: str, got: object) -> InconsistentPlanError:
        """The error that names file, object and field."""
        return InconsistentPlanError(
            f"{self.file}, {self.kind} {self.name}, {field}: {expected}, got {got}.",
            hint="Nothing was written.",
        )


def read_manifests(files: Mapping[str, str]) -> tuple[Manifest, ...]:
    """Every object of `files`, each of a known kind and structure.

    Raises:
        InconsistentPlanError: text that is no YAML, an unknown kind, a field that does not belong, or a wrong
            type.
    """
    validators = {key: _validator(name) for key, name in _SCHEMAS.items()}
    return tuple(_manifest(file, body, validators) for file, text in files.items() for body in _bodies(file, text))


def _validator(name: str) -> Draft202012Validator:
    text = resources.files("planner.export").joinpath("schemas", name).read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _bodies(file: str, text: str) -> Iterator[Any]:
    try:
        yield from yaml.load_all(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise InconsistentPlanError(f"{file}: must be YAML, got: {error}.") from error


def _manifest(file: str, body: Any, validators: Mapping[tuple[str, str], Draft202012Validator]) -> Manifest:
    if not isinstance(body, dict):
        raise InconsistentPlanError(f"{file}: every document must be an object, got {type(body).__name__}.")
    key = (str(body.get("apiVersion")), str(body.get("kind")))
    if key not in validators:
        known = ", ".join(" ".join(k) for k in validators)
        raise InconsistentPlanError(f"{file}, kind: must be one of {known}, got {' '.join(key)}.")
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    manifest = Manifest(file=file, kind=key[1], name=str(name), body=body)
    fault = best_match(validators[key].iter_errors(body))
    if fault is not None:
        field = ".".join(str(part) for part in fault.absolute_path) or "object"
        raise manifest.fault(field, "must follow the schema", fault.message)
    return manifest
