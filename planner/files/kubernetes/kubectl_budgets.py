"""PodDisruptionBudgets: how many of the pods that each selects may be evicted now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from planner.domain import DisruptionBudget, Pod
from planner.files.kubernetes.kubectl_pods import selects
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, below, string_map

KIND = "PodDisruptionBudget"
SEVERAL = "stays where it is, as several disruption budgets select it, and Kubernetes then evicts nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Budget:
    record: DisruptionBudget
    item: KubernetesObject

    def covers(self, pod: Pod, labels: dict[str, str]) -> bool:
        """A budget without a selector selects nothing, one with an empty selector every pod of its namespace."""
        spec = below(self.item.body, "spec")
        return (
            pod.namespace == (self.item.namespace or "default")
            and not spec.is_empty("selector")
            and selects(spec.section("selector"), labels)
        )


def with_budgets(
    pods: Sequence[tuple[Pod, KubernetesObject]], objects: Iterable[KubernetesObject]
) -> tuple[list[Pod], tuple[DisruptionBudget, ...], list[tuple[str, str]]]:
    """Pods with the budget that each counts in, the budgets, and notes; a pod of several budgets is locked."""
    budgets = [_read(item) for item in objects]
    budgeted, notes = [], []
    for pod, item in pods:
        labels = dict(string_map(below(item.body, "metadata", "labels"))) if budgets else {}
        mine = [budget for budget in budgets if budget.covers(pod, labels)]
        if len(mine) > 1:
            notes.append((f"pod {pod.key}", SEVERAL))
        budget = mine[0].record.name if len(mine) == 1 else ""
        budgeted.append(replace(pod, disruption_budget=budget, locked=pod.locked or len(mine) > 1))
    return budgeted, tuple(budget.record for budget in budgets), notes


def _read(item: KubernetesObject) -> _Budget:
    """Until its controller has looked at it, a budget allows nothing."""
    status = below(item.body, "status")
    allowed = 0 if status.is_empty("disruptionsAllowed") else status.integer("disruptionsAllowed", low=0)
    name = f"{item.namespace or 'default'}/{item.name}"
    return _Budget(record=DisruptionBudget(name=name, allowed=allowed), item=item)
