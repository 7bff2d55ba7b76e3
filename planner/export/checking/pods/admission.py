"""Whether a scheduler that knows the plan's nodes can place the pods: tolerations, affinities, the scheduler's name;
and that pods are of the island that their workload is.

Source: Kubernetes' node affinity: terms are alternatives, the rules of a term hold all; beside nodeSelector.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.checking.commands.devices import gpu_limits
from planner.export.found import Fault, FoundPod, FoundWorkload
from planner.export.objects.pods import GPU_LABEL, ISLAND_LABEL, PHASE_LABEL
from planner.export.targets.script import KIND as SCRIPT

SCHEDULERS = frozenset(
    {"default-scheduler", "kai-scheduler", "koord-scheduler", "scheduler-plugins-scheduler", "topo-aware-scheduler"}
    | {"volcano", "yunikorn"}
)
"""Kubernetes' own and those that place groups of pods or heed NUMA nodes, by the names that they are installed with."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OWN_LABELS = (ISLAND_LABEL, PHASE_LABEL, GPU_LABEL)


def admission_faults(workload: FoundWorkload) -> Iterator[Fault]:
    """What keeps a workload's pods from its nodes, or makes them another island's."""
    for pod in workload.pods:
        if workload.manifest.kind != SCRIPT:  # nobody schedules a process
            yield from _toleration_faults(workload, pod)
        yield from _affinity_faults(workload, pod)
        name = pod.spec.get("schedulerName")
        if name is not None and name not in SCHEDULERS:
            rule = f"must be left out or one of {', '.join(sorted(SCHEDULERS))}"
            yield workload.manifest.fault(f"{pod.path}.schedulerName", rule, name)
        for key in _OWN_LABELS:
            label, came = workload.labels.get(key), pod.labels.get(key)
            if label is not None and came is not None and came != label:
                yield workload.manifest.fault(f"{pod.path}, label {key}", f"must be {label} as the workload's", came)


def _toleration_faults(workload: FoundWorkload, pod: FoundPod) -> Iterator[Fault]:
    """Device plugins put a taint on GPU nodes that has the resource's name."""
    rules = pod.spec.get("tolerations", ())
    for resource in gpu_limits(pod.spec["containers"][0]):
        if not any(_tolerates(rule, resource) for rule in rules):
            expected = f"must tolerate {resource}, the taint of nodes with such GPUs"
            yield workload.manifest.fault(
                f"{pod.path}.tolerations", expected, [rule.get("key", "all") for rule in rules]
            )


def _tolerates(rule: Mapping[str, Any], resource: str) -> bool:
    matches = rule.get("key") in (None, resource) and rule.get("effect", "NoSchedule") == "NoSchedule"
    return matches and rule.get("operator", "Equal") == "Exists"


def _affinity_faults(workload: FoundWorkload, pod: FoundPod) -> Iterator[Fault]:
    """Some term of the affinity lets nodes in that the pod's own nodeSelector names."""
    selector = pod.spec.get("nodeSelector", {})
    for path, terms in _terms(pod):
        if terms and all(_excludes(term, selector) for term in terms):
            rule = f"must let in the nodes of nodeSelector, {dict(selector)}"
            yield workload.manifest.fault(f"{pod.path}.{path}", rule, "none of them")


def _terms(pod: FoundPod) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """The required terms; Helm values hold them one level deeper, or as types of accelerators."""
    deeper = pod.spec.get("extraConfig", {})
    for path, affinity in (("affinity", pod.spec.get("affinity")), ("extraConfig.affinity", deeper.get("affinity"))):
        node = (affinity or {}).get("nodeAffinity", {})
        yield f"{path}.nodeAffinity.{_REQUIRED}", node.get(_REQUIRED, {}).get("nodeSelectorTerms", ())
    types = pod.spec.get("acceleratorTypes")
    if types:
        rule = {"key": types["labelKey"], "operator": "In", "values": types["labelValues"]}
        yield "acceleratorTypes", [{"matchExpressions": [rule]}]


def _excludes(term: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    return any(_contradicts(rule, selector) for rule in term.get("matchExpressions", ()))


def _contradicts(rule: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    if rule["key"] not in selector:
        return False
    value, values = selector[rule["key"]], rule.get("values", ())
    wrong = {"In": value not in values, "NotIn": value in values, "DoesNotExist": True}
    return wrong.get(rule["operator"], False)
