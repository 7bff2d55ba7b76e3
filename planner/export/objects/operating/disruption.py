"""PodDisruptionBudgets: how many pods of an island `kubectl drain` and autoscalers may evict at once.

A copy that loses a pod is lost, and a copy that does not serve has at least one pod that is not ready, its leader. So a
budget of x pods never lets more than x copies go, however many pods a copy has; pods of a copy that is down already may
be evicted beside it (`AlwaysAllow`), or a drain would wait for a start that it prevents.
`maxUnavailable` follows the number of copies; it takes a controller with a scale subresource, which all have that make
these pods. A pod must be in one budget: the API server refuses to evict what is in two.
Source: policy/v1, and Kubernetes' documents on budgets for a single copy (maxUnavailable 0: a drain needs your word).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.export.objects.documents import yaml_text
from planner.export.objects.names import plan_labels
from planner.export.objects.operating.allowances import Budget, Crews, budgets_of, crews_of
from planner.export.seams import Deployment, SelectPods
from planner.export.templating import object_of

FILE = "disruption-budgets.yaml"


def budget_files(deployment: Deployment, select: SelectPods, *, namespace: str = "") -> dict[str, str]:
    """The file of the budgets of all islands, in `namespace` where the target's objects name one."""
    crews = crews_of(deployment.plan)
    labels = {island.id: select(island, deployment) for island in deployment.islands}
    joinable = len(_differing(list(labels.values()))) <= 1
    budgets = budgets_of(crews, joinable=joinable)
    objects = [_budget(budget, deployment, labels, namespace) for budget in budgets]
    return {FILE: yaml_text(_comments(deployment, crews, budgets), objects)}


def _comments(deployment: Deployment, crews: Crews, budgets: Sequence[Budget]) -> tuple[str, ...]:
    return (
        "Evictions that may happen at once, in copies of the model: a pod that goes takes its copy along.",
        _remains(deployment, crews, budgets),
        *(_allowance_words(budget, crews) for budget in budgets),
    )


def _remains(deployment: Deployment, crews: Crews, budgets: Sequence[Budget]) -> str:
    share_left = crews.remaining(budgets)
    if share_left is None:
        return (
            "With all of them used at once every length keeps a copy in each phase. Nodes that fail count beside them."
        )
    survive = deployment.plan.scenario.survive
    promised = f", and at least the {survive.share:.0%} of survive.share" if survive.share else ""
    return (
        f"With all of them used at once {share_left:.0%} of the plan's rate remains by the copies' "
        f"capacities{promised}. Nodes that fail count beside them."
    )


def _allowance_words(budget: Budget, crews: Crews) -> str:
    copies = sum(crews.crews[island].copies for island in budget.islands)
    names = " and ".join(budget.islands) + (" together" if len(budget.islands) > 1 else "")
    if budget.copies:
        return f"{names}: {budget.copies} of {copies} copies."
    return f"{names}: 0 of {copies}, none can be spared: to drain its node, delete this budget first."


def _budget(
    budget: Budget, deployment: Deployment, labels: Mapping[str, Mapping[str, str]], namespace: str
) -> dict[str, Any]:
    names = {island.id: island.name for island in deployment.islands}
    first, rows = names[budget.islands[0]], [labels[island] for island in budget.islands]
    differing = _differing(rows)  # one at most: the islands that share a budget have the others in common
    return object_of(
        "disruption-budget",
        name=f"{first}-and-others" if len(budget.islands) > 1 else first,
        namespace=namespace,
        labels=plan_labels(deployment.name),
        copies=budget.copies,
        common={key: value for key, value in rows[0].items() if key not in differing},
        differing="".join(differing),
        values=[row[key] for key in differing for row in rows],
    )


def _differing(rows: Sequence[Mapping[str, str]]) -> list[str]:
    return [key for key in rows[0] if len({row[key] for row in rows}) > 1]
