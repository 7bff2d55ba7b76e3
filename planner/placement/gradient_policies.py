"""Policies that follow a gradient: FGD that of fragmentation, PWR that of power.

FGD  reference: trunc(100 / (1 + exp(-d))), d = (F before - F after) in GPUs; exact: d
PWR  reference: trunc(P before - P after), stretched over the feasible nodes; exact: P before - P after, W
A mixture in exact semantics is PWR's equation 5 as it stands: watts and GPUs weighed as they are.
Where F does not change, d of the reference is what its sums lose in rounding (`rounding_noise`).
A part of a GPU is tried on every GPU; the first of the best counts. Whole GPUs are the first idle ones.
Sources: facts on fragmentation and power, sections 6, 9 and 11.
"""

import numpy as np

from planner.domain import WHOLE_GPU, Semantics, TracePod
from planner.placement.fragmentation import FragmentGradient, TargetWorkload
from planner.placement.node_states import NodeState, PodClasses, Reals, best_fit, class_key, fitting_gpus
from planner.placement.power_model import NodePower
from planner.placement.rounding_noise import RoundingNoise


class FragmentationGradientDescent:
    """FGD: the node whose fragmentation grows least."""

    stretched = False
    level = 0

    def __init__(self, workload: TargetWorkload, pods: PodClasses, semantics: Semantics) -> None:
        self.gradient = FragmentGradient(workload, pods)
        self.pods = pods
        self.semantics = semantics
        self._alone: dict[int, FragmentGradient] = {}
        self._cpu_only = pods.gpus == 0
        self._noise = RoundingNoise(workload)

    def scores(self, state: NodeState) -> Reals:
        """For every class of pods."""
        weighted = self.gradient.after(state)
        if self.semantics is Semantics.REFERENCE and any(state.gpu_left):
            still = np.flatnonzero((weighted == 0) & self._cpu_only)
            if len(still):
                weighted[still] = self._noise.after(state, self.pods.cpu[still]) * self.gradient.workload.weight
        return self._scores(weighted)

    def _scores(self, weighted: Reals) -> Reals:
        gpus = weighted / self.gradient.workload.weight / WHOLE_GPU
        if self.semantics is Semantics.EXACT:
            return gpus
        return np.trunc(100 * (1 / (1 + np.exp(-gpus))))

    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:
        """The first GPU of the best score; whole GPUs: the first idle ones."""
        if not pod.shares_gpu:
            return best_fit(state.gpu_left, pod)
        first = {state.gpu_left[k]: k for k in reversed(fitting_gpus(state.gpu_left, pod.gpu_milli))}
        if len(first) == 1:
            return tuple(first.values())
        gradient = self._of(pod)
        scores = self._scores(gradient.by_level(state, sorted(first)))
        best = scores.max()
        return (min(first[left] for left, score in zip(sorted(first), scores, strict=True) if score == best),)

    def _of(self, pod: TracePod) -> FragmentGradient:
        number = self.pods.number[class_key(pod)]
        if number not in self._alone:
            self._alone[number] = FragmentGradient(self.gradient.workload, self.pods.alone(number))
        return self._alone[number]


class PowerAware:
    """PWR: the node whose power grows least."""

    stretched = True
    level = 100

    def __init__(self, pods: PodClasses, power: dict[str, NodePower], semantics: Semantics) -> None:
        self.pods = pods
        self.power = power
        self.semantics = semantics

    def scores(self, state: NodeState) -> Reals:
        """For every class of pods."""
        power, pods = self.power[state.node.name], self.pods
        cpu = power.cpu_watts(np.array([state.cpu_left]))[0] - power.cpu_watts(state.cpu_left - pods.cpu)
        fullest_busy = max((left for left in state.gpu_left if left < WHOLE_GPU), default=-1)
        woken = np.where(pods.shares, pods.gpu_milli > fullest_busy, pods.gpus)
        saved: Reals = cpu - (power.gpu.full_w - power.gpu.idle_w) * woken
        return np.trunc(saved) if self.semantics is Semantics.REFERENCE else saved

    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:
        """The first GPU that is at work already, else the first idle one; whole GPUs: the first idle ones."""
        if not pod.shares_gpu:
            return best_fit(state.gpu_left, pod)
        fitting = fitting_gpus(state.gpu_left, pod.gpu_milli)
        return (next((k for k in fitting if state.gpu_left[k] < WHOLE_GPU), fitting[0]),)
