"""Schemas that the user gives: CustomResourceDefinitions and JSON schemas, held against objects as an API server would
hold them, its CEL rules and webhooks left out.

Defaults are filled in before `required` is looked at, and fields that no schema names are refused.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import UnknownType, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from planner.errors import InputError
from planner.export.found import Fault, Kind, Manifest

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdSchemas:
    """Closed schemas of kinds by (apiVersion, kind), and JSON schemas by the name of their file.

    `origins`: the files of the former.
    """

    schemas: Mapping[tuple[str, str], Mapping[str, Any]]
    plain: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def knows(self, api_version: str, kind: str) -> bool:
        """Whether there is a schema for objects of this kind and version."""
        return (api_version, kind) in self.schemas

    def schema_of(self, manifest: Manifest, kind: Kind | None) -> tuple[str, Mapping[str, Any]] | None:
        """The schema that the object has to follow, and its name; None where there is none."""
        if manifest.api_version:
            key = (manifest.api_version, manifest.kind)
            origin = f"{self.origins[key]}, " if key in self.origins else ""
            return (f"{origin}{' '.join(key)}", self.schemas[key]) if key in self.schemas else None
        upstream = kind.upstream if kind else ""
        return next((pair for pair in self.plain.items() if upstream and fnmatchcase(pair[0], upstream)), None)


def given_validator(schema: Mapping[str, Any]) -> Validator:
    """A validator of one given schema. The schema itself is not held against its meta-schema: that takes seconds for
    the large definitions; what is wrong in it is reported when it is met. References stay within it: nothing is
    fetched."""
    dialect = schema if isinstance(schema.get("$schema", ""), str) else {}
    kind = validator_for(dialect, default=Draft202012Validator)
    validator: Validator = kind(schema, registry=Registry())
    return validator


def given_faults(manifest: Manifest, validator: Validator, name: str) -> list[Fault]:
    """What the given schema `name` has against an object, its defaults filled in.

    Raises:
        InputError: it is no schema, or refers to something outside it.
    """
    schema = validator.schema if isinstance(validator.schema, Mapping) else {}
    try:
        errors = list(validator.iter_errors(with_defaults(manifest.body, schema)))
    except Unresolvable as error:
        raise InputError(
            f"schemas, {name}: every $ref must lead to a place within the file, got "
            f"{' '.join(str(error).split()):.160}.",
            hint="Write the schema out in the file; nothing is fetched.",
        ) from None
    except RecursionError:
        raise InputError(
            f"schemas, {name}: must not be nested deeper than objects are, or refer to itself without end.",
            hint="Mend its $ref.",
        ) from None
    except (UnknownType, TypeError, ValueError, AttributeError, LookupError, re.error) as error:
        reason = f"type {error.type!r}" if isinstance(error, UnknownType) else f"{error!r:.160}"
        raise InputError(f"schemas, {name}: must be a sound schema, got: {reason}.", hint="Mend the file.") from None
    deepest = [best_match([error]) or error for error in errors]
    fields = [".".join(str(part) for part in error.absolute_path) or "object" for error in deepest]
    return [
        manifest.fault(field, "must follow the given schema", error.message)
        for field, error in zip(fields, deepest, strict=True)
    ]


def read_crds(files: Mapping[str, str]) -> CrdSchemas:
    """The schemas in `files` (name -> text): every served version of each CustomResourceDefinition, and JSON schemas.

    Files that hold neither (values, examples) are passed over.

    Raises:
        InputError: a file that is no YAML or JSON, a definition without schemas, or no schema at all.
    """
    versions: dict[tuple[str, str], Mapping[str, Any]] = {}
    plain: dict[str, Mapping[str, Any]] = {}
    origins: dict[tuple[str, str], str] = {}
    for name, text in files.items():
        for document in _documents(name, text):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                schemas = _schemas_of(name, document)
                versions |= schemas
                origins |= dict.fromkeys(schemas, name)
            elif isinstance(document, dict) and "$schema" in document:
                plain[name] = document
    if not versions and not plain:
        raise InputError(
            f"schemas: must hold a CustomResourceDefinition or a JSON schema, got none in {len(files)} files.",
            hint="Give a folder of the operators' CRD files (*.yaml, *.json).",
        )
    return CrdSchemas(schemas=versions, plain=plain, origins=origins)


def _documents(name: str, text: str) -> list[Any]:
    try:
        return [json.loads(text)] if name.endswith(".json") else list(yaml.load_all(text, Loader=_LOADER))
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(
            f"schemas, {name}: must be YAML or JSON, got: {' '.join(str(error).split())}.",
            hint="Mend the file, or leave it out.",
        ) from None


def _schemas_of(name: str, crd: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    try:
        return crd_schemas(crd)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"schemas, {name}: must be a whole CustomResourceDefinition, got: {error!r}.",
            hint="Take the file as the operator ships it, or leave it out.",
        ) from None


def crd_schemas(crd: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """(apiVersion, kind) -> closed schema of every served version of one definition."""
    spec = crd["spec"]
    versions: dict[tuple[str, str], Mapping[str, Any]] = {}
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        schema = _closed(version["schema"]["openAPIV3Schema"], {})
        key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
        head = {"apiVersion": {"const": key[0]}, "kind": {"const": key[1]}, "metadata": {"type": "object"}}
        versions[key] = schema | {"properties": schema.get("properties", {}) | head}
    return versions


def _closed(schema: Mapping[str, Any], done: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The schema with objects that take none but their listed properties. `done`: what was closed so far, by identity,
    as YAML aliases may name one part any number of times."""
    if id(schema) in done:
        return done[id(schema)]
    closed = done[id(schema)] = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes")}
    if schema.get("x-kubernetes-int-or-string"):
        closed["type"] = ["integer", "string"]
    if "properties" in schema:
        closed["properties"] = {key: _closed(value, done) for key, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(closed.get(key), dict):
            closed[key] = _closed(schema[key], done)
    return closed


def with_defaults(value: Any, schema: Any) -> Any:
    """`value` with the schema's defaults filled in, as an API server does before it looks at `required`."""
    if not isinstance(schema, Mapping):
        return value  # true or false stands for a schema, too
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        filled = {
            k: s["default"]
            for k, s in properties.items()
            if isinstance(s, Mapping) and "default" in s and k not in value
        }
        extra = schema.get("additionalProperties")
        below = extra if isinstance(extra, dict) else {}
        return {k: with_defaults(v, properties.get(k, below)) for k, v in (value | filled).items()}
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items", {})) for item in value]
    return value
