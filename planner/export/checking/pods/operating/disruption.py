"""PodDisruptionBudgets: each is over pods of these files, no pod is in two, and used up at once they leave what the
plan promises."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.checking.expectation import Expectation, Owned
from planner.export.found import Fault, Manifest
from planner.export.objects.operating.allowances import Budget, Crews, crews_of
from planner.export.objects.operating.disruption import KIND
from planner.export.objects.programs.fields import of_router


def budget_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """What is wrong with the budgets of islands among `manifests`; nothing where there is none."""
    budgets = [manifest for manifest in manifests if manifest.kind == KIND and not of_router(manifest)]
    chosen: list[tuple[Manifest, Budget]] = []
    keepers: dict[tuple[str, str], Manifest] = {}
    for manifest in budgets:
        pods = [(item, pod) for item in owned for pod in item.workload.pods if _selects(manifest, pod.labels)]
        if not pods:
            yield manifest.fault("spec.selector", "must select pods of these files", "none")
            continue
        for item, pod in pods:
            other = keepers.setdefault((item.island.id, pod.path), manifest)
            if other is not manifest:
                rule = f"must leave pods of {item.island.id} to {other.name}: in two budgets none can be evicted"
                yield manifest.fault("spec.selector", rule, pod.path)
        if "maxUnavailable" not in manifest.body["spec"]:
            yield manifest.fault("spec.maxUnavailable", "must be given, as copies may come and go", "minAvailable")
            continue
        islands = tuple(dict.fromkeys(item.island.id for item, _ in pods))
        yield from _half_faults(manifest, owned, islands)
        chosen.append((manifest, Budget(islands=islands, copies=manifest.body["spec"]["maxUnavailable"])))
    if expected.planned is not None and chosen:
        yield from _allowance_faults(chosen, crews_of(expected.planned))


def _half_faults(manifest: Manifest, owned: Sequence[Owned], islands: Sequence[str]) -> Iterator[Fault]:
    """A pod outside of the budget of its copy can be evicted whatever the budget says."""
    for item in owned:
        missed = [pod.path for pod in item.workload.pods if not _selects(manifest, pod.labels)]
        if item.island.id in islands and missed:
            rule = f"must select all pods of a copy of {item.island.id}"
            yield manifest.fault("spec.selector", rule, f"none of {missed[0]}")


def _allowance_faults(chosen: Sequence[tuple[Manifest, Budget]], crews: Crews) -> Iterator[Fault]:
    """Told of the first budget with which those before it and itself take too much."""
    used: list[Budget] = []
    for manifest, budget in chosen:
        if budget.copies and not crews.keep([*used, budget]):
            rule = f"must be less: with all budgets used at once too little beside {', '.join(budget.islands)} is left"
            yield manifest.fault("spec.maxUnavailable", rule, budget.copies)
        else:
            used.append(budget)


def _selects(manifest: Manifest, labels: Mapping[str, Any]) -> bool:
    selector = manifest.body["spec"]["selector"]
    rules = selector.get("matchExpressions", ())
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(rule["key"]) in rule["values"] for rule in rules
    )
