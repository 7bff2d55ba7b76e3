"""Target `lws`: a LeaderWorkerSet and a Service for each island, and the routing table.

GPUs of an object = replicas (groups) x size (pods of a group) x the container's GPU limit.
Sources: leaderworkerset.x-k8s.io/v1 (kubernetes-sigs/lws), whose controller gives every pod the variables
LWS_LEADER_ADDRESS and LWS_WORKER_INDEX, and creates a headless Service with the set's own name.
"""

from collections.abc import Mapping
from typing import Any

from planner.export.engines.seam import Launch, Rendezvous
from planner.export.found import FoundPod, FoundWorkload, Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.explanation import island_comments, operating_notes
from planner.export.objects.names import MAX_WORKLOAD_NAME
from planner.export.objects.pods import (
    check_gpus_told_apart,
    found_pod,
    island_pods,
    island_service,
    launch_ports,
    pod_template,
    workload_labels,
)
from planner.export.objects.router_objects import router_object_files
from planner.export.objects.scheduling import packing
from planner.export.objects.shared_files import island_files
from planner.export.seams import Deployment, Endpoint, Target, TargetFiles
from planner.export.summary import island_annotations

_SET_LABEL = "leaderworkerset.sigs.k8s.io/name"
INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_TEMPLATE = "spec.leaderWorkerTemplate"
RENDEZVOUS = Rendezvous(leader_address="$(LWS_LEADER_ADDRESS)", pod_index="$(LWS_WORKER_INDEX)")


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """One file an island, `NN-<island>.yaml`.

    Raises:
        ExportError: a GPU vendor without a device plugin or image, or GPU types that no label tells apart.
    """
    check_gpus_told_apart(deployment)
    files: dict[str, str] = {}
    endpoints: list[Endpoint] = []
    for file, island in island_files(deployment):
        launch = deployment.engine.launch(island, RENDEZVOUS)
        files[file] = yaml_text(
            island_comments(
                island,
                deployment,
                (*operating_notes(island, deployment), *packing_notes(island, deployment), *launch.notes),
            ),
            (_leader_worker_set(island, deployment, launch), _service(island, deployment, launch)),
        )
        endpoints.append(_endpoint(island, launch))
    return TargetFiles(files=files, endpoints=tuple(endpoints))


def _service_name(island: ServingIsland) -> str:
    """Not the set's own name: the controller takes that for a Service of its own."""
    return f"{island.name}-leader"


def _leader_worker_set(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": island.name,
            "labels": workload_labels(island, deployment),
            "annotations": island_annotations(island, deployment) | exclusive_annotation(island, deployment),
        },
        "spec": leader_worker_spec(island, deployment, launch),
    }


def exclusive_annotation(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """One group a switch: the only packing that the controller knows by itself, and it lets no other group in."""
    constraint = packing(island, deployment)
    by_controller = constraint and constraint.exclusive and not deployment.options.queue
    return {EXCLUSIVE: constraint.label} if constraint and by_controller else {}


def packing_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """What the reader must know where the island's packing cannot be asked for."""
    constraint = packing(island, deployment)
    if constraint is None or constraint.exclusive or deployment.options.queue:
        return ()
    return (
        "WARNING: not asked for below: without a Kueue queue a LeaderWorkerSet can only ask for a switch of its own, "
        "and the plan gives it none (export with --queue).",
    )


def leader_worker_spec(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    """The groups of an island. One of one pod has no leader template: its worker template makes the leader."""
    templates = {"workerTemplate": pod_template(island, deployment, launch)}
    if launch.worker is not None:
        worker = pod_template(island, deployment, launch, leads=False)
        templates = {"leaderTemplate": templates["workerTemplate"], "workerTemplate": worker}
    return {
        "replicas": island.grouping.groups,
        "startupPolicy": "LeaderCreated",
        "leaderWorkerTemplate": {
            "size": island.grouping.pods,
            "restartPolicy": "RecreateGroupOnPodRestart",
            **templates,
        },
    }


def _service(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    return island_service(_service_name(island), island, deployment, _selector(island), launch_ports(launch))


def _selector(island: ServingIsland) -> dict[str, str]:
    return {_SET_LABEL: island.name, **answering_index(island)}


def answering_index(island: ServingIsland) -> dict[str, str]:
    """The label of the pods of a group that take requests: its leader, or all where ranks are endpoints."""
    return {} if island.by_rank else {INDEX_LABEL: "0"}


def _endpoint(island: ServingIsland, launch: Launch) -> Endpoint:
    """The Service, and each group's leader by its stable name, for routers that pair a prefill with a decode
    copy."""
    port, ports = launch.ports[0].number, tuple(port.number for port in launch.rank_ports)
    groups = [f"{island.name}-{group}" for group in range(island.grouping.groups)]
    leaders = tuple(f"{group}.{island.name}:{port}" for group in groups)
    pods = [f"{group}-{pod}" if pod else group for group in groups for pod in range(island.grouping.pods)]
    ranks = tuple(f"{pod}.{island.name}:{number}" for pod in pods for number in ports)
    return Endpoint(
        island=island,
        service=_service_name(island),
        port=port,
        leaders=leaders,
        health_path=launch.health_path,
        bootstrap_ports=launch.bootstrap_ports * len(leaders),
        selector=_selector(island),
        rank_ports=ports if island.by_rank else (),
        ranks=ranks if island.by_rank else (),
    )


def _workloads(manifest: Manifest) -> tuple[FoundWorkload, ...]:
    spec = manifest.body["spec"]
    return (
        FoundWorkload(
            manifest=manifest,
            labels=manifest.labels,
            annotations=manifest.annotations,
            replicas=spec["replicas"],
            replicas_path="spec.replicas",
            size_path=f"{_TEMPLATE}.size",
            pods=found_group(manifest.name, spec["leaderWorkerTemplate"], _TEMPLATE),
            leader_address=RENDEZVOUS.leader_address,
            pod_index=RENDEZVOUS.pod_index,
            leader_host=f"{manifest.name}-{{}}.{manifest.name}",
            template={"leaderWorkerTemplate": spec["leaderWorkerTemplate"]},
        ),
    )


def found_group(
    name: str, group: Mapping[str, Any], path: str, added_labels: Mapping[str, str] | None = None
) -> tuple[FoundPod, ...]:
    """The pods of a leaderWorkerTemplate, which the field `path` holds, of a set called `name`. `added_labels`: those
    of the controller that makes the set.

    Without a leader template the first pod of the group is made from the worker template.
    """
    worker, size = group["workerTemplate"], group["size"]
    leader, leader_key = (group["leaderTemplate"], "leader") if "leaderTemplate" in group else (worker, "worker")
    set_labels = {_SET_LABEL: name, **(added_labels or {})}
    first = found_pod(leader, f"{path}.{leader_key}Template", 1, {**set_labels, INDEX_LABEL: "0"})
    if size == 1 and "leaderTemplate" not in group:
        return (first,)
    return (first, found_pod(worker, f"{path}.workerTemplate", size - 1, set_labels))


LWS = Target(
    name="lws",
    manifests=_manifests,
    pods_of=island_pods,
    kinds=(
        Kind(
            api_version="leaderworkerset.x-k8s.io/v1",
            kind="LeaderWorkerSet",
            schema="leaderworkerset.json",
            workloads=_workloads,
            longest_name=MAX_WORKLOAD_NAME,
            claims=("Service",),  # the controller makes a headless one with the set's name
        ),
    ),
    processes=router_object_files,
    scaled=("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
)
