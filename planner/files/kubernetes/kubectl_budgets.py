"""PodDisruptionBudgets: how many of the pods that each selects may be evicted now."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.domain import DisruptionBudget, Pod
from planner.files.kubernetes.kubectl_pods import selects
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, below, string_map

KIND = "PodDisruptionBudget"
SEVERAL = "stays where it is, as several disruption budgets select it, and Kubernetes then evicts nobody"


def with_budgets(
    pods: Sequence[tuple[Pod, KubernetesObject]], objects: Iterable[KubernetesObject]
) -> tuple[list[Pod], tuple[DisruptionBudget, ...], list[tuple[str, str]]]:
    """Pods with the budget that each counts in, the budgets, and notes; a pod of several budgets is locked."""
    budgets = [(item, _read(item)) for item in objects]
    budgeted, notes = [], []
    for pod, item in pods:
        labels = dict(string_map(below(item.body, "metadata", "labels"))) if budgets else {}
        mine = [budget for of, budget in budgets if _covers(of, pod, labels)]
        if len(mine) > 1:
            notes.append((f"pod {pod.key}", SEVERAL))
        budget = mine[0].name if len(mine) == 1 else ""
        budgeted.append(replace(pod, disruption_budget=budget, locked=pod.locked or len(mine) > 1))
    return budgeted, tuple(budget for _, budget in budgets), notes


def _covers(budget: KubernetesObject, pod: Pod, labels: dict[str, str]) -> bool:
    """A budget without a selector selects nothing, one with an empty selector every pod of its namespace."""
    spec = below(budget.body, "spec")
    return (
        pod.namespace == (budget.namespace or "default")
        and not spec.is_empty("selector")
        and selects(spec.section("selector"), labels)
    )


def _read(item: KubernetesObject) -> DisruptionBudget:
    """Until its controller has looked at it, a budget allows nothing."""
    status = below(item.body, "status")
    allowed = 0 if status.is_empty("disruptionsAllowed") else status.integer("disruptionsAllowed", low=0)
    name = f"{item.namespace or 'default'}/{item.name}"
    return DisruptionBudget(name=name, allowed=allowed)
