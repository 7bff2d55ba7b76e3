"""GPUs counted again in the finished text: of every copy, and of every type over all workloads."""

from collections import Counter
from collections.abc import Iterator, Sequence

from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.tables import told_inventory
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.documents import whole_number
from planner.export.objects.names import label_value
from planner.export.objects.pods import GPU_LABEL, GPU_RESOURCES, PHASE_LABEL


def pod_gpus(pod: FoundPod) -> int:
    """GPUs that one such pod asks for, of any vendor; a number that is not whole counts as 0."""
    limits = [container.get("resources", {}).get("limits", {}) for container in pod.spec["containers"]]
    return sum(whole_number(limit.get(resource, 0)) for limit in limits for resource in GPU_RESOURCES.values())


def copy_gpus(workload: FoundWorkload) -> int:
    """GPUs of one copy of the model, as the objects ask for them."""
    return sum(pod.count * pod_gpus(pod) for pod in workload.pods)


def copy_faults(owned: Owned) -> Iterator[Fault]:
    """A workload of another phase, another number of copies, or copies of another number of GPUs than its island."""
    workload, island = owned.workload, owned.island
    parallel, manifest = island.parallel, owned.workload.manifest
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


def total_faults(owned: Sequence[Owned], manifests: Sequence[Manifest], expected: Expectation) -> Iterator[Fault]:
    """GPUs per type over all workloads, by the type that their label names: the plan's, or at most what there is."""
    deployed: Counter[str] = Counter()
    for item in owned:
        deployed[item.workload.labels.get(GPU_LABEL, "")] += item.workload.replicas * copy_gpus(item.workload)
    if expected.plan is not None:
        planned = {label_value(gpu): count for gpu, count in expected.plan.gpus.items()}
        if deployed != planned:
            yield Fault(
                where="Manifests", expected=f"GPUs per type must be the plan's {planned}", got=str(dict(deployed))
            )
        return
    there = {label_value(gpu): count for gpu, count in told_inventory(manifests).items()}
    for gpu, count in deployed.items():
        if count > there.get(gpu, 0):
            yield Fault(
                where="Manifests",
                expected=f"GPUs of type {gpu} must be at most the {there.get(gpu, 0)} of the inventory",
                got=str(count),
            )
