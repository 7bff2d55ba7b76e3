"""What pods name has to be there: priority classes, claims and volumes of the same files."""

from collections.abc import Iterator, Sequence

from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest

_SYSTEM = "system-"


def reference_faults(manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload]) -> Iterator[Fault]:
    """Pods that name a PriorityClass (Kubernetes' own apart) or a claim that no file holds."""
    there = {(manifest.kind, manifest.name) for manifest in manifests}
    for workload in workloads:
        for pod in workload.pods:
            for field, kind, name in _references(pod):
                if (kind, name) not in there:
                    yield workload.manifest.fault(field, f"must name a {kind} of these files", repr(name))


def mount_faults(manifest: Manifest, pod: FoundPod) -> Iterator[Fault]:
    """Mounts of volumes that the pod does not have."""
    names = {volume["name"] for volume in pod.spec.get("volumes", ())}
    for part in ("containers", "initContainers"):
        for index, container in enumerate(pod.spec.get(part, ())):
            for at, mount in enumerate(container.get("volumeMounts", ())):
                if mount["name"] not in names:
                    where = f"{pod.path}.{part}.{index}.volumeMounts.{at}.name"
                    yield manifest.fault(where, "must be a volume of the pod", mount["name"])


def _references(pod: FoundPod) -> Iterator[tuple[str, str, str]]:
    """Field, kind and name of each reference."""
    priority = str(pod.spec.get("priorityClassName", _SYSTEM))
    if not priority.startswith(_SYSTEM):
        yield f"{pod.path}.priorityClassName", "PriorityClass", priority
    for index, volume in enumerate(pod.spec.get("volumes", ())):
        claim = volume.get("persistentVolumeClaim")
        if claim:
            field = f"{pod.path}.volumes.{index}.persistentVolumeClaim.claimName"
            yield field, "PersistentVolumeClaim", str(claim["claimName"])
