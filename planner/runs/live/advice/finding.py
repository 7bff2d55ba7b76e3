"""Engines that run, found in manifests or objects of a cluster: with the type of their GPUs, and by model.

A type of GPU is told by the user, else by labels that the pods' node must have, else by the nodes that its pods are on,
else by the GPU nodes that there are, where these are all of one type.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from planner import files
from planner.domain import GpuSpec, ModelSpec, Phase
from planner.domain.advice import RunningDeployment
from planner.errors import InputError
from planner.export import slug
from planner.export.objects.pods import GPU_RESOURCES
from planner.export.objects.running import ForeignObject, foreign_objects, running_deployments
from planner.files.kubernetes.kubectl_nodes import gpu_names

LOOKED_FOR = (
    "engines by their command (vllm serve, python -m vllm.entrypoints.openai.api_server, sglang serve, "
    "python -m sglang.launch_server) or image (vllm-openai, sglang)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the user says of deployments, by name or namespace/name: the type of their GPUs, and their model (a name of
    the catalog, or the file of one)."""

    gpus: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningService:
    """Deployments of one model, engine and namespace: what a plan is rebuilt of. `model`: its name in the catalog, or
    the file of one."""

    name: str
    namespace: str
    model: str
    spec: ModelSpec
    engine: str
    version: str
    deployments: tuple[RunningDeployment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEngines:
    """`services` can be rebuilt; `gaps`: a deployment that cannot, and why, a sentence each. `objects`: how many were
    looked at. `free`: GPUs of nodes that no pod claims, by type (None: no nodes are told)."""

    services: tuple[RunningService, ...]
    gaps: tuple[tuple[RunningDeployment, tuple[str, ...]], ...]
    objects: int
    free: Mapping[str, int] | None = None

    @property
    def deployments(self) -> tuple[RunningDeployment, ...]:
        """All of them."""
        priced = (deployment for service in self.services for deployment in service.deployments)
        return (*priced, *(deployment for deployment, _ in self.gaps))


def objects_of_folder(folder: Path) -> tuple[ForeignObject, ...]:
    """The Kubernetes objects of the YAML and JSON files of a folder, lists unpacked. Raises InputError as
    `files.load_manifests`, and for a file that is no such text."""
    texts = files.load_manifests(folder)
    documents = {name: text for name, text in texts.items() if name.endswith((".yaml", ".yml", ".json"))}
    return foreign_objects(documents, str(folder))


def objects_of_documents(documents: Iterable[Mapping[str, Any]], origin: str) -> tuple[ForeignObject, ...]:
    """Objects that a cluster listed."""
    return tuple(ForeignObject(file=origin, body=document) for document in documents)


def find_engines(objects: Sequence[ForeignObject], hints: Hints, origin: str) -> FoundEngines:
    """The engines among the objects. InputError where there is none, or the user names one that is not there."""
    deployments = running_deployments(objects)
    if not deployments:
        raise InputError(
            f"{origin}: must hold an engine that runs, holds none among {len(objects)} objects; looked for "
            f"{LOOKED_FOR} in Deployments, StatefulSets, LeaderWorkerSets, Pods and other objects with containers.",
            hint="Give the objects as they run: kubectl get deployments,statefulsets,pods -A -o yaml.",
        )
    for flag, names in (("--gpu", hints.gpus), ("--model", hints.models)):
        _require_named(flag, names, deployments)
    specs = files.load_gpu_specs()
    typed = [_typed(deployment, objects, hints, specs) for deployment in deployments]
    gaps: list[tuple[RunningDeployment, tuple[str, ...]]] = []
    readable: list[tuple[RunningDeployment, str, ModelSpec]] = []
    for deployment in typed:
        reasons = list(deployment.reasons)
        if not deployment.copies:
            reasons.append("no copy of it is asked for (replicas: 0)")
        if not deployment.gpu and deployment.start.model:
            reasons.append(f"the type of its GPUs must be known, no label tells it: --gpu {deployment.name}=TYPE")
        if deployment.start.phase is Phase.MIXED and deployment.start.parallel.pp > 1:
            reasons.append("pipeline stages are priced of servers of one phase alone, and its servers do both")
        model = _hint_of(deployment.label, deployment.name, hints.models) or deployment.start.model
        spec = None if not model else _model(model, deployment, reasons)
        if reasons or spec is None:
            gaps.append((deployment, tuple(reasons)))
        else:
            readable.append((deployment, model, spec))
    return FoundEngines(
        services=tuple(_services(readable)), gaps=tuple(gaps), objects=len(objects), free=_free(objects, typed, specs)
    )


def _require_named(flag: str, names: Mapping[str, str], deployments: Sequence[RunningDeployment]) -> None:
    present = {name for deployment in deployments for name in (deployment.name, deployment.label)}
    for name in names:
        if name not in present:
            raise InputError(
                f"{flag} {name}=...: must name an engine that runs, one of "
                f"{', '.join(deployment.label for deployment in deployments)}.",
                hint="Take the name as it stands there.",
            )


def _model(name: str, deployment: RunningDeployment, reasons: list[str]) -> ModelSpec | None:
    """The model; a sentence in `reasons` where it is not known."""
    try:
        return files.load_model(name)
    except InputError:
        reasons.append(
            f"the model {name} must be in the catalog (planner models) or a file: planner model add {name} makes one, "
            f"--model {deployment.name}=FILE names it"
        )
        return None


def _services(readable: Sequence[tuple[RunningDeployment, str, ModelSpec]]) -> Iterator[RunningService]:
    groups: dict[tuple[str, str, str], list[tuple[RunningDeployment, str, ModelSpec]]] = {}
    for row in readable:
        deployment, _, spec = row
        groups.setdefault((deployment.namespace, spec.name, deployment.start.engine), []).append(row)
    names = [model for _, model, _ in groups]
    for (namespace, model, engine), rows in groups.items():
        name = model if names.count(model) == 1 else "-".join(filter(None, (namespace, model, engine)))
        deployments = tuple(deployment for deployment, _, _ in rows)
        yield RunningService(
            name=slug(name),
            namespace=namespace,
            model=rows[0][1],
            spec=rows[0][2],
            engine=engine,
            version=next((d.version for d in deployments if d.version), ""),
            deployments=deployments,
        )


def _hint_of(label: str, name: str, hints: Mapping[str, str]) -> str:
    return hints.get(label) or hints.get(name, "")


def _typed(
    deployment: RunningDeployment, objects: Sequence[ForeignObject], hints: Hints, specs: Mapping[str, GpuSpec]
) -> RunningDeployment:
    """With the type of its GPUs, and what says so."""
    if gpu := _hint_of(deployment.label, deployment.name, hints.gpus):
        return replace(deployment, gpu=files.load_gpu_spec(gpu).name, gpu_source="--gpu")
    if gpu := gpu_of_labels(dict(deployment.node_labels), specs):
        return replace(deployment, gpu=gpu, gpu_source="the labels that its node must have")
    nodes = {item.name: item for item in objects if item.kind == "Node"}
    on = [nodes[name] for name in _nodes_of(deployment, objects) if name in nodes]
    types = {gpu_of_labels(_labels(node), specs) for node in on} - {""}
    if len(types) == 1:
        return replace(deployment, gpu=types.pop(), gpu_source="the nodes that its pods are on")
    every = {gpu_of_labels(_labels(node), specs) for node in nodes.values() if _gpus_of_node(node)}
    if not on and len(every) == 1 and "" not in every:
        return replace(deployment, gpu=every.pop(), gpu_source="all GPU nodes, which are of one type")
    if len(types) > 1:
        reason = f"its pods are on several types of GPU ({', '.join(sorted(types))}): --gpu {deployment.name}=TYPE"
        return replace(deployment, gaps=(*deployment.gaps, reason))
    return deployment


def _nodes_of(deployment: RunningDeployment, objects: Sequence[ForeignObject]) -> set[str]:
    pattern = re.compile(deployment.pods)
    pods = (item for item in objects if item.kind == "Pod" and item.namespace == deployment.namespace)
    specs = (pod.body.get("spec") for pod in pods if pattern.fullmatch(pod.name))
    return {str(spec.get("nodeName")) for spec in specs if isinstance(spec, Mapping) and spec.get("nodeName")}


def gpu_of_labels(labels: Mapping[str, str], specs: Mapping[str, GpuSpec]) -> str:
    """The type that a node's labels tell; empty where they tell none that is known."""
    fitting = [
        (len(spec.node_selector), name)
        for name, spec in specs.items()
        if spec.node_selector and all(labels.get(key) == value for key, value in spec.node_selector)
    ]
    if fitting:
        return max(fitting)[1]
    products = {value: name for name, spec in specs.items() for _, value in spec.node_selector}
    for told_name in gpu_names(labels):
        if gpu := told_name.gpu or products.get(told_name.value, ""):
            return gpu
    return ""


def _labels(node: ForeignObject) -> dict[str, str]:
    labels = node.body.get("metadata", {}).get("labels") or {}
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, Mapping) else {}


def _gpus_of_node(node: ForeignObject) -> int:
    allocatable = _status(node).get("allocatable")
    amounts = allocatable if isinstance(allocatable, Mapping) else {}
    counts = [str(amounts.get(resource, "0")) for resource in GPU_RESOURCES.values()]
    return sum(int(count) for count in counts if count.isdecimal())


def _free(
    objects: Sequence[ForeignObject], deployments: Sequence[RunningDeployment], specs: Mapping[str, GpuSpec]
) -> dict[str, int] | None:
    """GPUs of nodes that take pods, less those that pods on them claim, or that deployments do, whose pods may not be
    listed, where these claim more."""
    nodes = {item.name: item for item in objects if item.kind == "Node"}
    if not nodes:
        return None
    types = {name: gpu_of_labels(_labels(node), specs) for name, node in nodes.items()}
    totals, of_pods, of_deployments = Counter[str](), Counter[str](), Counter[str]()
    for name, node in nodes.items():
        if not types[name] or not _takes_pods(node):
            types[name] = ""
        totals[types[name]] += _gpus_of_node(node)
    for item in objects:
        spec = item.body.get("spec")
        if item.kind == "Pod" and isinstance(spec, Mapping) and _status(item).get("phase") not in _ENDED:
            of_pods[types.get(str(spec.get("nodeName")), "")] += _claimed(spec)
    for deployment in deployments:
        of_deployments[deployment.gpu] += deployment.claimed_gpus
    claimed = {gpu: max(of_pods[gpu], of_deployments[gpu]) for gpu in totals if gpu}
    return {gpu: max(0, totals[gpu] - count) for gpu, count in claimed.items() if totals[gpu]}


_ENDED = frozenset({"Succeeded", "Failed"})
"""Phases of pods that hold no GPUs any more."""


def _status(item: ForeignObject) -> Mapping[str, Any]:
    status = item.body.get("status")
    return status if isinstance(status, Mapping) else {}


def _takes_pods(node: ForeignObject) -> bool:
    """Whether it is neither cordoned nor said to be not ready."""
    spec, conditions = node.body.get("spec"), _status(node).get("conditions")
    rows = (row for row in conditions if isinstance(row, Mapping)) if isinstance(conditions, list) else ()
    ready = all(row.get("type") != "Ready" or row.get("status") == "True" for row in rows)
    return ready and not (isinstance(spec, Mapping) and spec.get("unschedulable"))


def _claimed(spec: Mapping[str, Any]) -> int:
    containers = spec.get("containers")
    total = 0
    for container in containers if isinstance(containers, list) else []:
        resources = container.get("resources") if isinstance(container, Mapping) else None
        limits = resources.get("limits") if isinstance(resources, Mapping) else None
        for resource in GPU_RESOURCES.values():
            count = str(limits.get(resource, "0")) if isinstance(limits, Mapping) else "0"
            total += int(count) if count.isdecimal() else 0
    return total
