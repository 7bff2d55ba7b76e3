"""One plan in one namespace: pods find their Services, claims and configuration by names that hold within one."""

from collections.abc import Iterator, Sequence

from planner.export.found import Fault, FoundWorkload, Manifest
from planner.export.objects.pods import PART_OF_LABEL

_SERVICE = "Service"


def namespace(manifest: Manifest) -> str:
    """The namespace that an object names; empty where it leaves that to whoever applies it."""
    return str(manifest.body.get("metadata", {}).get("namespace", ""))


def namespace_faults(manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload]) -> Iterator[Fault]:
    """Workloads apart from each other, and Services and claims apart from the pods that they are for."""
    objects = {id(workload.manifest): workload.manifest for workload in workloads if workload.manifest.api_version}
    if not objects:
        objects = {
            id(service): service for service in manifests if service.kind == _SERVICE
        }  # over pods that a chart makes
    home = next((namespace(manifest) for manifest in objects.values()), "")
    for workload in objects.values():
        if namespace(workload) != home:
            yield workload.fault(
                "metadata.namespace",
                f"must be {_namespace_text(home)} as in the other files",
                _namespace_text(namespace(workload)),
            )
    for manifest in manifests:
        if id(manifest) in objects or not _is_ours(manifest):
            continue
        wrong = namespace(manifest) != home if manifest.kind == _SERVICE else namespace(manifest) not in ("", home)
        if wrong:
            rule = f"must be {_namespace_text(home)}, where the pods are"
            yield manifest.fault("metadata.namespace", rule, _namespace_text(namespace(manifest)))


def _is_ours(manifest: Manifest) -> bool:
    return bool(manifest.api_version) and PART_OF_LABEL in manifest.labels


def _namespace_text(name: str) -> str:
    return name or "left out"
