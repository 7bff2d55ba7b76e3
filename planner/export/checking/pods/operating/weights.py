"""Weights: engines that are told to fetch nothing wait until somebody has, and somebody does; tokens are references."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.checking.commands.devices import gpu_limits
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.operating.weights import FETCH_SCRIPT, MARKS, MOUNT_PATH, OFFLINE
from planner.export.options import image_is_pinned
from planner.export.options.operating import TOKEN

JOB = "Job"


def waiting_faults(workload: FoundWorkload) -> Iterator[Fault]:
    """Pods that neither fetch weights nor wait for them, and tokens in plain text."""
    for pod in workload.pods:
        yield from _token_faults(workload.manifest, pod.path, pod.spec)
        container = pod.spec["containers"][0]
        if not _offline(container) or pod.arguments is None or not _mounts(container):
            continue
        waits = [name for init in pod.spec.get("initContainers", ()) for name in _marks(init)]
        if not waits:
            rule = f"must wait for or fetch the weights: with {OFFLINE} the engine fetches none itself"
            yield workload.manifest.fault(f"{pod.path}.initContainers", rule, "none that does")


def claim_faults(manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload]) -> Iterator[Fault]:
    """Claims whose weights pods wait for and no Job of these files fetches."""
    jobs = [manifest for manifest in manifests if manifest.kind == JOB]
    fetched = {(claim, mark) for job in jobs for claim, mark in _fetched(_pod_spec(job))}
    for job in jobs:
        yield from _device_faults(job)
        yield from _token_faults(job, "spec.template.spec", _pod_spec(job))
    for workload in workloads:
        for pod in workload.pods:
            yield from _unfilled(workload.manifest, pod, fetched)


def _device_faults(job: Manifest) -> Iterator[Fault]:
    for index, container in enumerate(_pod_spec(job)["containers"]):
        image = str(container["image"])
        if not image_is_pinned(image):
            where = f"spec.template.spec.containers.{index}.image"
            yield job.fault(where, "must name a fixed version", image)
        if gpus := gpu_limits(container):
            where = f"spec.template.spec.containers.{index}.resources.limits"
            yield job.fault(where, "must ask for no GPUs: the plan has given them to others", ", ".join(gpus))


def _unfilled(manifest: Manifest, pod: FoundPod, fetched: set[tuple[str, str]]) -> Iterator[Fault]:
    claims = _claims(pod.spec)
    for index, container in enumerate(pod.spec.get("initContainers", ())):
        for mount in container.get("volumeMounts", ()):
            claim = claims.get(mount["name"])
            for mark in _marks(container) if claim is not None and not _fetches(container) else ():
                if (claim, mark) not in fetched:
                    rule = f"must wait for what a Job of these files leaves in claim {claim}"
                    yield manifest.fault(f"{pod.path}.initContainers.{index}.command", rule, mark)


def _fetched(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Claim and mark of each container that fetches, and may write."""
    claims = _claims(spec)
    for container in spec["containers"]:
        for mount in container.get("volumeMounts", ()) if _fetches(container) else ():
            if mount["name"] in claims and mount["mountPath"] == MOUNT_PATH and not mount.get("readOnly"):
                yield from ((claims[mount["name"]], mark) for mark in _marks(container))


def _pod_spec(job: Manifest) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = job.body["spec"]["template"]["spec"]
    return spec


def _claims(spec: Mapping[str, Any]) -> dict[str, str]:
    """Volume -> the claim behind it."""
    volumes = [volume for volume in spec.get("volumes", ()) if "persistentVolumeClaim" in volume]
    return {volume["name"]: str(volume["persistentVolumeClaim"]["claimName"]) for volume in volumes}


def _fetches(container: Mapping[str, Any]) -> bool:
    return FETCH_SCRIPT in container.get("command", ())


def _marks(container: Mapping[str, Any]) -> list[str]:
    return [word for word in container.get("command", ()) if str(word).startswith(f"{MARKS}/")]


def _offline(container: Mapping[str, Any]) -> bool:
    return any(row["name"] == OFFLINE and row.get("value") not in ("0", "") for row in container.get("env", ()))


def _mounts(container: Mapping[str, Any]) -> bool:
    return any(mount["mountPath"] == MOUNT_PATH for mount in container.get("volumeMounts", ()))


def _token_faults(manifest: Manifest, path: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Whoever reads a manifest reads what stands in it."""
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part, ())):
            for row in container.get("env", ()):
                if row["name"] == TOKEN and "secretKeyRef" not in row.get("valueFrom", {}):
                    where = f"{path}.{part}.{index}.env"
                    yield manifest.fault(where, f"{TOKEN} must be a reference to a Secret", "something else")
