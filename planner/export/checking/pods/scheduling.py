"""What the scheduler is told, against the plan: the priority class of the islands, the hosts that they are pinned to,
and how many copies may share one."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.found import FoundPod
from planner.export.objects.scheduling import HOSTNAME


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
