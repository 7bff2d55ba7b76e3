"""Target `lws`: a LeaderWorkerSet and a Service for each island, and the routing table.

GPUs of an object = replicas (groups) x size (pods of a group) x the container's GPU limit.
Sources: leaderworkerset.x-k8s.io/v1 (kubernetes-sigs/lws), whose controller gives every pod the variables
LWS_LEADER_ADDRESS and LWS_WORKER_INDEX, and creates a headless Service with the set's own name.
"""

from typing import Any

from planner.export.documents import yaml_text
from planner.export.explanation import island_comments
from planner.export.islands import ServingIsland
from planner.export.pods import check_gpus_told_apart, labels, pod_template
from planner.export.routing import Endpoint, routing_file
from planner.export.seams import Deployment, Launch, Rendezvous

_RENDEZVOUS = Rendezvous(leader_address="$(LWS_LEADER_ADDRESS)", pod_index="$(LWS_WORKER_INDEX)")


class LeaderWorkerSets:
    """Renders one file an island, `NN-<island>.yaml`, and `routing.yaml`."""

    def manifests(self, deployment: Deployment) -> dict[str, str]:
        """File name -> YAML text.

        Raises:
            ExportError: a GPU vendor without a device plugin or image, or GPU types that no label tells
                apart.
        """
        check_gpus_told_apart(deployment)
        digits = max(2, len(str(len(deployment.islands))))
        files: dict[str, str] = {}
        endpoints: list[Endpoint] = []
        for number, island in enumerate(deployment.islands, start=1):
            launch = deployment.engine.launch(island, _RENDEZVOUS)
            files[f"{number:0{digits}}-{island.slug}.yaml"] = yaml_text(
                island_comments(island, deployment, launch.notes),
                (_leader_worker_set(island, deployment, launch), _service(island, deployment, launch)),
            )
            endpoints.append(_endpoint(island, launch))
        return files | routing_file(deployment, endpoints)


def _service_name(island: ServingIsland) -> str:
    """Not the set's own name: the controller takes that for a Service of its own."""
    return f"{island.name}-leader"


def _leader_worker_set(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": island.name, "labels": labels(island, deployment)},
        "spec": {
            "replicas": island.grouping.groups,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": _group(island, deployment, launch),
        },
    }


def _group(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    """A group of one pod has no leader template: the worker template then makes the leader."""
    head = {"size": island.grouping.pods, "restartPolicy": "RecreateGroupOnPodRestart"}
    leader = pod_template(island, deployment, launch)
    if launch.worker is None:
        return {**head, "workerTemplate": leader}
    worker = pod_template(island, deployment, launch, leads=False)
    return {**head, "leaderTemplate": leader, "workerTemplate": worker}


def _service(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _service_name(island), "labels": labels(island, deployment)},
        "spec": {
            "type": "ClusterIP",
            "selector": {
                "leaderworkerset.sigs.k8s.io/name": island.name,
                "leaderworkerset.sigs.k8s.io/worker-index": "0",
            },
            "ports": [{"name": p.name, "port": p.number, "targetPort": p.name} for p in launch.ports],
        },
    }


def _endpoint(island: ServingIsland, launch: Launch) -> Endpoint:
    """The Service, and each group's leader by its stable name, for routers that pair a prefill with a decode
    copy."""
    port = launch.ports[0].number
    leaders = tuple(f"{island.name}-{group}.{island.name}:{port}" for group in range(island.grouping.groups))
    return Endpoint(island=island, service=_service_name(island), port=port, leaders=leaders)
