"""Manifests of a plan that takes another's place: pods that run are left as they are, and what is applied, and what is
deleted, to get from one folder of manifests to another.

A controller replaces the pods of an object where what it makes them of changes, and the seconds that pods are given at
their end follow from the promise of the plan: servers that run on keep the pods that they were started with.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import yaml

from planner.domain import Plan
from planner.errors import ExportError
from planner.export.checking.structure import read_manifests
from planner.export.found import FoundPod, FoundWorkload, Manifest
from planner.export.objects.documents import yaml_text
from planner.export.objects.scheduling import HOSTNAME, host_name
from planner.export.summary import ISLAND_ID

Key = tuple[str, str, str]
"""API version, kind and name of an object."""


Objects = Mapping[Key, Manifest]
"""All objects of a folder of manifests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """From one folder to another: objects that come or change, those that run engines apart from all others, and those
    that go. `annotated`: engines that are told anew what they are, and run on. `standing`: what stands afterwards."""

    engines: tuple[Manifest, ...]
    annotated: tuple[Manifest, ...]
    others: tuple[Manifest, ...]
    gone: tuple[Manifest, ...]
    standing: Objects


def carried_over(files: Mapping[str, str], *deployed: Mapping[str, str]) -> dict[str, str]:
    """`files` with the engines of `deployed` (folders of manifests, the first that has an island counts), but for their
    number and what annotations say of it.

    Raises ExportError where an object runs several islands, or is called otherwise there.
    """
    return with_engines(files, running_engines(*deployed))


def running_engines(*deployed: Mapping[str, str]) -> dict[str, FoundWorkload]:
    """What runs each island of `deployed` (folders of manifests, the first that has it counts)."""
    sources: dict[str, FoundWorkload] = {}
    for folder in reversed(deployed):
        sources |= engines_of(folder)
    return sources


def with_engines(files: Mapping[str, str], sources: Mapping[str, FoundWorkload]) -> dict[str, str]:
    """The same, with engines by island."""
    changed: dict[str, dict[Key, Manifest]] = {}
    for island, workload in engines_of(files).items():
        source = sources.get(island)
        if source is not None and source.manifest.body != workload.manifest.body:
            carried = _carried(workload, source)
            changed.setdefault(carried.file, {})[_key(carried)] = carried
    return {name: _rewritten(text, changed[name]) if name in changed else text for name, text in files.items()}


def require_pins(files: Mapping[str, str], plan: Plan) -> None:
    """Raises ExportError where pods are pinned to other hosts than the plan's placement gives to their island: those
    that run on cannot be pinned anew."""
    hosts_of = _hosts(plan)
    for island, workload in engines_of(files).items():
        for hosts in (hosts for pod in workload.pods for _, hosts in _pinned_hosts(pod)):
            if island in hosts_of and hosts != hosts_of[island]:
                raise ExportError(
                    f"pods of island {island} run pinned to {', '.join(sorted(hosts))}, the new plan has it on "
                    f"{', '.join(sorted(hosts_of[island]))}, and pods that run cannot be pinned anew.",
                    hint="Deploy without deploy.pin_nodes, or let the island start anew: planner export, as a plan of "
                    "its own.",
                )


def _hosts(plan: Plan) -> dict[str, set[str]]:
    """Island -> host names of the nodes that the placement gives it."""
    cluster, placement = plan.scenario.cluster, plan.placement
    nodes = {node.name: node for node in cluster.nodes} if cluster else {}
    hosts_of: dict[str, set[str]] = {}
    for part in placement.parts if placement else ():
        hosts_of.setdefault(part.island, set()).add(host_name(part.node, nodes))
    return hosts_of


def engines_of(files: Mapping[str, str]) -> dict[str, FoundWorkload]:
    """What runs each island. Raises ExportError where an object runs several."""
    engines: dict[str, FoundWorkload] = {}
    for manifest, kind in read_manifests(files).sound:
        workloads = tuple(kind.workloads(manifest)) if kind is not None and kind.workloads else ()
        if workloads and not manifest.api_version:
            raise _refused(f"{manifest.kind} {manifest.name} is no object of Kubernetes")
        if len(workloads) > 1:
            raise _refused(f"{manifest.kind} {manifest.name} starts several islands at once")
        for workload in workloads:
            engines[workload.annotations.get(ISLAND_ID, "")] = workload
    return engines


def without_engines(files: Mapping[str, str]) -> dict[str, str]:
    """The same without the objects that run engines: what stands while nothing serves."""
    engines = {_key(workload.manifest) for workload in engines_of(files).values()}
    others: dict[str, list[Mapping[str, Any]]] = {}
    for manifest, _ in read_manifests(files).sound:
        if _key(manifest) not in engines:
            others.setdefault(manifest.file, []).append(manifest.body)
    return {name: yaml_text([], documents) for name, documents in others.items()}


def _carried(workload: FoundWorkload, source: FoundWorkload) -> Manifest:
    """The source's object with the number of copies and the annotations of the workload's."""
    new, old = workload.manifest, source.manifest
    if _key(new) != _key(old):
        raise _refused(f"{old.kind} {old.name} would be called {new.name}")
    body: dict[str, Any] = deepcopy(dict(old.body))
    body["metadata"]["annotations"] = dict(new.annotations)
    *parents, last = workload.replicas_path.split(".")
    place: Any = body
    for part in parents:
        place = place[part]
    place[last] = workload.replicas
    return replace(old, file=new.file, body=body)


def _refused(reason: str) -> ExportError:
    return ExportError(
        f"{reason}, so it cannot be changed a few servers at a time.",
        hint="Export for lws or kubernetes (deploy.target).",
    )


def _key(manifest: Manifest) -> Key:
    return manifest.api_version, manifest.kind, manifest.name


def _rewritten(text: str, changed: Mapping[Key, Manifest]) -> str:
    """A file with some of its objects changed; its comments stay."""
    comments = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    documents = [document for document in yaml.safe_load_all(text) if document is not None]
    return yaml_text(comments, [_replaced(document, changed) for document in documents])


def _replaced(document: dict[str, Any], changed: Mapping[Key, Manifest]) -> Mapping[str, Any]:
    key = (document.get("apiVersion", ""), document.get("kind", ""), document.get("metadata", {}).get("name", ""))
    return changed[key].body if key in changed else document


def standing(files: Mapping[str, str]) -> Objects:
    """The objects of a folder of manifests once all of it is applied."""
    return {_key(manifest): manifest for manifest, _ in read_manifests(files).sound if manifest.api_version}


def transition(before: Objects, files: Mapping[str, str], *, annotated: bool) -> Transition:
    """From what stands to a folder of manifests. Engines of which annotations alone differ stay as they are unless
    `annotated`: rates of all islands change with every server, and pods do not."""
    will, engines = dict(standing(files)), {_key(workload.manifest) for workload in engines_of(files).values()}
    same = {key for key in engines & before.keys() if _bare(before[key]) == _bare(will[key])}
    if not annotated:
        will |= {key: before[key] for key in same}
    fresh = {key: item for key, item in will.items() if key not in before or before[key].body != item.body}
    return Transition(
        engines=tuple(item for key, item in fresh.items() if key in engines - same),
        annotated=tuple(item for key, item in fresh.items() if key in same),
        others=tuple(item for key, item in fresh.items() if key not in engines),
        gone=tuple(item for key, item in before.items() if key not in will),
        standing=will,
    )


def _bare(manifest: Manifest) -> dict[str, Any]:
    """Without its annotations."""
    metadata = {key: value for key, value in manifest.body["metadata"].items() if key != "annotations"}
    return {**manifest.body, "metadata": metadata}


def object_text(comments: Iterable[str], manifests: Sequence[Manifest]) -> str:
    """One file of these objects."""
    return yaml_text(comments, [manifest.body for manifest in manifests])


def _pinned_hosts(pod: FoundPod) -> Iterator[tuple[str, set[str]]]:
    """Field and host names of each rule of a pod's node affinity; Helm values hold it one level deeper."""
    deeper = pod.spec.get("extraConfig", {})
    for path, affinity in (("affinity", pod.spec.get("affinity")), ("extraConfig.affinity", deeper.get("affinity"))):
        for field, rule in _rules(affinity or {}):
            if rule["key"] == HOSTNAME and rule["operator"] == "In":
                yield f"{path}.{field}.values", set(map(str, rule.get("values", ())))


def _rules(affinity: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = affinity.get("nodeAffinity", {}).get(required, {}).get("nodeSelectorTerms", ())
    for number, term in enumerate(terms):
        for index, rule in enumerate(term.get("matchExpressions", ())):
            yield f"nodeAffinity.{required}.nodeSelectorTerms.{number}.matchExpressions.{index}", rule
