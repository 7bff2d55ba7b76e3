"""The programs of a router as Kubernetes objects: a Deployment, its Service and budget, its configuration, and rights
to list pods where it looks for them; for islands whose pods it tells apart by address, a name that stands for all.

Pods run as nobody, without privileges and with a root file system that nobody writes to (Pod Security `restricted`).

By what the programs of routers are told from the islands' workloads in finished manifests.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.errors import ExportError
from planner.export.found import Manifest
from planner.export.objects.documents import MOST_OF_A_CONFIG_MAP, config_map_bytes, yaml_text
from planner.export.objects.names import pods_service
from planner.export.objects.operating.draining import LEAVING_S
from planner.export.objects.pods import PART_OF_LABEL, labels
from planner.export.seams import CONFIG_FOLDER, NAMESPACE, Deployment, Endpoint, RouterProcess

COMPONENT_LABEL = "app.kubernetes.io/component"
COMPONENT = "router"
ROUTER_LABEL = "planner/router"
PROGRAM_LABEL = "planner/router-program"
SCRIPT_KIND = "router script"
CONFIG_KIND = "router configuration"


def of_router(manifest: Manifest) -> bool:
    """Whether an object belongs to a router, and to no island."""
    return manifest.labels.get(COMPONENT_LABEL) == COMPONENT


def is_program(manifest: Manifest) -> bool:
    """Whether a Deployment runs a router's program and no island's."""
    return manifest.kind == "Deployment" and of_router(manifest)


_CONFIG_PATH, _SCRATCH = "/etc/router", "/tmp"  # noqa: S108  # mount points, no files
_NOBODY = 65532
_RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": _NOBODY,
    "runAsGroup": _NOBODY,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def router_object_files(processes: Sequence[RouterProcess], deployment: Deployment, /) -> dict[str, str]:
    """`router.yaml` with all objects of all programs."""
    documents = [document for process in processes for document in _objects(process, deployment)]
    return {"router.yaml": yaml_text(_comments(processes, deployment), documents)}


def _comments(processes: Sequence[RouterProcess], deployment: Deployment) -> Iterator[str]:
    assert deployment.router is not None
    behaviour = deployment.router.behaviour(deployment.plan)
    plan = deployment.plan
    yield f"Router {deployment.router.name} of plan {plan.scenario.name}: requests go to {processes[0].name}."
    yield (
        f"Among the servers of a length it chooses by {behaviour.policy.value}; the plan's promise assumes "
        f"{plan.scenario.routing.policy.value}."
    )
    yield from behaviour.notes
    for process in processes:
        yield from (f"{process.name}: {note}" for note in process.notes)


def _labels(process: RouterProcess, deployment: Deployment) -> dict[str, str]:
    assert deployment.router is not None
    return {
        PART_OF_LABEL: deployment.name,
        COMPONENT_LABEL: COMPONENT,
        "app.kubernetes.io/managed-by": "planner",
        ROUTER_LABEL: deployment.router.name,
        PROGRAM_LABEL: process.name,
    }


def _objects(process: RouterProcess, deployment: Deployment) -> Iterator[dict[str, Any]]:
    metadata = {"name": process.name, "labels": _labels(process, deployment)}
    if process.config:
        _require_room(process, deployment)
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(process.config)}
    if process.watches_pods:
        yield from _rights(process, metadata)
    yield _deployment(process, metadata)
    selector = {PROGRAM_LABEL: process.name}
    port = {"name": "http", "port": process.port, "targetPort": "http"}
    spec: dict[str, Any] = {"type": "ClusterIP", "selector": selector, "ports": [port]}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    if process.replicas > 1:
        budget = {"minAvailable": 1, "selector": {"matchLabels": selector}}
        yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget}
    yield from (_pods_service(endpoint, deployment) for endpoint in process.resolves)


def _require_room(process: RouterProcess, deployment: Deployment) -> None:
    size = config_map_bytes(dict(process.config))
    if size > MOST_OF_A_CONFIG_MAP:
        raise ExportError(
            f"Plan {deployment.plan.scenario.name}, router {process.name}: its configuration must fit a ConfigMap's "
            f"{MOST_OF_A_CONFIG_MAP:,} bytes, got {size:,}.",
            hint="Plan with routing: {form: buckets}, whose pools are few, or take --router none.",
        )


def _pods_service(endpoint: Endpoint, deployment: Deployment) -> dict[str, Any]:
    """A Service without an address of its own: its name stands for the addresses of all pods that answer."""
    port = {"name": "http", "port": endpoint.port, "targetPort": endpoint.port}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": pods_service(endpoint.service), "labels": labels(endpoint.island, deployment)},
        "spec": {"clusterIP": "None", "selector": dict(endpoint.selector), "ports": [port]},
    }


def _rights(process: RouterProcess, metadata: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An account that may look at the pods of its namespace, and at nothing else."""
    group, name = "rbac.authorization.k8s.io", process.name
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    yield {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": name}],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
    }


def _deployment(process: RouterProcess, metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": process.replicas,
            "selector": {"matchLabels": {PROGRAM_LABEL: process.name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": metadata["labels"]}, "spec": _pod(process)},
        },
    }


def _pod(process: RouterProcess) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "automountServiceAccountToken": process.watches_pods,
        "terminationGracePeriodSeconds": LEAVING_S + process.grace_s + 10,
        "containers": [_container(process)],
        "volumes": list(_volumes(process)),
    }
    if process.watches_pods:
        spec["serviceAccountName"] = process.name
    return spec


def _container(process: RouterProcess) -> dict[str, Any]:
    namespace = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    words = [word.replace(CONFIG_FOLDER, _CONFIG_PATH) for word in process.command]
    environment: list[dict[str, Any]] = [
        {"name": NAMESPACE, "valueFrom": namespace},
        {"name": "HOME", "value": _SCRATCH},
    ]
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": _SCRATCH}]
    if process.config:
        mounts.append({"name": "config", "mountPath": _CONFIG_PATH, "readOnly": True})
    get = {"path": process.health_path, "port": "http"}
    return {
        "name": "router",
        "image": process.image,
        "command": words[:1],
        "args": words[1:],
        "env": environment,
        "ports": [{"name": "http", "containerPort": process.port}],
        "readinessProbe": {"httpGet": get, "periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 2},
        # the Service must have let go of it before it ends
        "lifecycle": {"preStop": {"sleep": {"seconds": LEAVING_S}}},
        "resources": _resources(process),
        "securityContext": _RESTRICTED,
        "volumeMounts": mounts,
    }


def _resources(process: RouterProcess) -> dict[str, Any]:
    return {"limits": {"cpu": process.cpus, "memory": f"{process.memory_mib}Mi"}}


def _volumes(process: RouterProcess) -> Iterator[dict[str, Any]]:
    yield {"name": "scratch", "emptyDir": {"sizeLimit": "256Mi"}}
    if process.config:
        yield {"name": "config", "configMap": {"name": process.name}}
