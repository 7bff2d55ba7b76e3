"""Small full clusters, and the best evictions on them by trying every set of pods."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations

import numpy as np
from brute_force import feasible
from hypothesis import strategies as st
from placed_records import cluster_of, node

from planner.domain import (
    PHASES,
    Cluster,
    DisruptionBudget,
    EvictionRule,
    Phase,
    Placement,
    PlacementDemand,
    PlacementSettings,
    Pod,
)

PRIORITY = 1000
LOWEST = (100, 200, 500)


def demand(island: str, tp: int = 1, groups: int = 1, replicas: int = 1, **changes: object) -> PlacementDemand:
    """An island that asks for GPUs alone."""
    fields: dict[str, object] = {
        "island": island,
        "gpu": "H20",
        "phase": Phase.PREFILL,
        "replicas": replicas,
        "groups": groups,
        "tp": tp,
    }
    return PlacementDemand(**(fields | changes))  # type: ignore[arg-type]


def spot(name: str, where: str, gpus: Sequence[int], priority: int = 100, **changes: object) -> Pod:
    """A pod that may go."""
    return replace(
        Pod(name=name, node=where, gpus=tuple(gpus), cpus=1.0, priority=priority, preemptible=True),
        **changes,  # type: ignore[arg-type]
    )


def full_cluster(
    rng: np.random.Generator, *, nodes: int = 2, protected: float = 0.15, budgets: bool = False
) -> Cluster:
    """Nodes of two sockets with two GPUs each, most of them held by pods of one, two or four GPUs."""
    records = [node(f"n{k}", gpus=2, cores=16, asw=f"asw-{k % 2}") for k in range(nodes)]
    pods: list[Pod] = []
    for one in records:
        left = [gpu.index for gpu in one.gpus if rng.random() < 0.9]
        while left:
            size = min(int(rng.choice([1, 1, 2, 4])), len(left))
            held, left = left[:size], left[size:]
            pods.append(_drawn(rng, f"p{len(pods)}", one.name, held, protected, budgets=budgets))
    names = [DisruptionBudget(name="b", allowed=int(rng.integers(0, 3)))] if budgets else []
    return replace(cluster_of(*records, pods=pods), disruption_budgets=tuple(names))


def _drawn(
    rng: np.random.Generator, name: str, where: str, held: Sequence[int], protected: float, *, budgets: bool
) -> Pod:
    pod = spot(name, where, held, int(rng.choice(LOWEST)), checkpoint_age_s=float(rng.integers(0, 20)) * 900.0)
    if budgets and rng.random() < 0.5:
        pod = replace(pod, disruption_budget="b")
    if rng.random() < protected:
        changes: tuple[dict[str, object], ...] = ({"preemptible": False}, {"locked": True}, {"priority": PRIORITY})
        pod = replace(pod, **changes[rng.integers(3)])  # type: ignore[arg-type]
    return pod


def evictable(cluster: Cluster) -> list[Pod]:
    """Who may go."""
    return [pod for pod in cluster.pods if pod.preemptible and not pod.locked and pod.priority < PRIORITY]


def without(cluster: Cluster, gone: Sequence[Pod]) -> Cluster:
    """The cluster once they are gone."""
    return replace(cluster, pods=tuple(pod for pod in cluster.pods if pod not in gone))


def subsets(pods: Sequence[Pod]) -> Iterator[tuple[Pod, ...]]:
    """Every set of them, small ones first."""
    return chain.from_iterable(combinations(pods, k) for k in range(len(pods) + 1))


def makes_room(cluster: Cluster, gone: Sequence[Pod], demands: Sequence[PlacementDemand]) -> bool:
    """Whether the islands fit once they are gone, by enumeration."""
    return feasible(without(cluster, gone), demands)


def price(pods: Sequence[Pod], rule: EvictionRule) -> tuple[float, ...]:
    """What a rule minimises first, written down from its definition."""
    if rule is EvictionRule.PRIORITY:
        return tuple(sum(pod.priority == one for pod in pods) for one in sorted(LOWEST, reverse=True))
    hours = sum((pod.checkpoint_age_s or 0.0) * len(pod.gpus) for pod in pods) / 3600
    return (hours,)


def combined(pods: Sequence[Pod], candidates: Sequence[Pod]) -> float:
    """How near priorities are to the islands', and a tenth of the lost GPU-hours."""
    lowest = min(pod.priority for pod in candidates)
    near = sum((pod.priority - lowest + 1) / (PRIORITY - lowest) for pod in pods)
    return near + 0.1 * price(pods, EvictionRule.LOST_WORK)[0]


def gone_of(cluster: Cluster, placement: Placement) -> list[Pod]:
    """The victims' pods."""
    pods = {pod.key: pod for pod in cluster.pods}
    return [pods[victim.pod] for victim in placement.victims]


def settings(**changes: object) -> PlacementSettings:
    """Preemption on, and no CPUs asked for."""
    fields: dict[str, object] = {"preempt": True, "priority": PRIORITY, "cpus_per_gpu": 0}
    return PlacementSettings(**(fields | changes))  # type: ignore[arg-type]


def within(cluster: Cluster, gone: Sequence[Pod], asked: PlacementSettings) -> bool:
    """Whether a set of pods keeps to every limit."""
    allowed = {budget.name: budget.allowed for budget in cluster.disruption_budgets}
    counts = {name: sum(pod.disruption_budget == name for pod in gone) for name in allowed}
    hours = sum((pod.checkpoint_age_s or 0.0) * len(pod.gpus) for pod in gone) / 3600
    return (
        (asked.most_victims is None or len(gone) <= asked.most_victims)
        and (asked.most_lost_gpu_hours is None or hours <= asked.most_lost_gpu_hours + 1e-9)
        and all(counts[name] <= allowed[name] for name in allowed)
    )


def most_gpus(cluster: Cluster, sizes: Sequence[int], asked: PlacementSettings) -> int:
    """Most GPUs of islands of one aligned group each (of 1 or 2 GPUs) that any evictions within the limits place.

    Nodes of `full_cluster`: a group lies inside one NUMA node of two GPUs.
    """
    best = 0
    for gone in subsets(evictable(cluster)):
        if within(cluster, gone, asked):
            best = max(best, _packed(_free(without(cluster, gone)), tuple(sorted(sizes, reverse=True))))
    return best


def _free(cluster: Cluster) -> tuple[int, ...]:
    """Free GPUs of every NUMA node."""
    held = {(pod.node, index) for pod in cluster.pods for index in pod.gpus}
    return tuple(
        sorted(
            sum(gpu.numa == numa.id and (one.name, gpu.index) not in held for gpu in one.gpus)
            for one in cluster.nodes
            for numa in one.numa_nodes
        )
    )


@cache
def _packed(free: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """Pairs of free GPUs go to islands of two first, which wastes nothing: what is left suits islands of one."""
    if not sizes:
        return 0
    size, rest = sizes[0], sizes[1:]
    best = _packed(free, rest)
    for k, count in enumerate(free):
        if count >= size and (k == 0 or free[k - 1] != count):
            left = tuple(sorted((*free[:k], count - size, *free[k + 1 :])))
            best = max(best, size + _packed(left, rest))
    return best


def one_island(rng: np.random.Generator) -> PlacementDemand:
    """One island of one to four GPUs a replica."""
    tp = int(rng.choice([1, 2, 4]))
    groups = 1 if tp == 4 else int(rng.integers(1, 3))
    return demand("i", tp, groups, int(rng.integers(1, 3)) if groups == 1 else 1)


@st.composite
def instances(draw: st.DrawFn) -> tuple[Cluster, list[PlacementDemand], PlacementSettings]:
    """Clusters of up to five nodes, up to five islands of both phases, limits of all kinds or none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cluster = full_cluster(rng, nodes=draw(st.integers(1, 5)), protected=0.3, budgets=draw(st.booleans()))
    if draw(st.booleans()):
        cluster = replace(
            cluster, pods=tuple(p if k % 3 else replace(p, checkpoint_age_s=None) for k, p in enumerate(cluster.pods))
        )
    demands = []
    for k in range(draw(st.integers(1, 5))):
        island = one_island(rng)
        phase, rate = draw(st.sampled_from(list(PHASES))), draw(st.sampled_from([0.0, 1.0, 5.0]))
        demands.append(replace(island, island=f"i{k}", phase=phase, rate_rps=rate))
    asked = settings(
        victim_rule=draw(st.sampled_from(list(EvictionRule))),
        most_victims=draw(st.none() | st.integers(0, 5)),
        most_lost_gpu_hours=draw(st.none() | st.floats(0, 20)),
        lost_gpu_hour_rps=draw(st.sampled_from([0.0, 0.5])),
        assumed_checkpoint_age_s=draw(st.none() | st.just(3600.0)),
    )
    return cluster, demands, asked
