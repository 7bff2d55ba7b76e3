"""Memory that the processes of a pod share: /dev/shm, which Kubernetes makes 64 MiB large unless a volume of memory is
mounted there. NCCL and the engines' own queues end with a bus error where it is full.
"""

from collections.abc import Iterator

from planner.export.checking.pods.containers import is_quantity, pod_gpus
from planner.export.found import Fault, FoundPod, Manifest
from planner.export.objects.quantities import amount
from planner.export.options import LEAST_SHARED_GIB
from planner.export.targets.script import KIND as SCRIPT

_MOUNT = "/dev/shm"  # noqa: S108  # a mount point, no file


def shared_memory_faults(manifest: Manifest, pod: FoundPod) -> Iterator[Fault]:
    """Volumes of memory that are too small, or not where the processes look."""
    rows = [(index, volume) for index, volume in enumerate(pod.spec.get("volumes", ())) if _of_memory(volume)]
    for index, volume in rows:
        size = volume["emptyDir"].get("sizeLimit")
        if size is not None and is_quantity(size) and (amount(size) or 0) < LEAST_SHARED_GIB * 2**30:
            where = f"{pod.path}.volumes.{index}.emptyDir.sizeLimit"
            yield manifest.fault(where, f"must be at least {LEAST_SHARED_GIB}Gi, as {_MOUNT} of an engine", size)
    yield from _mount_faults(manifest, pod, {volume["name"] for _, volume in rows})


def _of_memory(volume: object) -> bool:
    empty_dir = volume.get("emptyDir") if isinstance(volume, dict) else None
    return isinstance(empty_dir, dict) and empty_dir.get("medium") == "Memory"


def _mount_faults(manifest: Manifest, pod: FoundPod, memory: set[str]) -> Iterator[Fault]:
    """Where an operator or a preset completes the pod, it mounts the volume itself."""
    mounts = pod.spec["containers"][0].get("volumeMounts", ())
    paths = [mount["mountPath"].rstrip("/") for mount in mounts if mount["name"] in memory]
    alone = bool(pod.command_path) and manifest.kind != SCRIPT and pod.arguments is not None and pod_gpus(pod) > 1
    if (paths or alone) and _MOUNT not in paths:
        where = f"{pod.path}.containers.0.volumeMounts"
        yield manifest.fault(where, f"must mount the volume of memory at {_MOUNT}", ", ".join(paths) or "none")
