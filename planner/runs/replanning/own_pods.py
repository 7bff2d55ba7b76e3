"""A cluster as it is now holds the pods of the very plan that is changed: their GPUs are the plan's to keep or free."""

from collections.abc import Iterator
from dataclasses import replace

from planner import export
from planner.domain import Cluster, Plan, Pod, Scenario
from planner.errors import InputError


def without_own_pods(scenario: Scenario, saved: Plan) -> Scenario:
    """The scenario whose cluster lacks the pods of the plan that runs, known by the names of its objects.

    InputError where they run on other nodes than those that the plan's placement gives to their island.
    """
    cluster = scenario.cluster
    pods = {} if cluster is None or not cluster.pods else dict(_pods_of(saved, cluster))
    if cluster is None or not pods:
        return scenario
    _require_nodes(saved, pods)
    others = tuple(pod for pod in cluster.pods if pod not in pods)
    return replace(scenario, cluster=replace(cluster, pods=others))


def _pods_of(saved: Plan, cluster: Cluster) -> Iterator[tuple[Pod, str]]:
    """Pods of the plan with GPUs, and their islands. Controllers add to the name of their object."""
    plan = export.plan_label(saved)
    names = {f"{plan}-{label}-": island for label, island in export.island_labels(saved).items()}
    for pod in cluster.pods:
        island = next((island for name, island in names.items() if pod.name.startswith(name)), None)
        if island is not None and pod.gpu_count:
            yield pod, island


def _require_nodes(saved: Plan, pods: dict[Pod, str]) -> None:
    if saved.placement is None:
        return
    nodes_of: dict[str, set[str]] = {}
    for part in saved.placement.parts:
        nodes_of.setdefault(part.island, set()).add(part.node)
    for pod, island in pods.items():
        nodes = nodes_of.get(island, set())
        if pod.node not in nodes:
            raise InputError(
                f"cluster: pod {pod.key} of island {island} must run on the nodes that the plan gives to it, "
                f"{', '.join(sorted(nodes)) or 'none'}, got {pod.node}.",
                hint="Which servers would run on is not known then: change the plan without its cluster and placement "
                "(the plan as it was before `planner place`).",
            )
