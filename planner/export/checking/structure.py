"""The structure of finished manifests: parsed safely, then held against the small schemas in `schemas/`.

The schemas know only the fields that the targets emit, so that a misspelt or stray key fails here and not in
a cluster.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from planner.export.checking.crds import CrdSchemas, given_faults, given_validator
from planner.export.checking.foreign import as_written, listed, managed, obstacle
from planner.export.checking.kinds import known_kinds
from planner.export.found import Fault, Kind, Manifest
from planner.export.objects.documents import yaml_documents
from planner.files.disk.schema_answers import Accepts, acceptance, keeps_to

_DEFINITIONS = "definitions.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundManifests:
    """The objects whose structure is sound, each with its kind (None: only the user's schemas know it), what is wrong
    with the others, and those of unknown kinds (`foreign`), which were not checked."""

    sound: tuple[tuple[Manifest, Kind | None], ...]
    faults: tuple[Fault, ...]
    foreign: tuple[Manifest, ...] = ()


def read_manifests(files: Mapping[str, str], crds: CrdSchemas | None = None) -> FoundManifests:
    """Every object of `files` (name -> text), held against our schemas, and against `crds` where those know its kind.

    Faults: text that cannot be parsed, an unknown kind that could meddle with the plan's, a field that does not belong,
    a wrong type.
    """
    return _read(files, crds) if crds else _read_last(tuple(files.items()))


@lru_cache(maxsize=1)
def _read_last(files: tuple[tuple[str, str], ...]) -> FoundManifests:
    """Who writes manifests checks them, and then tells how to apply them: the same texts, read once."""
    return _read(dict(files), None)


def _read(files: Mapping[str, str], crds: CrdSchemas | None) -> FoundManifests:
    kinds = known_kinds()
    validators: dict[str, Validator] = {}
    sound: list[tuple[Manifest, Kind | None]] = []
    faults: list[Fault] = []
    foreign: list[Manifest] = []
    for file, text in files.items():
        for item in _objects(file, text, kinds, crds):
            if isinstance(item, Fault):
                faults.append(item)
                continue
            if isinstance(item, Manifest):
                foreign.append(item)
                continue
            manifest, kind = item
            wrong = [*_own_faults(manifest, kind, validators), *_given_faults(manifest, kind, crds, validators)]
            faults += wrong
            sound += [] if wrong else [item]
    return FoundManifests(sound=tuple(sound), faults=tuple(faults), foreign=tuple(foreign))


def _objects(
    file: str, text: str, kinds: Sequence[Kind], crds: CrdSchemas | None
) -> Iterator[tuple[Manifest, Kind | None] | Manifest | Fault]:
    special = next((kind for kind in kinds if kind.files and fnmatchcase(PurePosixPath(file).name, kind.files)), None)
    try:
        bodies = list(special.parse(text) if special and special.parse else yaml_documents(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        form = "YAML" if isinstance(error, yaml.YAMLError) or special is None else special.kind
        yield Fault(where=file, expected=f"must be {form}", got=problem)
        return
    for body in chain.from_iterable(map(listed, bodies)):
        if body is None:
            continue  # an empty document between two separators
        yield _object(file, body if special else as_written(body), special, kinds, crds)


def _object(
    file: str, body: object, special: Kind | None, kinds: Sequence[Kind], crds: CrdSchemas | None
) -> tuple[Manifest, Kind | None] | Manifest | Fault:
    if not isinstance(body, dict):
        return Fault(where=file, expected="every document must be an object", got=type(body).__name__)
    if special:
        return Manifest(file=file, api_version="", kind=special.kind, name=str(_name(body) or file), body=body), special
    key = (str(body.get("apiVersion")), str(body.get("kind")))
    candidates = (row for row in kinds if not row.files and (row.api_version, row.kind) == key)
    kind = next((row for row in candidates if managed(body) or not row.labelled), None)
    if kind is None and not (crds and crds.knows(*key)):
        why = obstacle(body, kinds)
        if not why:
            return Manifest(file=file, api_version=key[0], kind=key[1], name=str(_name(body)), body=body)
        choices = ", ".join(f"{row.api_version} {row.kind}" for row in kinds if not row.files)
        return Fault(where=f"{file}, kind", expected=f"must be one of {choices}: {why}", got=" ".join(key))
    if kind is None and not isinstance(_name(body), str):  # the user's schemas seldom describe metadata
        return Fault(where=f"{file}, {key[1]}, metadata.name", expected="must be a name", got=str(_name(body)))
    return Manifest(file=file, api_version=key[0], kind=key[1], name=str(_name(body)), body=body), kind


def _name(body: Mapping[str, Any]) -> object:
    metadata = body.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _given_faults(
    manifest: Manifest, kind: Kind | None, crds: CrdSchemas | None, validators: dict[str, Validator]
) -> Iterator[Fault]:
    named_schema = crds.schema_of(manifest, kind) if crds else None
    if named_schema is None:
        return
    name, schema = named_schema
    if name not in validators:
        validators[name] = given_validator(schema)
    yield from given_faults(manifest, validators[name], name)


def _own_faults(manifest: Manifest, kind: Kind | None, validators: dict[str, Validator]) -> Iterator[Fault]:
    if kind is None or keeps_to(_accepted(kind.schema), manifest.body):
        return
    if kind.schema not in validators:
        validators[kind.schema] = _validator(kind.schema)
    for error in validators[kind.schema].iter_errors(manifest.body):
        deepest = best_match([error]) or error
        field = ".".join(str(part) for part in deepest.absolute_path) or "object"
        yield manifest.fault(field, "must follow the schema", deepest.message)


@cache
def _accepted(name: str) -> Accepts | None:
    """Most objects are sound: a schema's quick answer saves the validator, which alone has the words for a fault."""
    return acceptance(_with_definitions(name))


def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(_with_definitions(name))


def _with_definitions(name: str) -> dict[str, Any]:
    schema, shared = _schema(name), _schema(_DEFINITIONS)
    return schema | {"$defs": shared["$defs"] | schema.get("$defs", {})}


def _schema(name: str) -> dict[str, Any]:
    text = resources.files("planner.export").joinpath("schemas", name).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
