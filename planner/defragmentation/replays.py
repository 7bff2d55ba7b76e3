"""Moves carried out on a cluster wave by wave, everything checked anew from the cluster's own records.

Within a wave all copies come up first and only then the old pods go: both count while they overlap.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from planner.defragmentation.boards import is_sound, tolerated
from planner.defragmentation.partitions import ROUNDING
from planner.domain import Cluster, ClusterNode, Pod
from planner.domain.defragmentation import Move
from planner.domain.node_room import parts_held
from planner.errors import InconsistentPlanError


def replay(cluster: Cluster, moves: Sequence[Move]) -> Cluster:
    """The cluster after the moves. A pod that moved keeps its request, and has as many pinned cores as before.

    Raises:
        InconsistentPlanError: a move that is not safe: no such pod there, a locked pod, a node without room while both
            copies run, a label, taint, GPU type or anti-affinity group that forbids it, an empty node opened.
    """
    stage = _Stage(cluster)
    for _, wave in groupby(moves, key=lambda move: move.wave):
        stage.carry_out(list(wave))
    return replace(cluster, pods=tuple(stage.pods[pod.key] for pod in cluster.pods))


class _Stage:
    """Pods by key as they are now, and what runs on each node. A pod lives with the taints of its first node, wherever
    it has come to since.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.pods = {pod.key: pod for pod in cluster.pods}
        self._homes = {pod.key: pod.node for pod in cluster.pods}
        self._nodes = {node.name: node for node in cluster.nodes}
        self._allowed = {budget.name: budget.allowed for budget in cluster.disruption_budgets}
        self._running: dict[str, list[Pod]] = defaultdict(list)
        for pod in cluster.pods:
            self._running[pod.node].append(pod)

    def carry_out(self, wave: Sequence[Move]) -> None:
        """All copies of the wave come up, then their old pods go."""
        leaving: dict[str, Pod] = {}
        coming = []
        for move in wave:
            pod = self.pods.get(move.pod)
            fault = self._fault_of_pod(move, pod, leaving)
            if pod is None or fault:
                raise _unsafe(move, fault)
            copy = self._copy(pod, move)
            if fault := self._fault_of_target(pod, copy):
                raise _unsafe(move, fault)
            self._running[move.target].append(copy)
            leaving[pod.key] = pod
            coming.append(copy)
        self._require_budgets(wave, leaving)
        for copy in coming:
            self._running[leaving[copy.key].node].remove(leaving[copy.key])
            self.pods[copy.key] = copy

    def _copy(self, pod: Pod, move: Move) -> Pod:
        """The pod on its new node; as many cores as it had pinned are pinned there, those beside its GPUs first."""
        target = self._nodes[move.target]
        cores = _free_cores(target, self._running[target.name], move.gpu_indices)[: len(pod.cores)]
        return replace(
            pod,
            node=target.name,
            gpus=move.gpu_indices,
            # Counts written out: they followed from indices and cores, which the copy may not have.
            gpu_request=pod.gpu_count,
            cores=tuple(sorted(cores)) if len(cores) == len(pod.cores) else (),
            cpus=pod.cpu_count,
        )

    def _fault_of_pod(self, move: Move, pod: Pod | None, leaving: dict[str, Pod]) -> str:
        if pod is None or pod.node != move.source:
            return f"it must run on {move.source}, " + ("it runs nowhere" if pod is None else f"runs on {pod.node}")
        for holds, fault in (
            (pod.locked, "it is locked"),
            (move.pod in leaving, "it moves twice at once"),
            (move.gpus != pod.gpu_count, f"it must hold {move.gpus} GPUs, holds {pod.gpu_count}"),
            (move.target not in self._nodes, f"node {move.target} is not there"),
            (move.target == move.source, "it must go to another node"),
        ):
            if holds:
                return fault
        return ""

    def _fault_of_target(self, pod: Pod, copy: Pod) -> str:
        source, target = self._nodes[pod.node], self._nodes[copy.node]
        # The first node alone shows what a pod tolerates; later ones were let in by it.
        home = self._nodes[self._homes[pod.key]]
        neighbours = self._running[target.name]
        labels = dict(target.labels)
        for holds, fault in (
            (target.gpu != source.gpu, f"its GPUs must be {source.gpu}, {target.name} has {target.gpu}"),
            (not is_sound(target), f"{target.name} has a fault"),
            (not tolerated(target) <= tolerated(home), f"{target.name} has taints that {home.name} lacks"),
            (any(labels.get(k) != v for k, v in pod.node_selector), f"{target.name} lacks a label that it selects"),
            (
                bool(pod.anti_affinity) and any(other.anti_affinity == pod.anti_affinity for other in neighbours),
                f"{target.name} has a pod of its anti-affinity group {pod.anti_affinity}",
            ),
        ):
            if holds:
                return fault
        return next(_shortages(target, (*neighbours, copy)), "")

    def _require_budgets(self, wave: Sequence[Move], leaving: dict[str, Pod]) -> None:
        for name, allowed in self._allowed.items():
            gone = sum(pod.disruption_budget == name for pod in leaving.values())
            if gone > allowed:
                raise _unsafe(wave[0], f"{gone} pods of disruption budget {name} go at once, it allows {allowed}")


def _free_cores(node: ClusterNode, pods: Sequence[Pod], gpus: Sequence[int]) -> list[int]:
    """Cores that nobody has pinned, those on the NUMA nodes of these GPUs first."""
    pinned = {core for pod in pods for core in pod.cores}
    near = {gpu.numa for gpu in node.gpus if gpu.index in set(gpus)}
    ranked = sorted(node.numa_nodes, key=lambda numa: numa.id not in near)
    return [core for numa in ranked for core in sorted(numa.cores) if core not in pinned]


def _unsafe(move: Move, fault: str) -> InconsistentPlanError:
    return InconsistentPlanError(
        f"Move {move.order} ({move.pod}, {move.source} to {move.target}): {fault}.",
        hint="Plan the moves anew on the cluster as it is.",
    )


def _shortages(node: ClusterNode, pods: Sequence[Pod]) -> Iterator[str]:
    """What the node lacks for these pods, in words."""
    for resource, used, had in (
        ("GPUs", sum(pod.gpu_count for pod in pods) + parts_held(node, pods), len(node.gpus)),
        ("CPUs", sum(pod.cpu_count for pod in pods), node.cpus),
        ("GB of memory", sum(pod.memory_gb for pod in pods), node.memory_gb),
    ):
        if used > had * (1 + ROUNDING) + ROUNDING:
            yield f"{node.name} has {had:g} {resource}, {used:g} would be used"
    indices = [index for pod in pods for index in pod.gpus]
    strange = set(indices) - {gpu.index for gpu in node.gpus}
    if strange or len(set(indices)) < len(indices):
        yield f"{node.name}: GPU indices are held twice or do not exist"
