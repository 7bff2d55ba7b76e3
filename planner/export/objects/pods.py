"""Pod templates and Services, the same for every Kubernetes target; and the fields that a controller makes pods from,
by which two exports are compared: where one differs the pods are replaced."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from planner.domain import PodField
from planner.errors import ExportError, InputError
from planner.export.engines.seam import HEALTH, Launch, PodCommand
from planner.export.engines.tiers import FOLDER, PodNeeds, host_gib_per_gpu
from planner.export.found import FoundPod, FoundWorkload
from planner.export.islands import ServingIsland
from planner.export.objects.names import check_node_selector, label_value
from planner.export.objects.operating.domains import container_claims, pod_claims
from planner.export.objects.operating.draining import drain_arguments, engine_finishes, grace_seconds, lifecycle
from planner.export.objects.operating.network import network_environment, network_limits
from planner.export.objects.operating.probes import probes
from planner.export.objects.scheduling import pod_annotations, pod_scheduling, queue_labels, spread, tolerations
from planner.export.objects.security.confinement import (
    engine_context,
    engine_folders,
    engine_mounts,
    engine_variables,
    pod_context,
)
from planner.export.objects.security.hardening import bounded
from planner.export.objects.weights import model_environment, model_mounts, model_volumes, secret_variable, waiting
from planner.export.options import api_key_of, chosen_image, image_is_pinned
from planner.export.seams import Deployment
from planner.export.templating import object_of

ISLAND_LABEL = "planner/island"
PHASE_LABEL = "planner/phase"
GPU_LABEL = "planner/gpu"
ENGINE_LABEL = "app.kubernetes.io/name"
PART_OF_LABEL = "app.kubernetes.io/part-of"
_CACHES = "kv-cache"
GPU_RESOURCES: Mapping[str, str] = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}


def gpu_resource(island: ServingIsland) -> str:
    """The extended resource of the island's GPUs.

    Raises:
        ExportError: no device plugin is known for the vendor.
    """
    vendor = island.gpu.vendor.upper()
    if vendor not in GPU_RESOURCES:
        raise ExportError(
            f"Island {island.id}, GPU {island.gpu.name}, vendor: must be one of {', '.join(GPU_RESOURCES)}, "
            f"got {island.gpu.vendor!r}.",
            hint="Mend the vendor of the GPU type.",
        )
    return GPU_RESOURCES[vendor]


def engine_image(island: ServingIsland, deployment: Deployment) -> str:
    """The container image for the island's GPUs.

    Raises:
        ExportError: the engine has no pinned image for the GPUs, and the options name none.
    """
    vendor = island.gpu.vendor.upper()
    images = deployment.engine.images
    image = chosen_image(deployment.options, vendor, images.get(island.gpu.family) or images.get(vendor))
    if image is None:
        raise ExportError(
            f"Island {island.id}, engine {deployment.engine.name}: no image is known for {island.gpu.vendor} GPUs.",
            hint="Give one: `planner export --image VENDOR=IMAGE`, or deploy.images.",
        )
    assert image_is_pinned(image)
    return image


def workload_labels(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """Labels of the object that runs the island: every object's, and the queue that admits it."""
    return labels(island, deployment) | queue_labels(deployment)


def labels(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """Labels of every object of the island and of its pods."""
    return {
        ENGINE_LABEL: deployment.engine.name,
        PART_OF_LABEL: deployment.name,
        "app.kubernetes.io/component": island.phase.value,
        "app.kubernetes.io/managed-by": "planner",
        ISLAND_LABEL: label_value(island.slug),
        PHASE_LABEL: island.phase.value,
        GPU_LABEL: label_value(island.gpu.name),
    }


def router_labels(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """Labels by which the router, if any, picks the island's pods; no selector of ours goes by them."""
    router = deployment.router
    return router.pod_labels(island, deployment) if router and router.pod_labels else {}


def island_pods(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """Labels by which the island's pods can be selected where `pod_template` gave them theirs."""
    every = labels(island, deployment)
    return {key: every[key] for key in (PART_OF_LABEL, ISLAND_LABEL)}


def router_annotations(island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, str]:
    """What the router, if any, reads of a pod that it has picked."""
    router = deployment.router
    return router.pod_annotations(island, deployment, launch) if router and router.pod_annotations else {}


def _router_flags(deployment: Deployment) -> list[str]:
    """The name by which the router, if it goes by names, has the engines serve the model."""
    router = deployment.router
    return [f"--served-model-name={router.served_name(deployment)}"] if router and router.served_name else []


def check_gpus_told_apart(deployment: Deployment) -> None:
    """Every two GPU types of one vendor need node selectors that no node can satisfy at once.

    Raises:
        ExportError: the scheduler could put pods of one type onto the other's nodes.
        InputError: a selector is not made of Kubernetes labels.
    """
    types = {island.gpu.name: island for island in deployment.islands}
    for gpu, island in types.items():
        check_node_selector(gpu, island.gpu.node_selector)
    for first, second in combinations(types.values(), 2):
        first_labels, second_labels = dict(first.gpu.node_selector), dict(second.gpu.node_selector)
        apart = any(second_labels.get(key, value) != value for key, value in first_labels.items())
        if gpu_resource(first) == gpu_resource(second) and not apart:
            raise ExportError(
                f"GPUs {first.gpu.name} and {second.gpu.name}, node_selector: "
                f"must differ in the value of one key, got {first_labels} and {second_labels}.",
                hint="Give each type its node labels, for example nvidia.com/gpu.product.",
            )


def pod_template(
    island: ServingIsland, deployment: Deployment, launch: Launch, *, leads: bool = True
) -> dict[str, Any]:
    """The template of one pod of `island`; those that answer get ports and probes: the leader's, or all where ranks
    are endpoints."""
    resource = gpu_resource(island)
    spec: dict[str, Any] = {
        "containers": [_container(island, deployment, launch, leads)],
        "tolerations": tolerations(resource, deployment.plan.scenario.placement),
        "volumes": [
            _shared_memory(deployment, launch.needs),
            *cache_volumes(launch.needs),
            *engine_folders(island, deployment),
            *model_volumes(deployment),
        ],
        "terminationGracePeriodSeconds": grace_seconds(island, deployment),
        **_before(island, deployment),
        **pod_context(island, deployment),
        **pod_claims(island, deployment),
    }
    if island.gpu.node_selector:
        spec["nodeSelector"] = dict(island.gpu.node_selector)
    metadata: dict[str, Any] = {"labels": labels(island, deployment)}
    annotations = pod_annotations(island, deployment)
    if leads or island.by_rank:  # the others answer nobody
        metadata["labels"] |= router_labels(island, deployment)
        annotations = annotations | router_annotations(island, deployment, launch)
    if annotations:
        metadata["annotations"] = annotations
    apart = spread(island, island_pods(island, deployment))
    return {"metadata": metadata, "spec": spec | pod_scheduling(island, deployment) | apart}


def _before(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """Init containers, which have the engine's image: nodes fetch it anyway."""
    image, exemptions = engine_image(island, deployment), deployment.engine.exemptions(island)
    containers = waiting(island.weights, deployment.options, image, exemptions)
    return {"initContainers": containers} if containers else {}


def _container(island: ServingIsland, deployment: Deployment, launch: Launch, leads: bool) -> dict[str, Any]:
    command, answers = launch.leader if leads else launch.worker, leads or island.by_rank
    assert command is not None
    api_key = api_key_of(deployment.options) if answers else None
    container: dict[str, Any] = {
        "name": "engine",
        "image": engine_image(island, deployment),
        "command": list(command.command),
        "args": [
            *command.arguments,
            *(_router_flags(deployment) if answers else []),
            *(deployment.engine.key_arguments if api_key else ()),
            *drain_arguments(island, deployment, leads=leads),
        ],
    }
    variables = [
        *_environment(command),
        *engine_variables(island, deployment),
        *model_environment(island, deployment),
        *([secret_variable(deployment.engine.key_variable, api_key)] if api_key else []),
    ]
    if environment := [*variables, *network_environment(island, deployment)]:
        container["env"] = environment
    if answers:
        container["ports"] = [{"name": p.name, "containerPort": p.number} for p in launch.ports]
        container |= probes(island, deployment, launch)
    return container | {
        **lifecycle(island, deployment, finishes=engine_finishes(island, leads=leads)),
        "resources": _resources(island, deployment, launch.needs) | container_claims(island, deployment),
        "securityContext": engine_context(island, deployment),
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108  # a mount point, no file
            *cache_mounts(launch.needs),
            *engine_mounts(island, deployment),
            *model_mounts(island, deployment),
        ],
    }


def _resources(island: ServingIsland, deployment: Deployment, needs: PodNeeds) -> dict[str, Any]:
    """Limits and requests; disk for caches is asked for, so that a node has it, and bounded by its volume alone."""
    resources = bounded(pod_limits(island, deployment))
    if needs.disk_gib:
        resources["requests"]["ephemeral-storage"] = f"{needs.disk_gib}Gi"
    return resources


def _environment(command: PodCommand) -> list[dict[str, Any]]:
    fixed = [{"name": name, "value": value} for name, value in command.environment]
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return fixed + [{"name": name, "valueFrom": address} for name in command.address_variables]


def pod_limits(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """The resources of one pod of the island, in whole CPUs: requests are the same, so the pod's class is
    Guaranteed where no controller adds containers.

    Raises:
        InputError: an option names a resource that the plan fixes.
    """
    gpus, options, settings = island.grouping.gpus_per_pod, deployment.options, deployment.plan.scenario.placement
    limits = {
        "cpu": gpus * options.cpus(settings),
        "memory": f"{gpus * (options.memory_gib(settings) + host_gib_per_gpu(island))}Gi",
        gpu_resource(island): gpus,
    }
    limits |= network_limits(island, deployment)
    for name, count in options.pod_resources:
        if name in limits:
            raise InputError(
                f"deploy.pod_resources: must not repeat {name}, which the plan fixes.", hint="Leave it out."
            )
        limits[name] = count
    return limits


def _shared_memory(deployment: Deployment, needs: PodNeeds) -> dict[str, Any]:
    size = f"{deployment.options.shared_memory_gib + needs.shared_gib}Gi"
    return {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def cache_mounts(needs: PodNeeds) -> list[dict[str, Any]]:
    """Where an engine keeps caches on local disk; nowhere where its pods need none."""
    return [{"name": _CACHES, "mountPath": FOLDER}] if needs.disk_gib else []


def cache_volumes(needs: PodNeeds) -> list[dict[str, Any]]:
    """The volume there, which ends with its pod."""
    return [{"name": _CACHES, "emptyDir": {"sizeLimit": f"{needs.disk_gib}Gi"}}] if needs.disk_gib else []


def found_pod(
    template: Mapping[str, Any], path: str, count: int, added_labels: Mapping[str, str] | None = None
) -> FoundPod:
    """A pod template of finished manifests as the checks read it; its first container is the engine's, and all words
    that it starts with are the pod's arguments.

    `path` is the template's field, `added_labels` those that a controller gives its pods.
    """
    spec = template["spec"]
    template_labels = template.get("metadata", {}).get("labels", {})
    return FoundPod(
        path=f"{path}.spec",
        count=count,
        spec=spec,
        labels={**template_labels, **(added_labels or {})},
        annotations=template.get("metadata", {}).get("annotations", {}),
        arguments=(*spec["containers"][0].get("command", ()), *spec["containers"][0].get("args", ())),
        command_path=f"{path}.spec.containers.0.command",
    )


def island_service(
    name: str, island: ServingIsland, deployment: Deployment, selector: Mapping[str, str], ports: list[dict[str, Any]]
) -> dict[str, Any]:
    """A Service called `name` over the pods of `island` that `selector` chooses."""
    return object_of("service", name=name, labels=labels(island, deployment), selector=selector, ports=ports)


def launch_ports(launch: Launch) -> list[dict[str, Any]]:
    """The leader's ports under their own names and numbers, but the one that only tells its state."""
    ports = [port for port in launch.ports if port.name != HEALTH]
    return [{"name": port.name, "port": port.number, "targetPort": port.name} for port in ports]


def http_port(number: int) -> list[dict[str, Any]]:
    """One port, called http."""
    return [{"name": "http", "port": number, "targetPort": number}]


_SCHEDULERS = ("leaderworkerset.sigs.k8s.io/", "kueue.x-k8s.io/")
"""Labels and annotations of the object itself that its controller, or Kueue, carries on to the pods."""


def pod_fields(workload: FoundWorkload) -> tuple[PodField, ...]:
    """The object of the workload, fields of its template, and what schedulers take from its object."""
    manifest = workload.manifest
    metadata = {**manifest.labels, **manifest.annotations, **workload.labels, **workload.annotations}
    scheduling = {f"object's {key}": value for key, value in metadata.items() if key.startswith(_SCHEDULERS)}
    made_by = {"object": f"{manifest.kind} {manifest.name}"} if manifest.api_version else {}
    return tuple(_flat({**made_by, **scheduling, **workload.template}, ""))


def _flat(value: Any, path: str) -> Iterator[PodField]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        yield from _row(value, path)
    else:
        yield PodField(path=path, words=(_text(value),))


def _row(values: Sequence[Any], path: str) -> Iterator[PodField]:
    """A list of plain values is one field; objects are keyed by their names, or else by their places."""
    if not any(isinstance(value, Mapping | list) for value in values):
        yield PodField(path=path, words=tuple(_text(value) for value in values))
        return
    names = [str(value.get("name", at)) if isinstance(value, Mapping) else str(at) for at, value in enumerate(values)]
    for at, value in enumerate(values):
        alone = isinstance(value, Mapping) and names.count(names[at]) == 1
        unnamed = {key: inner for key, inner in value.items() if key != "name"} if alone else value
        yield from _flat(unnamed, f"{path}.{names[at] if alone else at}")


def _text(value: object) -> str:
    return str(value)
