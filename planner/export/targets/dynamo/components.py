"""DynamoGraphDeployments and their components: workers of islands, local routers, the frontend, the GlobalRouter.

symbol     meaning                                      value   source
COMPONENTS of one graph at most                         25      CRD of nvidia.com/v1beta1, spec.components
BUDGET     characters of graph + component name, and    45      the operator's admission (dynamo pull request 5449):
           of the longer of its leader and worker name          Grove's limit, <component>-ldr, <component>-wkr
           where it spans nodes
NAMESPACE  Dynamo's own, of a graph: workers may name   -       <Kubernetes namespace>-<graph>; api/v1beta1,
           another graph's (--namespace)                        ComputeDynamoNamespace

Sources: deploy/operator/api/v1beta1 and examples/global_planner of ai-dynamo/dynamo. The operator gives workers their
ports, probes and /dev/shm. CPUs and memory of routers and frontends are assumptions.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from planner.domain import Phase
from planner.export.islands import ServingIsland
from planner.export.objects.documents import whole_number
from planner.export.objects.names import DIGEST, one_line, plan_labels
from planner.export.objects.operating.draining import drain_seconds
from planner.export.objects.pods import GPU_RESOURCES, labels, pod_template
from planner.export.objects.security.confinement import (
    engine_folders,
    engine_mounts,
    engine_variables,
    pod_context,
)
from planner.export.objects.security.hardening import bounded, confined
from planner.export.objects.weights import model_environment, model_mounts, model_volumes, waiting
from planner.export.options import chosen_image
from planner.export.routers.pairings import by_prefix
from planner.export.seams import Deployment
from planner.export.summary import PREFIX, part_annotations
from planner.export.targets.dynamo.engines import (
    DYNAMO_ENGINES,
    MP_ANNOTATION,
    RUNTIME_VERSION,
    spans_ranks,
    worker_launch,
)
from planner.export.templating import object_of

API_VERSION = "nvidia.com/v1beta1"
KIND = "DynamoGraphDeployment"
MOST_COMPONENTS = 25
NAME_BUDGET = 45
MAIN = "main"  # the container that the operator completes
COMPONENT_TYPES = MappingProxyType({Phase.PREFILL: "prefill", Phase.DECODE: "decode", Phase.MIXED: "worker"})
FRONTEND, LOCAL_ROUTER, GLOBAL_ROUTER = "frontend", "router", "globalrouter"
GRID_COST = f"{PREFIX}grid-cost"
GRID_CELLS = f"{PREFIX}grid-cells"

_MAX_PREFIX = 24  # leaves room for -ctrl and the longest component, and for -d99 and twice iNN
_VERSION_TAG = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][A-Za-z0-9.-]+)?")
_SHARED_MEMORY = "shared-memory"
_SYSTEM_PORT = "9090"
SYSTEM_PORT_VARIABLE = "DYN_SYSTEM_PORT"
GRACE_VARIABLE = "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS"  # 5 by default (Dynamo's documents, graceful shutdown)
CONFIG_FOLDER = "/etc/dynamo"
CONFIG_KEY = "global-router.json"
_EVENTS_PORT = 20080
# load alone decides: lengths were dealt with above, and prefixes are not in the plan's rates
_BY_LOAD = ("--no-router-kv-events", "--router-kv-overlap-score-credit", "0")
_BY_PREFIX = ("--router-kv-events", "--router-kv-overlap-score-credit", "1")


def graph_name(deployment: Deployment, suffix: str = "") -> str:
    """Name of a graph: the plan's label, cut to what the name budget leaves, and `suffix`."""
    name = deployment.name
    if len(name) > _MAX_PREFIX:
        name = f"{name[: _MAX_PREFIX - DIGEST - 1].rstrip('-')}-{sha256(name.encode()).hexdigest()[:DIGEST]}"
    return f"{name}-{suffix}" if suffix else name


def dynamo_namespace(namespace: str, graph: str) -> str:
    """Dynamo's namespace of a graph in a Kubernetes namespace."""
    return f"{namespace}-{graph}"


def name_length(graph: str, component: str, nodes: int) -> int:
    """What the names of a graph and a component count towards the budget."""
    return len(graph) + len(component) + (len(component) + len("-ldr") if nodes > 1 else 0)


def component_name(deployment: Deployment, graph: str, island: ServingIsland) -> str:
    """The island's slug, or its number in the plan where the name budget does not leave room for it."""
    if name_length(graph, island.slug, island.grouping.pods) <= NAME_BUDGET:
        return island.slug
    return f"i{deployment.islands.index(island) + 1:02}"


def graph(
    deployment: Deployment,
    name: str,
    components: Sequence[dict[str, Any]],
    islands: Mapping[str, ServingIsland] | None = None,
) -> dict[str, Any]:
    """One DynamoGraphDeployment; `islands`: by the name of the component that runs them."""
    assert len(components) <= MOST_COMPONENTS
    return object_of(
        "dynamo-graph",
        name=name,
        namespace=deployment.options.namespace,
        labels=plan_labels(deployment.name),
        annotations=_annotations(deployment) | part_annotations(islands or {}, deployment),
        engine=deployment.engine.name,
        components=components,
        priority_class=deployment.options.priority_class,
    )


def _annotations(deployment: Deployment) -> dict[str, str]:
    scenario = deployment.plan.scenario
    head = {"plan": one_line(scenario.name), "model": one_line(scenario.model.name), "target": deployment.target.name}
    annotations = {f"{PREFIX}{key}": value for key, value in head.items()}
    if deployment.grid is not None:
        annotations |= {GRID_CELLS: str(len(deployment.grid.prefill.cells)), GRID_COST: repr(deployment.grid.cost)}
    return annotations


def worker(
    island: ServingIsland, deployment: Deployment, graph: str, namespace: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The component of `graph` that runs `island` as a worker of Dynamo's `namespace`, and what the engine notes.

    GPUs = replicas x nodeCount x the container's limit.
    """
    if by_prefix(deployment.plan) and island.takes_prompts:
        island = replace(island, events_port=_EVENTS_PORT)
    launch = worker_launch(island, deployment.engine, namespace)
    template = pod_template(island, deployment, launch, leads=False)
    component: dict[str, Any] = {
        "name": component_name(deployment, graph, island),
        "type": COMPONENT_TYPES[island.phase],
        "replicas": island.grouping.groups,
    }
    if island.grouping.pods > 1:
        component["multinode"] = {"nodeCount": island.grouping.pods}
    component["sharedMemorySize"] = f"{deployment.options.shared_memory_gib + launch.needs.shared_gib}Gi"
    template["metadata"] = {"labels": labels(island, deployment)}
    if spans_ranks(island, deployment.engine):
        template["metadata"]["annotations"] = {MP_ANNOTATION: "mp"}
    _as_main(template["spec"])
    _drained(template["spec"]["containers"][0], drain_seconds(island, deployment))
    return _versioned(component | {"podTemplate": template}), launch.notes


def _as_main(spec: dict[str, Any]) -> None:
    """The engine's container becomes the operator's, which mounts /dev/shm itself."""
    container = spec["containers"][0]
    container["name"] = MAIN
    for holder, key in ((container, "volumeMounts"), (spec, "volumes")):
        holder[key] = [entry for entry in holder[key] if entry["name"] != _SHARED_MEMORY]
        if not holder[key]:
            del holder[key]


def _drained(container: dict[str, Any], seconds: int) -> None:
    """Dynamo's runtime ends by itself: SIGTERM takes the worker out of discovery, which a hook would put off, and then
    it serves what it has for as long as the variable says."""
    del container["lifecycle"]
    container.setdefault("env", []).append({"name": GRACE_VARIABLE, "value": str(seconds)})


def _choice(deployment: Deployment, phase: Phase) -> tuple[str, ...]:
    """Load alone; or, among those who take prompts of a plan that counts on prefixes, the tokens to come of a prompt
    less what workers tell that they hold of it, less of it where it lies below device memory."""
    return _BY_PREFIX if _looks(deployment, phase) else _BY_LOAD


def _looks(deployment: Deployment, phase: Phase) -> bool:
    return phase is not Phase.DECODE and by_prefix(deployment.plan)


def choice_words(deployment: Deployment, phase: Phase) -> str:
    """What a pool's router goes by."""
    return "prefix and load" if _looks(deployment, phase) else "load"


def local_router(deployment: Deployment, graph: str, phase: Phase) -> dict[str, Any]:
    """Spreads the requests of a pool over its workers; the GlobalRouter finds it by its namespace."""
    namespace = dynamo_namespace(deployment.options.namespace, graph)
    workers = DYNAMO_ENGINES[deployment.engine.name].components[phase]
    arguments = ["--endpoint", f"{namespace}.{workers}.generate", *_choice(deployment, phase)]
    if phase is Phase.PREFILL:
        arguments.append("--no-router-track-active-blocks")  # a prefill worker's load is its prompts
    return _service(deployment, LOCAL_ROUTER, "dynamo.router", arguments, env={SYSTEM_PORT_VARIABLE: _SYSTEM_PORT})


def frontend(deployment: Deployment, graph: str, *, routes: bool) -> dict[str, Any]:
    """Takes requests; `routes`: to the workers of its own graph; else all to the GlobalRouter."""
    namespace = dynamo_namespace(deployment.options.namespace, graph)
    mode = ["--router-mode", "kv", *_choice(deployment, Phase.MIXED)] if routes else ["--router-mode", "round-robin"]
    arguments = [*mode, "--namespace", namespace, "--model-name", _model(deployment)]
    return _service(deployment, FRONTEND, "dynamo.frontend", arguments, kind="frontend")


def global_router(deployment: Deployment, graph: str, config_map: str) -> dict[str, Any]:
    """Picks the pool of every prompt by its length."""
    arguments = ["--config", f"{CONFIG_FOLDER}/{CONFIG_KEY}", "--model-name", _model(deployment)]
    arguments += ["--namespace", dynamo_namespace(deployment.options.namespace, graph)]
    return _service(deployment, GLOBAL_ROUTER, "dynamo.global_router", arguments, config_map=config_map)


def _model(deployment: Deployment) -> str:
    """The name under which workers and routers register the model."""
    return deployment.islands[0].weights


def _service(
    deployment: Deployment,
    name: str,
    module: str,
    arguments: Sequence[str],
    *,
    kind: str = "",
    env: Mapping[str, str] = MappingProxyType({}),
    config_map: str = "",
) -> dict[str, Any]:
    """A component without GPUs. A router has no type of its own."""
    first, image = deployment.islands[0], _plain_image(deployment)
    exemptions = deployment.engine.exemptions(first)
    # for the tokenizer beside the weights
    mounts = [*engine_mounts(first, deployment), *model_mounts(first, deployment)]
    volumes = [*engine_folders(first, deployment), *model_volumes(deployment)]
    if config_map:
        mounts.append({"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True})
        volumes.append({"name": "config", "configMap": {"name": config_map}})
    component = object_of(
        "dynamo-program",
        name=name,
        kind=kind,
        labels=plan_labels(deployment.name),
        image=image,
        module=module,
        args=arguments,
        env=[
            *({"name": key, "value": value} for key, value in env.items()),
            *engine_variables(first, deployment),
            *model_environment(first, deployment),
        ],
        mounts=mounts,
        volumes=volumes,
        init=waiting(first.weights, deployment.options, image, exemptions),
        resources=bounded({"cpu": 4, "memory": "8Gi"}),
        context=confined(exemptions, user=deployment.engine.user, group=deployment.engine.group),
        confined=pod_context(first, deployment),
    )
    return _versioned(component)


def _plain_image(deployment: Deployment) -> str:
    """Routers need no GPU: the image for NVIDIA's, which is there by default."""
    default = deployment.engine.images["NVIDIA"]
    return chosen_image(deployment.options, "NVIDIA", default) or default


def container_gpus(component: Mapping[str, Any]) -> int:
    """GPUs of the main container, of any vendor; what is no whole number counts as none."""
    limits = component["podTemplate"]["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return sum(whole_number(limits.get(resource, 0)) for resource in GPU_RESOURCES.values())


def tells_version(image: str) -> bool:
    """Whether the operator can read Dynamo's version from the image's tag."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return _VERSION_TAG.fullmatch(tag) is not None


def _versioned(component: dict[str, Any]) -> dict[str, Any]:
    """With the runtime's version where the image does not name it: the one that these flags are written for."""
    image = component["podTemplate"]["spec"]["containers"][0]["image"]
    return component if tells_version(image) else component | {"runtimeVersionOverride": RUNTIME_VERSION}
