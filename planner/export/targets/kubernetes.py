"""Target `kubernetes`: a Deployment and a Service for each island whose copies fit one node; no operator is needed.

GPUs of an object = replicas (copies) x the container's GPU limit.
Source: apps/v1 Deployment and v1 Service of Kubernetes.
"""

from typing import Any

from planner.errors import ExportError
from planner.export.engines.seam import Launch, Rendezvous
from planner.export.found import FoundWorkload, Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.explanation import island_comments, operating_notes
from planner.export.objects.pods import (
    ISLAND_LABEL,
    PART_OF_LABEL,
    check_gpus_told_apart,
    found_pod,
    island_pods,
    island_service,
    labels,
    launch_ports,
    pod_template,
    workload_labels,
)
from planner.export.objects.router_objects import is_program, router_object_files
from planner.export.objects.shared_files import island_files
from planner.export.seams import Deployment, Endpoint, Target, TargetFiles
from planner.export.summary import island_annotations

_ALONE = Rendezvous(leader_address="127.0.0.1", pod_index="0")


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """One file an island, `NN-<island>.yaml`.

    Raises:
        ExportError: a copy of the model spans nodes, a GPU vendor without a device plugin or image, or GPU types that
            no label tells apart.
    """
    _check_single_pods(deployment)
    check_gpus_told_apart(deployment)
    files: dict[str, str] = {}
    endpoints: list[Endpoint] = []
    for file, island in island_files(deployment):
        launch = deployment.engine.launch(island, _ALONE)
        files[file] = yaml_text(
            island_comments(island, deployment, (*operating_notes(island, deployment), *launch.notes)),
            (_deployment(island, deployment, launch), _service(island, deployment, launch)),
        )
        endpoints.append(_endpoint(island, deployment, launch))
    return TargetFiles(files=files, endpoints=tuple(endpoints))


def _check_single_pods(deployment: Deployment) -> None:
    wide = [island for island in deployment.islands if island.grouping.pods > 1]
    if wide:
        sizes = ", ".join(f"{i.id} ({i.parallel.devices} {i.gpu.name} in {i.grouping.pods} pods)" for i in wide)
        raise ExportError(
            f"Target kubernetes: a Deployment's pods know nothing of each other, so a copy of the model must fit one "
            f"pod, got {sizes}.",
            hint="Export for lws, or plan with islands of at most a node (search space or cost settings).",
        )


def _selector(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    every = labels(island, deployment)
    return {key: every[key] for key in (PART_OF_LABEL, ISLAND_LABEL)}


def _deployment(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": island.name,
            "labels": workload_labels(island, deployment),
            "annotations": island_annotations(island, deployment),
        },
        "spec": {
            "replicas": island.grouping.groups,
            "selector": {"matchLabels": _selector(island, deployment)},
            # a surge would need GPUs that the plan has given to others
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": pod_template(island, deployment, launch),
        },
    }


def _service(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    return island_service(island.name, island, deployment, _selector(island, deployment), launch_ports(launch))


def _endpoint(island: ServingIsland, deployment: Deployment, launch: Launch) -> Endpoint:
    return Endpoint(
        island=island,
        service=island.name,
        port=launch.ports[0].number,
        leaders=(),
        health_path=launch.health_path,
        bootstrap_ports=launch.bootstrap_ports,
        selector=_selector(island, deployment),
        rank_ports=tuple(port.number for port in launch.rank_ports) if island.by_rank else (),
    )


def _workloads(manifest: Manifest) -> tuple[FoundWorkload, ...]:
    if is_program(manifest):
        return ()
    spec = manifest.body["spec"]
    return (
        FoundWorkload(
            manifest=manifest,
            labels=manifest.labels,
            annotations=manifest.annotations,
            replicas=spec["replicas"],
            replicas_path="spec.replicas",
            size_path="spec.template",
            pods=(found_pod(spec["template"], "spec.template", 1),),
            template={"template": spec["template"]},
        ),
    )


KUBERNETES = Target(
    name="kubernetes",
    manifests=_manifests,
    unheeded=("namespace", "compute_domains"),
    pods_of=island_pods,
    kinds=(Kind(api_version="apps/v1", kind="Deployment", schema="deployment.json", workloads=_workloads),),
    processes=router_object_files,
    scaled=("apps/v1", "Deployment"),
)
