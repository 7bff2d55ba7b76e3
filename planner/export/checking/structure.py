"""The structure of finished manifests: parsed safely, then held against the small schemas in `schemas/`.

The schemas know only the fields that the targets emit, so that a misspelt or stray key fails here and not in
a cluster.

Every kind of object that manifests may hold: those of the targets, and those that all targets share.

A new kind is a row of its target's `kinds`, or of the table here where several targets emit it, and a schema in
`schemas/`. A schema may refer to `#/$defs/NAME` of `schemas/definitions.json`, where pods and metadata are defined.
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
from planner.export.checking.items import as_written, listed, managed, obstacle
from planner.export.found import Fault, Kind, Manifest
from planner.export.objects.documents import json_document, yaml_documents
from planner.export.objects.evictions import FILE as EVICTIONS_FILE
from planner.export.objects.evictions import KIND as EVICTIONS_KIND
from planner.export.objects.evictions import read_evictions
from planner.export.objects.names import ROUTING
from planner.export.objects.node_objects import FLEXTOPO_KIND, FLEXTOPO_VERSION, TOPOLOGY_KIND, TOPOLOGY_VERSION
from planner.export.objects.operating.autoscaling import HPA_KIND, KEDA_KIND
from planner.export.objects.operating.monitoring import API_VERSION as MONITORING_VERSION
from planner.export.objects.operating.monitoring import POD_MONITOR, RULE
from planner.export.objects.scripts import ROUTER_SCRIPT_KINDS
from planner.export.routers.registry import ROUTERS
from planner.export.targets import TARGETS
from planner.files.disk.schema_answers import Accepts, acceptance, keeps_to

ROUTING_TABLE = "routing table"
KUSTOMIZATION = "kustomization.yaml"
"""Lists the objects of a folder, and is none: whoever compares folders looks at it."""


def _json(text: str) -> Iterator[object]:
    yield json_document(text)


SHARED_KINDS = (
    Kind(api_version="v1", kind="Service", schema="service.json"),
    Kind(api_version="v1", kind="ConfigMap", schema="configmap.json"),
    Kind(api_version="v1", kind="PersistentVolumeClaim", schema="persistentvolumeclaim.json"),
    Kind(api_version="policy/v1", kind="PodDisruptionBudget", schema="poddisruptionbudget.json", labelled=True),
    Kind(api_version="networking.k8s.io/v1", kind="NetworkPolicy", schema="networkpolicy.json", labelled=True),
    Kind(api_version="resource.nvidia.com/v1beta1", kind="ComputeDomain", schema="computedomain.json", labelled=True),
    Kind(api_version="gateway.networking.k8s.io/v1", kind="HTTPRoute", schema="httproute.json", labelled=True),
    Kind(api_version="batch/v1", kind="Job", schema="job.json", labelled=True),
    Kind(api_version="scheduling.k8s.io/v1", kind="PriorityClass", schema="priorityclass.json"),
    Kind(api_version="v1", kind="ServiceAccount", schema="serviceaccount.json"),
    Kind(api_version="rbac.authorization.k8s.io/v1", kind="Role", schema="role.json"),
    Kind(api_version="rbac.authorization.k8s.io/v1", kind="RoleBinding", schema="rolebinding.json"),
    *(
        Kind(api_version=version, kind=kind, schema=f"{kind.lower()}.json", inventory=True, of_node=True)
        for version, kind in ((TOPOLOGY_VERSION, TOPOLOGY_KIND), (FLEXTOPO_VERSION, FLEXTOPO_KIND))
    ),
    *(
        Kind(api_version=version, kind=kind, schema=f"{kind.lower()}.json", labelled=True)
        for version, kind in ((MONITORING_VERSION, POD_MONITOR), (MONITORING_VERSION, RULE), HPA_KIND, KEDA_KIND)
    ),
    Kind(kind=ROUTING_TABLE, schema="routing.json", files=f"{ROUTING}.json", parse=_json),
)
EVICTIONS = Kind(kind=EVICTIONS_KIND, schema="evictions.json", files=EVICTIONS_FILE, parse=read_evictions)


def known_kinds() -> tuple[Kind, ...]:
    """Every kind once, targets' first; but evictions are no launch script, which their name ends like, and neither are
    routers' programs."""
    targets = (kind for target in TARGETS.values() for kind in target.kinds)
    routers = (kind for router in ROUTERS.values() for kind in router.kinds)
    every = (EVICTIONS, *ROUTER_SCRIPT_KINDS, *routers, *targets, *SHARED_KINDS)
    rows = {(kind.api_version, kind.kind): kind for kind in every}
    return tuple(rows.values())


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
        if PurePosixPath(file).name == KUSTOMIZATION:
            continue
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
