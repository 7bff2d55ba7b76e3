"""Victims straight from the records, every subset of every node tried: the truth that all methods are held to."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations

from planner.domain import Alignment, Cluster, ClusterNode, Pod, Preemptor, Qos, VictimRule, VictimSettings

EPSILON = 1e-9


@dataclass(frozen=True)
class Way:
    """One way to make room: victims, and the GPUs (indices) that the preemptor takes then."""

    node: int
    victims: frozenset[str]
    gpus: frozenset[int]


def ways(
    cluster: Cluster,
    preemptor: Preemptor,
    settings: VictimSettings,
    exclude: frozenset[str] = frozenset(),
    *,
    every: bool = False,
) -> dict[int, list[Way]]:
    """Node -> all ways with as few victims as can be; `every`: all ways."""
    found: dict[int, list[Way]] = {}
    for number, node in enumerate(cluster.nodes):
        pods = [pod for pod in cluster.pods if pod.node == node.name]
        if preemptor.gpu not in ("", node.gpu) or any(pod.gpu_request > len(pod.gpus) for pod in pods):
            continue
        those = [pod for pod in pods if may_go(cluster, pod, preemptor, settings) and pod.key not in exclude]
        for size in range(len(those) + 1):
            here = [
                Way(number, frozenset(pod.key for pod in going), gpus)
                for going in combinations(those, size)
                for gpus in places(cluster, node, [pod for pod in pods if pod not in going], going, preemptor)
            ]
            found.setdefault(number, []).extend(here)
            if here and not every:
                break
    return {number: here for number, here in found.items() if here}


def may_go(cluster: Cluster, pod: Pod, preemptor: Preemptor, settings: VictimSettings) -> bool:
    allowed = {budget.name: budget.allowed for budget in cluster.disruption_budgets}
    young = pod.age_s is not None and pod.age_s < settings.protected_s
    used_up = bool(pod.disruption_budget) and allowed[pod.disruption_budget] <= 0
    return pod.preemptible and not pod.locked and pod.priority < preemptor.priority and not young and not used_up


def places(
    cluster: Cluster, node: ClusterNode, staying: list[Pod], going: tuple[Pod, ...], preemptor: Preemptor
) -> Iterator[frozenset[int]]:
    """GPUs that the preemptor could take."""
    allowed = {budget.name: budget.allowed for budget in cluster.disruption_budgets}
    taken = Counter(pod.disruption_budget for pod in going if pod.disruption_budget)
    cpus = node.cpus - sum(max(pod.cpus, len(pod.cores)) for pod in staying)
    memory = node.memory_gb - sum(pod.memory_gb for pod in staying)
    if any(count > allowed[name] for name, count in taken.items()):
        return
    if (preemptor.cpus and cpus < preemptor.cpus - EPSILON) or (
        preemptor.memory_gb and memory < preemptor.memory_gb - EPSILON
    ):
        return
    free = {gpu.index for gpu in node.gpus} - {index for pod in staying for index in pod.gpus}
    everything = [frozenset(gpus) for gpus in combinations([gpu.index for gpu in node.gpus], preemptor.gpus)]
    least = min((width(node, gpus) for gpus in everything), default=(0, 0))
    for gpus in everything:
        sockets, numas = width(node, gpus)
        aligned = {
            Qos.SINGLE_NUMA: numas == 1,
            Qos.GUARANTEED: (sockets, numas) == least,
            Qos.BEST_EFFORT: True,
            Qos.NONE: True,
        }
        if gpus <= free and aligned[preemptor.qos]:
            yield gpus


def width(node: ClusterNode, gpus: frozenset[int]) -> tuple[int, int]:
    """(sockets, NUMA nodes)."""
    socket = {numa.id: numa.socket for numa in node.numa_nodes}
    numas = {gpu.numa for gpu in node.gpus if gpu.index in gpus}
    return len({socket[numa] for numa in numas}), len(numas)


def alignment(node: ClusterNode, gpus: frozenset[int]) -> Alignment:
    sockets, numas = width(node, gpus)
    if numas == 1:
        return Alignment.NUMA
    return Alignment.SOCKET if sockets == 1 else Alignment.CROSS


def place(cluster: Cluster, way: Way, preemptor: Preemptor, settings: VictimSettings) -> tuple[object, ...]:
    """What ways are ordered by, lowest first, without the names; its second part is -S."""
    pods = [pod for pod in cluster.pods if pod.key in way.victims]
    node = cluster.nodes[way.node]
    lowest = min((pod.priority for pod in cluster.pods), default=1)
    sigma = max(1, sum(pod.priority + max(0, 1 - lowest) for pod in pods))
    lost_h = sum((pod.checkpoint_age_s or 0) * len(pod.gpus) for pod in pods) / 3600
    levels = {
        Alignment.NUMA: settings.numa,
        Alignment.SOCKET: settings.socket,
        Alignment.CROSS: settings.cross,
    }
    topology = 0.0 if preemptor.qos is Qos.NONE else levels[alignment(node, way.gpus)]
    if settings.rule is VictimRule.COMBINED:
        topology -= settings.lost_work_weight * lost_h
    score = settings.alpha / sigma + (1 - settings.alpha) * topology
    if settings.rule is VictimRule.LOST_WORK:
        score = -lost_h
    count = len(pods) if settings.rule is VictimRule.LOST_WORK else 0
    freed = set(chain.from_iterable(pod.gpus for pod in pods))
    return bool(pods), round(-score, 9), count, len(freed - way.gpus), sigma, way.node
