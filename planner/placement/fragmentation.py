"""Fragmentation of a node: what of its idle GPUs a pod drawn from the target workload cannot use.

| symbol | meaning | unit |
|---|---|---|
| c, r_i | free CPUs of the node, what is left of GPU i; R = sum of r_i | milli-CPU, milli-GPU |
| C, g, k | what a class asks for: CPUs, of each GPU, GPUs | milli-CPU, milli-GPU, 1 |
| w | weight of a class; W = sum of w | 1 |
| S | sum of r_i over GPUs with r_i >= g | milli-GPU |

A class of the node's models with k > 0, C <= c and at least k GPUs with r_i >= g can use S; every other can use none.
F = sum of w (R - what the class can use) / W. Memory does not count.
Source: fragmentation gradient descent (ATC '23); facts on fragmentation and power, section 5. Weights that are counts
make every sum of w * milli-GPU exact in double precision, in whatever order it is added up.

The target workload (section 4 there) is the classes of pods that make up most of a trace, by how often they come; that
of a cluster now (`fragments_now`) are the pods that it runs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np

from planner.domain import (
    WHOLE_GPU,
    Cluster,
    Fragmentation,
    FragmentCause,
    TraceNode,
    TracePod,
    TypicalPod,
    allows,
)
from planner.domain.cluster import MOST_GPUS_OF_A_NODE
from planner.errors import InputError
from planner.placement.node_states import MILLI, Integers, NodeState, PodClasses, Reals, states_of

_FIELDS = ("cpu_only", "not_allowed", "short_of_gpu", "short_of_cpu", "short_of_both", "too_small", "usable")


@dataclass(frozen=True)
class TargetWorkload:
    """The target workload as arrays: its classes with GPUs, by CPUs ascending; `weight` is W."""

    classes: tuple[TypicalPod, ...]
    weight: float
    cpu: Integers
    gpu_milli: Integers
    gpus: Integers
    weights: Reals
    specs: tuple[str, ...]
    _of_model: dict[str, Reals] = field(default_factory=dict)

    @classmethod
    def of(cls, classes: Sequence[TypicalPod]) -> "TargetWorkload":
        """Weights need not sum to 1; counts keep every sum exact."""
        # By CPUs, so that those which fit what is left are the first ones: a running sum answers for any amount.
        with_gpus = sorted((pod for pod in classes if pod.gpus), key=lambda pod: pod.cpu_milli)
        return cls(
            classes=tuple(classes),
            weight=float(sum(pod.weight for pod in classes)),
            cpu=np.array([pod.cpu_milli for pod in with_gpus], dtype=np.int64),
            gpu_milli=np.array([pod.gpu_milli for pod in with_gpus], dtype=np.int64),
            gpus=np.array([pod.gpus for pod in with_gpus], dtype=np.int64),
            weights=np.array([pod.weight for pod in with_gpus], dtype=np.float64),
            specs=tuple(pod.gpu_spec for pod in with_gpus),
        )

    def weights_on(self, gpu_model: str) -> Reals:
        """Weights, 0 for classes that may not use this GPU model."""
        # Few models, and asked for at every node.
        if gpu_model not in self._of_model:
            allowed = np.array([allows(spec, gpu_model) for spec in self.specs], dtype=np.bool_)
            self._of_model[gpu_model] = self.weights * allowed
        return self._of_model[gpu_model]

    def room(self, gpu_left: Sequence[int]) -> tuple[Integers, Integers]:
        """For every class: GPUs that could give it a share, and what is left of them together."""
        milli = np.array(sorted(gpu_left), dtype=np.int64)
        above = np.zeros(len(milli) + 1, dtype=np.int64)
        above[:-1] = milli[::-1].cumsum()[::-1]
        first = milli.searchsorted(self.gpu_milli)
        return len(milli) - first, above[first]

    def weighted_use(self, state: NodeState) -> float:
        """W times what a drawn pod can use of the node, milli-GPU."""
        count, sums = self.room(state.gpu_left)
        fits = (count >= self.gpus) & (self.cpu <= state.cpu_left)
        return float(self.weights_on(state.node.gpu_model) @ (sums * fits))

    def weighted(self, state: NodeState) -> float:
        """W times F of the node, milli-GPU; a whole number where the weights are."""
        return self.weight * sum(state.gpu_left) - self.weighted_use(state)

    def fragment(self, state: NodeState) -> float:
        """F of the node, milli-GPU."""
        return self.weighted(state) / self.weight


class FragmentGradient:
    """By how much W F would change if a pod of each class came to a node; for classes that fit, others mean nothing."""

    def __init__(self, workload: TargetWorkload, pods: PodClasses) -> None:
        self.workload = workload
        self.pods = pods
        self.shared = np.flatnonzero(pods.shares)
        self.other = np.flatnonzero(~pods.shares)
        self.parts, self.part_of = np.unique(pods.gpu_milli[self.shared], return_inverse=True)
        self.wholes, self.whole_of = np.unique(pods.gpus[self.other], return_inverse=True)
        self._steps: dict[int, tuple[Integers, Integers]] = {}

    def after(self, state: NodeState) -> Reals:
        """W (F before - F after) for every class of pods, with the GPU that is best for a part of one."""
        workload, pods = self.workload, self.pods
        count, sums = workload.room(state.gpu_left)
        weights = workload.weights_on(state.node.gpu_model)
        within = workload.cpu.searchsorted(state.cpu_left - pods.cpu, side="right")
        now = float(weights @ (sums * ((count >= workload.gpus) & (workload.cpu <= state.cpu_left))))
        use = np.zeros(len(pods))
        if len(self.other):
            use[self.other] = self._after_wholes(count, sums, weights)[self.whole_of, within[self.other]]
        if len(self.shared):
            use[self.shared] = self._after_parts(state, count, sums, weights, within[self.shared])
        return workload.weight * pods.total_gpu + use - now

    def _after_wholes(self, count: Integers, sums: Integers, weights: Reals) -> Reals:
        """W times the use after some whole GPUs are gone, by their number and the classes that CPUs are left for."""
        gone = self.wholes[:, None]
        return _running(self.workload, count - gone, sums - 1000 * gone, weights)

    def _after_parts(
        self, state: NodeState, count: Integers, sums: Integers, weights: Reals, within: Integers
    ) -> Reals:
        levels = sorted({level for level in state.gpu_left if level >= self.parts[0]})
        if not levels:
            return np.zeros(len(self.shared))
        use = self._use_by_level(levels, count, sums, weights)[:, self.part_of, within]
        # a GPU with too little left cannot give the part
        use[np.array(levels)[:, None] < self.parts[self.part_of]] = -np.inf
        best: Reals = use.max(axis=0)
        return best

    def by_level(self, state: NodeState, levels: Sequence[int]) -> Reals:
        """As `after`, for the first class that shares a GPU: by how much is left on the GPU that it gets."""
        workload, number = self.workload, self.shared[0]
        count, sums = workload.room(state.gpu_left)
        weights = workload.weights_on(state.node.gpu_model)
        within = workload.cpu.searchsorted(state.cpu_left - self.pods.cpu[number], side="right")
        now = float(weights @ (sums * ((count >= workload.gpus) & (workload.cpu <= state.cpu_left))))
        use = self._use_by_level(levels, count, sums, weights)[:, self.part_of[0], within]
        change: Reals = workload.weight * self.pods.total_gpu[number] + use - now
        return change

    def _use_by_level(self, levels: Sequence[int], count: Integers, sums: Integers, weights: Reals) -> Reals:
        steps = [self._step(level) for level in levels]
        counts = count + np.array([step[0] for step in steps])
        return _running(self.workload, counts, sums + np.array([step[1] for step in steps]), weights)

    def _step(self, level: int) -> tuple[Integers, Integers]:
        """How `room` changes when a part of each size is taken from a GPU with so much left."""
        if level not in self._steps:
            asked_milli = self.workload.gpu_milli
            then = (level - self.parts)[:, None]
            before, after = level >= asked_milli, then >= asked_milli
            self._steps[level] = (after.astype(np.int64) - before, then * after - level * before)
        return self._steps[level]


def _running(workload: TargetWorkload, count: Integers, sums: Integers, weights: Reals) -> Reals:
    """Weighted use by the first 0, 1, 2 ... classes (they come by CPUs) along the last axis."""
    use = np.zeros((*sums.shape[:-1], sums.shape[-1] + 1))
    np.cumsum((count >= workload.gpus) * sums * weights, axis=-1, out=use[..., 1:])
    return use


def node_fragments(state: NodeState, pod: TypicalPod) -> FragmentCause:
    """What a class can and cannot use of a node, by cause, milli-GPU."""
    idle = float(sum(state.gpu_left))
    if not pod.gpus:
        return FragmentCause(cpu_only=idle)
    if not allows(pod.gpu_spec, state.node.gpu_model):
        return FragmentCause(not_allowed=idle)
    fitting = [milli for milli in state.gpu_left if milli >= pod.gpu_milli]
    if len(fitting) >= pod.gpus:
        if pod.cpu_milli > state.cpu_left:
            return FragmentCause(short_of_cpu=idle)
        return FragmentCause(too_small=idle - sum(fitting), usable=float(sum(fitting)))
    if pod.cpu_milli > state.cpu_left:
        return FragmentCause(short_of_both=idle)
    return FragmentCause(short_of_gpu=idle)


def fragmentation(states: Sequence[NodeState], classes: Sequence[TypicalPod]) -> Fragmentation:
    """Fragmentation of a cluster now, by class of the target workload and cause."""
    by_class = [_added([(1.0, node_fragments(state, pod)) for state in states]) for pod in classes]
    total = sum(pod.weight for pod in classes)
    weighed = [(pod.weight / total, cause) for pod, cause in zip(classes, by_class, strict=True)]
    return Fragmentation(
        idle_gpu_milli=sum(sum(state.gpu_left) for state in states),
        causes=_added(weighed),
        classes=tuple(zip(classes, by_class, strict=True)),
    )


def _added(causes: Sequence[tuple[float, FragmentCause]]) -> FragmentCause:
    return FragmentCause(**{name: sum(weight * getattr(cause, name) for weight, cause in causes) for name in _FIELDS})


SHARE = 0.95


def target_workload(pods: Iterable[TracePod], share: float = SHARE) -> tuple[TypicalPod, ...]:
    """The fewest classes that make up `share` of the pods, the most frequent first.

    A class is CPUs, GPUs, milli-GPU and allowed models, not memory. Ties: the larger class first. InputError without
    pods, or where `share` is not within (0, 1].
    """
    if not 0 < share <= 1:
        raise InputError(f"target workload: share must be above 0 and at most 1, got {share:g}.", hint="Give 0.95.")
    counts = Counter((pod.cpu_milli, pod.gpu_milli, pod.gpus, pod.gpu_spec) for pod in pods)
    total = counts.total()
    if not total:
        raise InputError("target workload: there must be at least one pod; none came.", hint="Give a trace with pods.")
    chosen: list[tuple[tuple[int, int, int, str], int]] = []
    reached = 0
    for key, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if reached >= share * total:
            break
        reached += count
        chosen.append((key, count))
    shares = [count / total for _, count in chosen]
    covered = reached / total  # twice divided: as the simulators round
    return tuple(
        TypicalPod(cpu_milli=cpu, gpu_milli=milli, gpus=gpus, gpu_spec=spec, weight=count, popularity=part / covered)
        for ((cpu, milli, gpus, spec), count), part in zip(chosen, shares, strict=True)
    )


REQUESTS = (1, 2, 4, 8)
"""GPUs of the requests, all equally likely, that stand in where no pod holds a GPU."""
PLANNED = "planned-islands"
"""Namespace of islands that a placement puts on nodes: no pods of the cluster's own."""
LEAST_SCALE = 2.0
"""Idle GPUs that one GPU more may strand: with `REQUESTS` 7 / 4, rounded up."""


@dataclass(frozen=True)
class Fragments:
    """F of nodes by their idle GPUs alone, for the requests of a cluster's own pods (GPUs of one, and how often), as
    `scale` has it per GPU taken: what one GPU more strands at most."""

    requests: tuple[tuple[int, float], ...]
    of_pods: bool
    by_idle: tuple[float, ...]
    scale: float

    @classmethod
    def of(cls, cluster: Cluster) -> "Fragments":
        """CPUs do not count: what a GPU takes of them is the plan's to say."""
        pods = [
            TracePod(name=pod.key, cpu_milli=0, memory_mib=0, gpus=pod.gpu_count, gpu_milli=WHOLE_GPU)
            for pod in cluster.pods
            if pod.gpu_count and pod.namespace != PLANNED
        ]
        classes = target_workload(pods) if pods else tuple(map(request_of, REQUESTS))
        target = TargetWorkload.of(classes)
        by_idle = [target.fragment(_idle_node(idle)) / WHOLE_GPU for idle in range(MOST_GPUS_OF_A_NODE + 1)]
        steps = (before - after for before, after in pairwise(by_idle))
        return cls(
            requests=tuple(sorted((pod.gpus, pod.popularity) for pod in classes)),
            of_pods=bool(pods),
            by_idle=tuple(by_idle),
            scale=max(LEAST_SCALE, *steps),
        )


@cache
def stranded(idle: int, request: int) -> int:
    """Idle GPUs of a node that cannot be part of a request of so many."""
    return round(node_fragments(_idle_node(idle), request_of(request)).total / WHOLE_GPU)


def _idle_node(gpus: int) -> NodeState:
    return NodeState.empty(TraceNode(name="", cpu_milli=0, memory_mib=0, gpus=gpus, gpu_model=""))


def fragments_now(cluster: Cluster) -> Fragmentation:
    """What pods like those of a sound cluster cannot use of its idle GPUs, by class and cause.

    Pods without GPUs could use none of them and are no class. Whole GPUs count by number, whichever a pod holds.
    """
    return fragmentation(states_of(cluster), workload_of(cluster))


def workload_of(cluster: Cluster) -> tuple[TypicalPod, ...]:
    """The target workload of a cluster: the classes of its pods with GPUs, else requests of 1, 2, 4, 8 GPUs."""
    pods = [
        TracePod(
            name=pod.key,
            cpu_milli=round(pod.cpu_count * MILLI),
            memory_mib=0,  # classes do not tell pods apart by it
            gpus=pod.gpu_count,
            gpu_milli=WHOLE_GPU,
        )
        for pod in cluster.pods
        if pod.gpu_count
    ]
    return target_workload(pods) if pods else tuple(map(request_of, REQUESTS))


def request_of(gpus: int) -> TypicalPod:
    """One of `REQUESTS` as a class of pods. CPUs do not count: what it takes of them is the plan's to say."""
    share = 1 / len(REQUESTS)
    return TypicalPod(cpu_milli=0, gpus=gpus, gpu_milli=WHOLE_GPU, gpu_spec="", weight=1.0, popularity=share)
