"""Priority classes that no pod has: one of these files that no pod names, or the placement's, which all pods lost."""

from collections.abc import Iterator, Sequence

from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.pods.scheduling import PRIORITY_CLASS
from planner.export.found import Fault, Manifest
from planner.export.objects.pods import PART_OF_LABEL
from planner.export.targets.script import KIND as SCRIPT


def unused_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Classes that no pod names, and pods of which none has the priority that the placement counted on; where some have
    it, `scheduling.priority_faults` reports the others."""
    pods = [
        (item.workload.manifest, pod)
        for item in owned
        for pod in item.workload.pods
        if pod.arguments is not None and item.workload.manifest.kind != SCRIPT
    ]
    classes = {str(pod.spec.get("priorityClassName", "")) for _, pod in pods}
    for manifest in manifests:
        if manifest.kind == PRIORITY_CLASS and PART_OF_LABEL in manifest.labels and manifest.name not in classes:
            yield manifest.fault(
                "metadata.name", "must be the priorityClassName of the pods, or left out", manifest.name
            )
    settings = expected.settings
    if settings is not None and settings.priority_class and classes == {""}:
        for manifest, pod in pods:
            if not pod.spec.get("priorityClassName"):
                rule = f"must name a priority class, as the placement's {settings.priority_class}"
                yield manifest.fault(f"{pod.path}.priorityClassName", rule, "none")
