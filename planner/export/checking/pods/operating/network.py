"""Privileges beyond Pod Security's level baseline: the lock on memory that RDMA needs, and nothing else."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.found import Fault, FoundWorkload
from planner.export.objects.operating.network import IPC_LOCK, RDMA


def lock_faults(workload: FoundWorkload) -> Iterator[Fault]:
    """Containers with IPC_LOCK in pods without RDMA devices, which `baseline` refuses for nothing."""
    for pod in workload.pods:
        for part in ("containers", "initContainers"):
            for index, container in enumerate(pod.spec.get(part, ())):
                added = _context(container).get("capabilities", {}).get("add", ())
                devices = container.get("resources", {}).get("limits", {})
                if IPC_LOCK in added and not any(RDMA in name for name in devices):
                    rule = f"must leave {IPC_LOCK} out where the container asks for no RDMA devices"
                    where = f"{pod.path}.{part}.{index}.securityContext.capabilities.add"
                    yield workload.manifest.fault(where, rule, ", ".join(added))


def _context(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """In Helm values it is one level deeper."""
    deeper = container.get("extraConfig", {}).get("securityContext", {})
    context: Mapping[str, Any] = container.get("securityContext", deeper)
    return context
