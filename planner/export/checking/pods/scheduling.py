"""What the scheduler is told, against the plan: the priority class of the islands, the hosts that they are pinned to,
and how many copies may share one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.checking.expectation import Expectation, Owned
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.scheduling import HOSTNAME, SPREAD, preemption_policy
from planner.export.targets.script import KIND as SCRIPT

PRIORITY_CLASS = "PriorityClass"


def priority_faults(
    manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload], expected: Expectation
) -> Iterator[Fault]:
    """Pods of one plan have one priority class, which gives them the priority that the placement counted on."""
    pods = [(w.manifest, pod) for w in workloads for pod in w.pods if pod.arguments is not None]
    classes = [str(pod.spec.get("priorityClassName", "")) for _, pod in pods]
    wanted = _common_class(classes, expected)
    for (manifest, pod), name in zip(pods, classes, strict=True):
        if name != wanted:
            rule = f"must be {wanted or 'left out'}, as in the other pods"
            yield manifest.fault(f"{pod.path}.priorityClassName", rule, name or "none")
    for manifest in manifests:
        if manifest.kind == PRIORITY_CLASS and manifest.name in classes:
            yield from _class_faults(manifest, expected)


def _common_class(classes: Sequence[str], expected: Expectation) -> str:
    """What most pods name, the first of equals; not none where some name a class and the placement has one."""
    placed = expected.settings is not None and expected.settings.priority_class
    counts = Counter(name for name in classes if name or not placed)
    return max(counts, key=lambda name: counts[name], default="")


def _class_faults(manifest: Manifest, expected: Expectation) -> Iterator[Fault]:
    if manifest.body.get("globalDefault", False):
        yield manifest.fault("globalDefault", "must be false: other pods keep their priority", "true")
    if expected.settings is None:
        return
    wanted = {"value": expected.settings.priority, "preemptionPolicy": preemption_policy(expected.settings)}
    came = {"preemptionPolicy": "PreemptLowerPriority", **manifest.body}  # Kubernetes' default
    for key, value in wanted.items():
        if came[key] != value:
            yield manifest.fault(key, f"must be {value} as in the plan's placement", came[key])


def pin_faults(owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Pods that are pinned to hosts are pinned to those of their island's placement, all of them: else copies wait."""
    for item in owned:
        hosts = expected.hosts.get(item.island.id, frozenset())
        for pod in item.workload.pods:
            for field, came in pinned_hosts(pod):
                strangers, missing = sorted(came - hosts), sorted(hosts - came)
                if strangers:
                    rule = f"must be hosts that the placement gives to {item.island.id}"
                    yield item.workload.manifest.fault(f"{pod.path}.{field}", rule, ", ".join(strangers))
                elif missing:
                    rule = f"must have all hosts of {item.island.id} in the placement, {', '.join(missing)} too"
                    yield item.workload.manifest.fault(f"{pod.path}.{field}", rule, ", ".join(sorted(came)))


def spread_faults(owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Copies that a plan keeps apart are kept apart: no more of them on a node than losses of nodes count on."""
    for item in owned:
        island = expected.serving.get(item.island.id)
        if island is None or not island.per_node or item.workload.pods_per_copy > 1:
            continue
        if item.workload.manifest.kind == SCRIPT:  # nobody schedules a process
            continue
        pod = item.workload.pods[0]
        path, rules = _spread_rules(pod)
        if not any(_keeps_apart(rule, pod, island.per_node, island.grouping.groups) for rule in rules):
            rule = f"must keep {item.island.id} to {island.per_node} of its pods on a node, whatever others have"
            yield item.workload.manifest.fault(f"{pod.path}.{path}", rule, list(rules) or "none")


def _spread_rules(pod: FoundPod) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Field and rules; Helm values hold them one level deeper."""
    deeper = pod.spec.get("extraConfig", {})
    return (f"extraConfig.{SPREAD}", deeper[SPREAD]) if SPREAD in deeper else (SPREAD, pod.spec.get(SPREAD, ()))


def _keeps_apart(rule: Mapping[str, Any], pod: FoundPod, per_node: int, copies: int) -> bool:
    """With as many domains asked for as there are copies, one has none of them whenever a pod comes, or 0 is taken."""
    return (
        rule["topologyKey"] == HOSTNAME
        and rule["whenUnsatisfiable"] == "DoNotSchedule"
        and rule["maxSkew"] <= per_node
        and rule.get("minDomains", 1) >= copies
        and not rule.get("matchLabelKeys")  # copies of before an update are lost with the node, too
        and rule["labelSelector"]["matchLabels"].items() <= pod.labels.items()
    )


def pinned_hosts(pod: FoundPod) -> Iterator[tuple[str, set[str]]]:
    """Field and host names of each rule of a pod's node affinity; Helm values hold it one level deeper."""
    deeper = pod.spec.get("extraConfig", {})
    for path, affinity in (("affinity", pod.spec.get("affinity")), ("extraConfig.affinity", deeper.get("affinity"))):
        for field, rule in _rules(affinity or {}):
            if rule["key"] == HOSTNAME and rule["operator"] == "In":
                yield f"{path}.{field}.values", set(map(str, rule.get("values", ())))


def _rules(affinity: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = affinity.get("nodeAffinity", {}).get(required, {}).get("nodeSelectorTerms", ())
    for number, term in enumerate(terms):
        for index, rule in enumerate(term.get("matchExpressions", ())):
            yield f"nodeAffinity.{required}.nodeSelectorTerms.{number}.matchExpressions.{index}", rule
