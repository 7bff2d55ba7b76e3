"""The last look before manifests leave: do they add up to the plan?

Reads the finished text only, and counts again what the targets and engines counted when they wrote it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from planner.domain import GpuSpec, Plan, PlannedIsland
from planner.errors import InconsistentPlanError
from planner.export.engines import ENGINES
from planner.export.names import MAX_DNS_LABEL, MAX_WORKLOAD_NAME, is_dns_label, label_value, slug
from planner.export.options import image_is_pinned
from planner.export.pods import ENGINE_LABEL, GPU_RESOURCES, ISLAND_LABEL
from planner.export.routing_check import check_routing
from planner.export.structure import Manifest, read_manifests

_TEMPLATE = "spec.leaderWorkerTemplate"


def check_manifests(files: Mapping[str, str], plan: Plan) -> None:
    """Hold `files` (name -> YAML text) against `plan`.

    Checked: structure; names (DNS labels, unique a kind); pinned images; that each serving island has one
    workload with its replicas, pods and GPUs, on its own nodes, no pod larger than a host, the engine's flags
    counting the same GPUs; GPUs per type; and the routing table (both phases, shares, Services).

    Raises:
        InconsistentPlanError: naming file, object and field.
    """
    manifests = read_manifests(files)
    _check_names(manifests)
    workloads = [m for m in manifests if m.kind == "LeaderWorkerSet"]
    islands = {slug(island.id): island for island in plan.islands if island.phase is not None}
    owners = _owners(workloads, islands)
    for manifest, island in owners:
        _check_workload(manifest, island, plan.scenario.inventory.item(island.gpu).gpu)
    _check_totals(owners, plan)
    check_routing(manifests, plan)


def _check_names(manifests: Sequence[Manifest]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for manifest in manifests:
        workload = manifest.kind == "LeaderWorkerSet"
        longest = MAX_WORKLOAD_NAME if workload else MAX_DNS_LABEL
        if not is_dns_label(manifest.name, longest):
            raise manifest.fault("metadata.name", f"must be a DNS label of at most {longest} characters", manifest.name)
        # the LeaderWorkerSet controller creates a Service with the set's name
        for kind in (manifest.kind, "Service") if workload else (manifest.kind,):
            if (kind, manifest.name) in seen:
                owner = seen[kind, manifest.name]
                raise manifest.fault("metadata.name", "must be unique", f"{manifest.name}, used in {owner}")
            seen[kind, manifest.name] = manifest.file


def _owners(
    workloads: Sequence[Manifest], islands: Mapping[str, PlannedIsland]
) -> list[tuple[Manifest, PlannedIsland]]:
    """Each workload with its island: exactly one for every serving island."""
    missing, owners = dict(islands), []
    for manifest in workloads:
        label = manifest.labels.get(ISLAND_LABEL, "")
        if label not in missing:
            raise manifest.fault(
                f"metadata.labels.{ISLAND_LABEL}", "must name a serving island, each once", repr(label)
            )
        owners.append((manifest, missing.pop(label)))
    if missing:
        ids = ", ".join(island.id for island in missing.values())
        raise InconsistentPlanError(f"Manifests: every serving island needs a workload, none has {ids}.")
    return owners


def _check_workload(manifest: Manifest, island: PlannedIsland, gpu: GpuSpec) -> None:
    parallel = island.parallel
    assert parallel is not None
    for path, template in _templates(manifest):
        _check_pod(manifest, path, template["spec"], gpu)
    spec = manifest.body["spec"]
    if spec["replicas"] != parallel.replicas:
        raise manifest.fault(
            "spec.replicas", f"must be the {parallel.replicas} replicas of {island.id}", spec["replicas"]
        )
    group = _group_gpus(manifest)
    if group != parallel.devices:
        size = spec["leaderWorkerTemplate"]["size"]
        raise manifest.fault(
            f"{_TEMPLATE}.size x limits",
            f"must be the {parallel.devices} GPUs of one replica of {island.id}",
            f"{group} from {size} pods",
        )
    _check_engine(manifest, parallel.devices)


def _templates(manifest: Manifest) -> list[tuple[str, Mapping[str, Any]]]:
    group = manifest.body["spec"]["leaderWorkerTemplate"]
    return [(key, group[key]) for key in ("leaderTemplate", "workerTemplate") if key in group]


def _check_pod(manifest: Manifest, path: str, pod: Mapping[str, Any], gpu: GpuSpec) -> None:
    where = f"{_TEMPLATE}.{path}.spec"
    for index, container in enumerate(pod["containers"]):
        if not image_is_pinned(container["image"]):
            raise manifest.fault(f"{where}.containers.{index}.image", "must name a fixed version", container["image"])
    if pod.get("nodeSelector", {}) != dict(gpu.node_selector):
        raise manifest.fault(
            f"{where}.nodeSelector", f"must be the labels of {gpu.name} nodes", pod.get("nodeSelector")
        )
    gpus = _pod_gpus(pod)
    if not 1 <= gpus <= gpu.gpus_per_host:
        raise manifest.fault(
            f"{where}.containers.0.resources.limits",
            f"must ask for 1 to {gpu.gpus_per_host} GPUs, what a host of {gpu.name} has",
            gpus,
        )


def _pod_gpus(pod: Mapping[str, Any]) -> int:
    limits = [container["resources"]["limits"] for container in pod["containers"]]
    return sum(int(limit.get(resource, 0)) for limit in limits for resource in GPU_RESOURCES.values())


def _group_gpus(manifest: Manifest) -> int:
    group = manifest.body["spec"]["leaderWorkerTemplate"]
    worker = _pod_gpus(group["workerTemplate"]["spec"])
    leader = _pod_gpus(group.get("leaderTemplate", group["workerTemplate"])["spec"])
    return leader + (int(group["size"]) - 1) * worker


def _check_engine(manifest: Manifest, devices: int) -> None:
    """The flags of leader and workers count the group's GPUs and pods as the object does."""
    engine = ENGINES.get(manifest.labels.get(ENGINE_LABEL, ""))
    if engine is None:
        raise manifest.fault(
            f"metadata.labels.{ENGINE_LABEL}",
            f"must be one of {', '.join(ENGINES)}",
            manifest.labels.get(ENGINE_LABEL),
        )
    size = manifest.body["spec"]["leaderWorkerTemplate"]["size"]
    for path, template in _templates(manifest):
        shape = engine.read_shape(template["spec"]["containers"][0]["args"])
        if (shape.gpus, shape.pods) != (devices, size):
            raise manifest.fault(
                f"{_TEMPLATE}.{path}.spec.containers.0.args",
                f"the parallel degrees must count {devices} GPUs in {size} pods",
                f"{shape.gpus} in {shape.pods}",
            )


def _check_totals(owners: Sequence[tuple[Manifest, PlannedIsland]], plan: Plan) -> None:
    """GPUs per type over all workloads, by the type that their pods' label names."""
    planned: Counter[str] = Counter()
    for island in plan.islands:
        if island.phase is not None:
            planned[label_value(island.gpu)] += island.size
    found: Counter[str] = Counter()
    for manifest, _ in owners:
        found[manifest.labels["planner/gpu"]] += manifest.body["spec"]["replicas"] * _group_gpus(manifest)
    if found != planned:
        raise InconsistentPlanError(f"Manifests: GPUs per type must be the plan's {dict(planned)}, got {dict(found)}.")
