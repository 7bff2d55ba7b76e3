"""Engines that run, found in manifests or objects of a cluster: with the type of their GPUs, and by model.

A type of GPU is told by the user, else by labels that the pods' node must have, else by the nodes that its pods are on,
else by the GPU nodes that there are, where these are all of one type.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planner import files
from planner.domain import ModelSpec, Phase
from planner.domain.advice import RunningDeployment
from planner.domain.node_report import GpuTypeNames
from planner.errors import InputError
from planner.export import slug
from planner.export.objects.documents import mapping_below
from planner.export.objects.pods import GPU_RESOURCES
from planner.export.objects.running import ForeignObject, foreign_objects, running_deployments
from planner.files.kubernetes.kubectl_nodes import gpu_names
from planner.files.kubernetes.kubectl_pods import SLICE, holds_nothing, requests
from planner.files.kubernetes.kubernetes_objects import below, objects_of
from planner.files.sections import Section
from planner.placement.clusters.imported_nodes import type_of_labels
from planner.runs.live.nodes import read_states, types_of

LOOKED_FOR = (
    "engines by their command (vllm serve, python -m vllm.entrypoints.openai.api_server, sglang serve, "
    "python -m sglang.launch_server, trtllm-serve) or image (vllm-openai, sglang)"
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


class Nodes:
    """Nodes of a cluster, as far as they are listed: the type of GPU of each, and what of them is free."""

    def __init__(self, objects: Sequence[ForeignObject]) -> None:
        documents = [Section(item.body, file=item.file) for item in objects if item.kind in ("Node", SLICE)]
        self._states = read_states(documents, datetime.now(UTC), 0.0)
        self._specs = files.load_gpu_specs()
        types, unknown = types_of(self._states)
        self.gpus = {name: gpu for name, (gpu, _) in types.items() if gpu in self._specs}
        every = set(self.gpus.values()) if not unknown and len(self.gpus) == len(types) else set()
        self.only = every.pop() if len(every) == 1 else ""

    def gpu_of_labels(self, labels: Mapping[str, str]) -> str:
        """The type of nodes with these labels; empty where they tell none that is known."""
        names = GpuTypeNames(selectors=tuple((name, spec.node_selector) for name, spec in self._specs.items()))
        gpu = type_of_labels(labels, gpu_names(labels), names, [])
        return gpu if gpu in self._specs else ""

    def free(self, objects: Sequence[ForeignObject], deployments: Sequence[RunningDeployment]) -> dict[str, int] | None:
        """GPUs by type of nodes that take pods, less those that pods on them claim, or that deployments do, whose pods
        may not be listed, where these claim more; None where no nodes are listed."""
        if not (self._states.nodes or self._states.unreadable):
            return None
        claims, of_pods, of_deployments = Counter[str](), Counter[str](), Counter[str]()
        for item in objects_of((Section(o.body, file=o.file) for o in objects if o.kind == "Pod"), ("Pod",)):
            if not holds_nothing(item):
                spec = below(item.body, "spec")
                amounts, name = requests(spec), spec.text("nodeName")
                claims[name] += int(sum(amounts.get(resource, 0.0) for resource in GPU_RESOURCES.values()))
        for deployment in deployments:
            of_deployments[deployment.gpu] += deployment.claimed_gpus
        free = Counter[str]()
        for name, gpu in self.gpus.items():
            of_pods[gpu] += claims[name]
            free[gpu] += max(0, self._states.nodes[name].serving - claims[name])
        return {gpu: max(0, count - max(0, of_deployments[gpu] - of_pods[gpu])) for gpu, count in free.items()}


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
    nodes = Nodes(objects)
    typed = [_typed(deployment, objects, hints, nodes) for deployment in deployments]
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
        services=tuple(_services(readable)), gaps=tuple(gaps), objects=len(objects), free=nodes.free(objects, typed)
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
    deployment: RunningDeployment, objects: Sequence[ForeignObject], hints: Hints, nodes: Nodes
) -> RunningDeployment:
    """With the type of its GPUs, and what says so."""
    if gpu := _hint_of(deployment.label, deployment.name, hints.gpus):
        return replace(deployment, gpu=files.load_gpu_spec(gpu).name, gpu_source="--gpu")
    if gpu := nodes.gpu_of_labels(dict(deployment.node_labels)):
        return replace(deployment, gpu=gpu, gpu_source="the labels that its node must have")
    pattern = re.compile(deployment.pods)
    pods = (item for item in objects if item.kind == "Pod" and item.namespace == deployment.namespace)
    on = {str(mapping_below(pod.body, "spec").get("nodeName")) for pod in pods if pattern.fullmatch(pod.name)}
    types = {nodes.gpus[name] for name in on if name in nodes.gpus}
    if len(types) == 1:
        return replace(deployment, gpu=types.pop(), gpu_source="the nodes that its pods are on")
    if not types and nodes.only:
        return replace(deployment, gpu=nodes.only, gpu_source="all GPU nodes, which are of one type")
    if len(types) > 1:
        reason = f"its pods are on several types of GPU ({', '.join(sorted(types))}): --gpu {deployment.name}=TYPE"
        return replace(deployment, gaps=(*deployment.gaps, reason))
    return deployment
