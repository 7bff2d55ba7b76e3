"""The programs of a router as Kubernetes objects: a Deployment, its Service and budget, its configuration, and rights
to list pods where it looks for them; for islands whose pods it tells apart by address, a name that stands for all.

Pods run as nobody, confined as all others are (`hardening`).

By what the programs of routers are told from the islands' workloads in finished manifests.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from planner.errors import ExportError
from planner.export.found import Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.documents import MOST_OF_A_CONFIG_MAP, config_map_bytes, yaml_text
from planner.export.objects.names import pods_service
from planner.export.objects.operating.draining import LEAVING_S
from planner.export.objects.pods import PART_OF_LABEL, labels
from planner.export.objects.security.confinement import confinement_words
from planner.export.objects.security.exemptions import WATCHED_PODS
from planner.export.objects.security.hardening import bounded, confined, confined_pod
from planner.export.objects.weights import secret_variable
from planner.export.seams import CONFIG_FOLDER, Deployment, RouterProcess
from planner.export.templating import objects_of

COMPONENT_LABEL = "app.kubernetes.io/component"
COMPONENT = "router"
ROUTER_LABEL = "planner/router"
PROGRAM_LABEL = "planner/router-program"
SCRIPT_KIND = "router script"
CONFIG_KIND = "router configuration"
LUA_KIND = "router Lua"
PAIRS_KIND = "router pairs"


def of_router(manifest: Manifest) -> bool:
    """Whether an object belongs to a router, and to no island."""
    return manifest.labels.get(COMPONENT_LABEL) == COMPONENT


def is_program(manifest: Manifest) -> bool:
    """Whether a Deployment runs a router's program and no island's."""
    return manifest.kind == "Deployment" and of_router(manifest)


_CONFIG_PATH = "/etc/router"
NOBODY = 65532


def router_object_files(processes: Sequence[RouterProcess], deployment: Deployment, /) -> dict[str, str]:
    """`router.yaml` with all objects of all programs."""
    documents = [document for process in processes for document in _objects(process, deployment)]
    return {"router.yaml": yaml_text(_comments(processes, deployment), documents)}


def _comments(processes: Sequence[RouterProcess], deployment: Deployment) -> Iterator[str]:
    assert deployment.router is not None
    behaviour = deployment.behaviour
    plan = deployment.plan
    yield f"Router {deployment.router.name} of plan {plan.scenario.name}: requests go to {processes[0].name}."
    yield (
        f"Among the servers of a length it chooses by {deployment.chooses}; the plan's promise assumes "
        f"{plan.scenario.router.name}."
    )
    yield from behaviour.notes
    for process in processes:
        yield from (f"{process.name}: {note}" for note in process.notes)
    yield from confinement_words([WATCHED_PODS] if any(process.watches_pods for process in processes) else [])


def _objects(process: RouterProcess, deployment: Deployment) -> list[dict[str, Any]]:
    assert deployment.router is not None
    _require_room(process, deployment)
    return program_objects(
        process,
        part_of=deployment.name,
        router=deployment.router.name,
        labels_of=lambda island: labels(island, deployment),
    )


def _no_labels(_: ServingIsland) -> dict[str, str]:
    return {}


def program_objects(
    process: RouterProcess,
    *,
    part_of: str,
    router: str,
    labels_of: Callable[[ServingIsland], dict[str, str]] = _no_labels,
) -> list[dict[str, Any]]:
    """All objects of a program of `router`; `labels_of`: of islands whose pods it finds by name."""
    own_labels = {
        PART_OF_LABEL: part_of,
        COMPONENT_LABEL: COMPONENT,
        "app.kubernetes.io/managed-by": "planner",
        ROUTER_LABEL: router,
        PROGRAM_LABEL: process.name,
    }
    return objects_of(
        "router-program",
        program=process,
        metadata={"name": process.name, "labels": own_labels},
        selector={PROGRAM_LABEL: process.name},
        config=dict(process.config),
        config_path=_CONFIG_PATH,
        secrets=[secret_variable(variable, secret) for variable, secret in process.secrets],
        confined=confined_pod(token=process.watches_pods),
        context=confined(user=NOBODY, group=NOBODY),
        resources=bounded({"cpu": process.cpus, "memory": f"{process.memory_mib}Mi"}),
        words=[word.replace(CONFIG_FOLDER, _CONFIG_PATH) for word in process.command],
        leaving_s=LEAVING_S,
        pods_service=pods_service,
        labels_of=labels_of,
    )


def _require_room(process: RouterProcess, deployment: Deployment) -> None:
    size = config_map_bytes(dict(process.config))
    if size > MOST_OF_A_CONFIG_MAP:
        raise ExportError(
            f"Plan {deployment.plan.scenario.name}, router {process.name}: its configuration must fit a ConfigMap's "
            f"{MOST_OF_A_CONFIG_MAP:,} bytes, got {size:,}.",
            hint="Plan with routing: {form: buckets}, whose pools are few, or take --router none.",
        )
