"""Do manifests add up to their plan? Reads the finished text only, and counts its GPUs and routes again: of every copy,
and of every type over all workloads.

Names are DNS labels, short enough for what controllers derive from them, each used once a kind; no object is so large
that an API server refuses it, so that half of a plan is applied.
What a field must hold is not told here: the export writes it, other people's judges look at it in the tests, and
`differences` compares what was written with what would be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from planner.domain import DeployedPlan, Plan
from planner.errors import InconsistentPlanError
from planner.export.checking.caches import cache_faults
from planner.export.checking.crds import CrdSchemas
from planner.export.checking.owners import Owned, owned_workloads
from planner.export.checking.routes import routing_faults
from planner.export.checking.services import service_faults
from planner.export.checking.structure import FoundManifests, read_manifests
from planner.export.checking.tables import told_inventory
from planner.export.found import Fault, FoundPod, FoundWorkload, Kind, Manifest
from planner.export.objects.documents import MOST_OF_A_CONFIG_MAP, config_map_bytes, whole_number
from planner.export.objects.names import MAX_DNS_LABEL, is_dns_label, is_dns_subdomain, label_value
from planner.export.objects.pods import GPU_LABEL, GPU_RESOURCES, PHASE_LABEL
from planner.export.summary import deployed_plan


def name_faults(sound: Sequence[tuple[Manifest, Kind | None]]) -> Iterator[Fault]:
    """Names that no object may have, or that two have. Two namespaces may repeat a name."""
    files: dict[tuple[str, str, str], str] = {}
    for manifest, kind in sound:
        if kind is not None and kind.files:
            continue
        longest = kind.longest_name if kind else MAX_DNS_LABEL
        if kind is not None and kind.of_node:
            if not is_dns_subdomain(manifest.name):
                yield manifest.fault("metadata.name", "must be a node's name, a DNS subdomain", manifest.name)
        elif not is_dns_label(manifest.name, longest):
            yield manifest.fault("metadata.name", f"must be a DNS label of at most {longest} characters", manifest.name)
        space = str(manifest.body["metadata"].get("namespace", ""))
        for claimed in (manifest.kind, *(kind.claims if kind else ())):
            key = (claimed, space, manifest.name)
            if key in files:
                yield manifest.fault("metadata.name", "must be unique", f"{manifest.name}, used in {files[key]}")
            files[key] = manifest.file


def size_faults(sound: Sequence[tuple[Manifest, Kind | None]]) -> Iterator[Fault]:
    """ConfigMaps whose data are larger than Kubernetes takes."""
    for manifest, _ in sound:
        if manifest.kind == "ConfigMap" and (size := config_map_bytes(manifest.body["data"])) > MOST_OF_A_CONFIG_MAP:
            yield manifest.fault("data", f"must have at most {MOST_OF_A_CONFIG_MAP:,} bytes together", f"{size:,}")


def pod_gpus(pod: FoundPod) -> int:
    """GPUs that one such pod asks for, of any vendor; a number that is not whole counts as 0."""
    limits = [container.get("resources", {}).get("limits", {}) for container in pod.spec["containers"]]
    return sum(whole_number(limit.get(resource, 0)) for limit in limits for resource in GPU_RESOURCES.values())


def copy_gpus(workload: FoundWorkload) -> int:
    """GPUs of one copy of the model, as the objects ask for them."""
    return sum(pod.count * pod_gpus(pod) for pod in workload.pods)


def copy_faults(owned: Owned) -> Iterator[Fault]:
    """A workload of another phase, another number of copies, or copies of another number of GPUs than its island."""
    workload, island = owned
    parallel, manifest = island.parallel, workload.manifest
    phase = workload.labels.get(PHASE_LABEL)
    if phase != island.phase:
        yield manifest.fault(
            f"{workload.labels_path}.{PHASE_LABEL}", f"must be {island.phase}, which {island.id} serves", phase
        )
    if workload.replicas != parallel.replicas:
        yield manifest.fault(
            workload.replicas_path, f"must be the {parallel.replicas} replicas of {island.id}", workload.replicas
        )
    if copy_gpus(workload) != parallel.devices:
        yield manifest.fault(
            f"{workload.size_path} x limits",
            f"must be the {parallel.devices} GPUs of one replica of {island.id}",
            f"{copy_gpus(workload)} from {workload.pods_per_copy} pods",
        )


def total_faults(owned: Sequence[Owned], manifests: Sequence[Manifest], plan: DeployedPlan | None) -> Iterator[Fault]:
    """GPUs per type over all workloads, by the type that their label names: the plan's, or at most what there is."""
    deployed: Counter[str] = Counter()
    for workload, _ in owned:
        deployed[workload.labels.get(GPU_LABEL, "")] += workload.replicas * copy_gpus(workload)
    if plan is not None:
        planned = {label_value(gpu): count for gpu, count in plan.gpus.items()}
        if deployed != planned:
            yield Fault(
                where="Manifests", expected=f"GPUs per type must be the plan's {planned}", got=str(dict(deployed))
            )
        return
    inventory = {label_value(gpu): count for gpu, count in told_inventory(manifests).items()}
    for gpu, count in deployed.items():
        if count > inventory.get(gpu, 0):
            yield Fault(
                where="Manifests",
                expected=f"GPUs of type {gpu} must be at most the {inventory.get(gpu, 0)} of the inventory",
                got=str(count),
            )


_MOST_TOLD = 20


def check_manifests(files: Mapping[str, str], plan: Plan, crds: CrdSchemas | None = None) -> None:
    """Hold `files` (name -> text) against `plan` and the given schemas; see `find_faults`.

    Raises:
        InconsistentPlanError: naming file, object and field of every fault.
    """
    faults = find_faults(files, plan, crds)
    if faults:
        raise InconsistentPlanError(faults_text(faults), hint="Nothing was written.")


def faults_text(faults: Sequence[Fault]) -> str:
    """One fault a line, the first twenty."""
    lines = [str(fault) for fault in faults[:_MOST_TOLD]]
    unlisted = len(faults) - len(lines)
    return "\n".join([*lines, f"and {unlisted} more."] if unlisted else lines)


def find_faults(
    files: Mapping[str, str], plan: Plan | None = None, crds: CrdSchemas | None = None
) -> tuple[Fault, ...]:
    """What does not add up in `files` (name -> text).

    Checked: structure; names (DNS labels, unique a kind) and sizes; that each serving island has one workload of its
    phase, copies, GPUs and caches below device memory; GPUs per type; whom Services select and at which ports; the
    routing table (both phases, every length, shares). Without a `plan` the islands are those that the annotations
    tell of.

    All faults of single objects are reported; what objects make together is checked once each by itself is sound.
    """
    manifests, planned = read_manifests(files, crds), None if plan is None else deployed_plan(plan)
    if tells_fleet(manifests):
        return tuple(name_faults(manifests.sound))
    workloads = [w for m, kind in manifests.sound if kind and kind.workloads for w in kind.workloads(m)]
    owned, ownership = owned_workloads(workloads, planned, all_there=not manifests.faults)
    alone = [
        *manifests.faults,
        *name_faults(manifests.sound),
        *size_faults(manifests.sound),
        *(fault for item in owned for fault in copy_faults(item)),
        *(fault for item in owned for fault in cache_faults(item)),
        *ownership,
    ]
    return tuple(dict.fromkeys(alone or _joint_faults(manifests.sound, owned, workloads, planned)))


def tells_fleet(files: Mapping[str, str] | FoundManifests) -> bool:
    """Whether `files` (name -> text, or read already) hold nothing but sound objects that describe the fleet: no
    workload, no route."""
    manifests = files if isinstance(files, FoundManifests) else read_manifests(files)
    return (
        bool(manifests.sound) and not manifests.faults and all(kind and kind.inventory for _, kind in manifests.sound)
    )


def _joint_faults(
    sound: Sequence[tuple[Manifest, Kind | None]],
    owned: Sequence[Owned],
    workloads: Sequence[FoundWorkload],
    planned: DeployedPlan | None,
) -> Iterator[Fault]:
    manifests = [manifest for manifest, _ in sound]
    yield from total_faults(owned, manifests, planned)
    endpoints, wrong = service_faults(manifests, workloads)
    yield from wrong
    yield from routing_faults(manifests, endpoints, owned, planned)
