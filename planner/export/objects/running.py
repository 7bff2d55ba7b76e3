"""Engines that run in Kubernetes objects of anybody: no label of ours is needed, and what is no engine is passed over.

| object | copies of the model | pods of a copy |
|---|---|---|
| Deployment, ReplicaSet, StatefulSet | `replicas` over the nodes that its command line names | these nodes |
| LeaderWorkerSet | `replicas` | `leaderWorkerTemplate.size`, the leader by its own template |
| Pod that no controller owns | 1 | 1 |
| any other object with containers in it | the nearest `replicas` above them, else 1 | 1 |

An object that another one owns is passed over where the owner is read; an object of an unknown kind is where it owns
one that is read. What stands in no object (a Secret, a script of an image) is a gap with its field.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from planner.domain.advice import RunningDeployment
from planner.errors import InputError
from planner.export.checking.items import listed
from planner.export.engines.started import (
    Dialect,
    dialect_of,
    dialect_of_image,
    engine_start,
    image_name,
    image_version,
)
from planner.export.objects.commands import ConfigMaps, container_commands
from planner.export.objects.documents import json_document, mapping_below, mappings_of, whole_number, yaml_documents
from planner.export.objects.pods import GPU_RESOURCES

_TEMPLATED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
_SETS, _POD = "LeaderWorkerSet", "Pod"
_SCALERS = frozenset({"HorizontalPodAutoscaler", "ScaledObject"})
_PASSED_OVER = frozenset({"DaemonSet", "Job", "CronJob", "ConfigMap", "Secret", "Node", "ReplicationController"})
_TAILS = {
    "Deployment": "-[a-z0-9]+-[a-z0-9]+",
    "ReplicaSet": "-[a-z0-9]+",
    "StatefulSet": "-[0-9]+",
    _SETS: "-[0-9]+(-[0-9]+)?",
    _POD: "",
}
_PARTS_OF_GPUS = re.compile(r"nvidia\.com/mig-.+|.+/(?:gpu|vgpu)\.shared|nvidia\.com/gpumem.*|.+/gpu-?mem.*")
_DEEPEST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignObject:
    """A Kubernetes object of a file (or of a cluster), as it stands."""

    file: str
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """As it says."""
        return str(self.body.get("kind", ""))

    @property
    def namespace(self) -> str:
        """Empty where it is left to who applies it."""
        return str(mapping_below(self.body, "metadata").get("namespace") or "")

    @property
    def name(self) -> str:
        """Empty where it has none."""
        return str(mapping_below(self.body, "metadata").get("name") or "")

    @property
    def key(self) -> tuple[str, str, str]:
        """By which it is known."""
        return self.kind, self.namespace, self.name

    @property
    def owners(self) -> list[tuple[str, str, str]]:
        """Keys of those that own it."""
        rows = mappings_of(mapping_below(self.body, "metadata").get("ownerReferences"))
        return [(str(row.get("kind")), self.namespace, str(row.get("name"))) for row in rows]

    @property
    def where(self) -> str:
        """File and object, for texts."""
        return f"{self.file}, {self.kind} {f'{self.namespace}/' * bool(self.namespace)}{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """A template of pods: where it stands, copies, pods of each, and the PodSpecs of which any may run the engine."""

    copies: int
    pods: int
    specs: tuple[tuple[str, Mapping[str, Any]], ...]
    by_nodes: bool = False


def foreign_objects(texts: Mapping[str, str], origin: str) -> tuple[ForeignObject, ...]:
    """The objects of files (name -> text), lists unpacked; what is no object is passed over. Raises InputError for a
    text that is neither YAML nor JSON."""
    return tuple(
        ForeignObject(file=name, body=body)
        for name, text in texts.items()
        for body in _bodies(f"{origin}/{name}", text)
        if isinstance(body, Mapping) and isinstance(body.get("metadata"), Mapping)
    )


def _bodies(file: str, text: str) -> Iterator[object]:
    try:
        documents = [json_document(text)] if file.endswith(".json") else list(yaml_documents(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(
            f"{file}: must be YAML or JSON, got: {' '.join(str(error).split())[:200]}",
            hint="Render templates first (helm template), or write what runs: kubectl get deploy,sts -A -o yaml.",
        ) from None
    for document in documents:
        yield from listed(document)


def running_deployments(objects: Sequence[ForeignObject]) -> tuple[RunningDeployment, ...]:
    """Every engine that the objects run, in their order; those of which no copy is asked for, too."""
    present = {item.key: item for item in objects}
    maps: dict[str, dict[str, Mapping[str, str]]] = {}
    for item in objects:
        if item.kind == "ConfigMap":
            data = {str(k): str(v) for k, v in mapping_below(item.body, "data").items()}
            maps.setdefault(item.namespace, {})[item.name] = data
    owning = {owner for item in objects for owner in _read_owners(item)}
    deployments = [
        replace(deployment, scaled_by=_scaler_of(item, objects))
        for item in present.values()
        if not _is_passed_over(item, present, owning)
        for deployment in _of_object(item, maps.get(item.namespace, {}))
    ]
    return tuple(deployments)


def _read_owners(item: ForeignObject) -> list[tuple[str, str, str]]:
    return item.owners if item.kind in (*_TEMPLATED, _SETS) else []


def _is_passed_over(
    item: ForeignObject, present: Mapping[tuple[str, str, str], ForeignObject], owning: set[tuple[str, str, str]]
) -> bool:
    if not item.name or item.kind in _PASSED_OVER or item.kind in _SCALERS:
        return True
    if item.kind in (_POD, "ReplicaSet"):
        return bool(item.owners)  # their owner is read, or cannot be: then nobody knows what makes them
    if item.kind in (*_TEMPLATED, _SETS):
        return any(owner in present and owner[0] in (*_TEMPLATED, _SETS) for owner in item.owners)
    return item.key in owning


def _of_object(item: ForeignObject, maps: ConfigMaps) -> Iterator[RunningDeployment]:
    for number, part in enumerate(_templates(item)):
        engines = next(filter(None, (list(_engines(item, path, spec, maps)) for path, spec in part.specs)), [])
        if not engines:
            continue
        started, *others = sorted(engines, key=lambda engine: not engine.pod_gpus)  # a sidecar may have its image
        pods = max(part.pods, started.start.nodes if part.by_nodes else 1)
        copies = part.copies // pods if part.by_nodes else part.copies
        gaps = list(started.gaps)
        if beside := sum(engine.pod_gpus > 0 for engine in others):
            gaps.append(f"its pods must run one engine each to be judged, run {beside + 1} that claim GPUs")
        if part.by_nodes and part.copies % pods:
            gaps.append(f"its replicas must be a multiple of the {pods} nodes of a copy, got {part.copies}")
        name = item.name if not number else f"{item.name}-{number + 1}"
        counted = replace(started, name=name, copies=copies, pods_per_copy=pods, gaps=tuple(gaps))
        yield _checked(counted)


def _checked(deployment: RunningDeployment) -> RunningDeployment:
    """With what contradicts itself: degrees that take other GPUs than pods claim."""
    claimed = deployment.pod_gpus * deployment.pods_per_copy
    used = deployment.start.parallel.devices * deployment.start.copies
    gaps = list(deployment.gaps)
    if not claimed:
        gaps += [] if deployment.gaps else ["its container must claim GPUs (resources.limits), claims none"]
    elif used > claimed:
        gaps.append(f"its degrees take {used} GPUs a copy, and its pods claim {claimed}")
    return replace(deployment, gaps=tuple(gaps))


def _templates(item: ForeignObject) -> Iterator[_Template]:
    spec = mapping_below(item.body, "spec")
    replicas = _count(spec.get("replicas"), 1)
    if item.kind == _POD:
        yield _Template(copies=1, pods=1, specs=(("spec", spec),))
    elif item.kind in _TEMPLATED:
        template = mapping_below(spec, "template", "spec")
        yield _Template(copies=replicas, pods=1, specs=(("spec.template.spec", template),), by_nodes=True)
    elif item.kind == _SETS:
        group = mapping_below(spec, "leaderWorkerTemplate")
        names = [name for name in ("leaderTemplate", "workerTemplate") if isinstance(group.get(name), Mapping)]
        specs = tuple((f"spec.leaderWorkerTemplate.{name}.spec", mapping_below(group, name, "spec")) for name in names)
        yield _Template(copies=replicas, pods=_count(group.get("size"), 1), specs=specs)
    else:
        for path, pod, copies in _pod_specs(spec, "spec", 1):
            yield _Template(copies=copies, pods=1, specs=((path, pod),))


def _pod_specs(node: object, path: str, copies: int, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Whatever holds containers, however deep, with the copies of it."""
    if depth > _DEEPEST:
        return
    if isinstance(node, Mapping):
        copies = _count(node.get("replicas"), copies)
        main = node.get("mainContainer")
        if isinstance(node.get("containers"), list):
            yield path, node, copies
        elif isinstance(main, Mapping):  # of Dynamo: the GPUs stand beside the pod
            limits = mapping_below(node, "resources", "limits") or {GPU_RESOURCES["NVIDIA"]: _gpus_beside(node)}
            resources = main.get("resources") or {"limits": limits}
            yield path, {**node, "containers": [{**main, "resources": resources}]}, copies
        else:
            for key, value in node.items():
                yield from _pod_specs(value, f"{path}.{key}", copies, depth + 1)
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _pod_specs(value, f"{path}.{number}", copies, depth + 1)


def _gpus_beside(node: Mapping[str, Any]) -> object:
    return mapping_below(node, "resources", "limits").get("gpu", 0)


def _engines(item: ForeignObject, path: str, spec: Mapping[str, Any], maps: ConfigMaps) -> Iterator[RunningDeployment]:
    """The engines among the containers of a pod; init containers run none."""
    for container in mappings_of(spec.get("containers")):
        image = str(container.get("image") or "")
        dialect, words, gaps = _command(container, image, maps)
        if dialect is None:
            continue
        start = engine_start(dialect, words)
        if gaps:
            start = replace(start, gaps=())
        gpus, unread = _gpus_of(container)
        place = f"{path}.containers[{container.get('name', '')}]"
        faults = [f"{place}: {reason}" for reason in (*gaps, *unread)]
        yield RunningDeployment(
            where=item.where,
            kind=item.kind,
            namespace=item.namespace,
            name=item.name,
            start=replace(start, gaps=tuple(f"{place}: {reason}" for reason in start.gaps)),
            image=image,
            version=image_version(image),
            copies=1,
            pod_gpus=gpus,
            node_labels=tuple(sorted(_chosen_labels(spec).items())),
            pods=re.escape(item.name).replace(r"\-", "-") + _TAILS.get(item.kind, ".*"),
            gaps=tuple(faults),
        )


def _command(
    container: Mapping[str, Any], image: str, maps: ConfigMaps
) -> tuple[Dialect | None, tuple[str, ...], tuple[str, ...]]:
    """The engine's table, its words, and why these cannot be read; without a table where the container is no engine."""
    commands = list(container_commands(container, maps))
    for command in commands:
        started = dialect_of(command)
        if started is not None:
            return *started, ()
    dialect = dialect_of_image(image)
    if dialect is None:
        return None, (), ()
    (first, *_) = commands or [()]
    by_image = not container.get("command")
    if by_image and first and (first[0].startswith("-") or dialect.gives_model):
        return dialect, first, ()  # the image's own program
    if by_image and not first:
        return dialect, (), (f"its command line must name a model; the image {image_name(image)} alone tells none",)
    return dialect, (), (f"the engine must be started by its command, got {' '.join(first[:2])[:60]!r}, a program of "
                         "which nothing can be read",)  # fmt: skip


def _gpus_of(container: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """GPUs that a container claims, and what is claimed otherwise."""
    resources = mapping_below(container, "resources")
    for key in ("limits", "requests"):
        amounts = mapping_below(resources, key)
        for resource in GPU_RESOURCES.values():
            count = whole_number(amounts.get(resource, 0))
            if count:
                return count, ()
        parts = [str(name) for name in amounts if _PARTS_OF_GPUS.fullmatch(str(name))]
        if parts:
            return 0, (f"resources.{key}: must claim whole GPUs to be priced, claims {', '.join(parts)}",)
    if resources.get("claims"):
        return 0, ("resources.claims: GPUs must be claimed by an extended resource to be counted, got claims",)
    return 0, ()


def _chosen_labels(spec: Mapping[str, Any]) -> dict[str, str]:
    """Labels that the pod's node must have, each with one value."""
    labels = {str(key): str(value) for key, value in mapping_below(spec, "nodeSelector").items()}
    required = mapping_below(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = list(mappings_of(required.get("nodeSelectorTerms")))
    if len(terms) == 1:
        for row in mappings_of(terms[0].get("matchExpressions")):
            values = row.get("values")
            if row.get("operator") == "In" and isinstance(values, list) and len(values) == 1:
                labels[str(row.get("key"))] = str(values[0])
    return labels


def _scaler_of(item: ForeignObject, objects: Sequence[ForeignObject]) -> str:
    """The autoscaler that sets an object's copies."""
    for other in objects:
        target = mapping_below(other.body, "spec", "scaleTargetRef")
        aimed = (str(target.get("kind", "Deployment")), other.namespace, str(target.get("name")))
        if other.kind in _SCALERS and aimed == item.key:
            return f"{other.kind} {other.name}"
    return ""


def _count(value: object, default: int) -> int:
    return default if value is None else whole_number(value)
