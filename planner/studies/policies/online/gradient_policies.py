"""Policies that follow a gradient: FGD that of fragmentation, PWR that of power.

FGD  reference: trunc(100 / (1 + exp(-d))), d = (F before - F after) in GPUs; exact: d
PWR  reference: trunc(P before - P after), stretched over the feasible nodes; exact: P before - P after, W
A mixture in exact semantics is PWR's equation 5 as it stands: watts and GPUs weighed as they are.
Where F does not change, d of the reference is what its sums lose in rounding (`rounding_noise`).
A part of a GPU is tried on every GPU; the first of the best counts. Whole GPUs are the first idle ones.
Sources: facts on fragmentation and power, sections 6, 9 and 11.
"""

from collections.abc import Mapping

import numpy as np

from planner.domain import WHOLE_GPU, Semantics, TracePod
from planner.placement.fragmentation import FragmentGradient, TargetWorkload
from planner.placement.node_states import NodeState, PodClasses, Reals, best_fit, class_key, fitting_gpus
from planner.placement.power_model import NodePower
from planner.studies.policies.online.rounding_noise import RoundingNoise


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
            self._add_noise(state, weighted)
        return self._scores(weighted)

    def _add_noise(self, state: NodeState, weighted: Reals) -> None:
        """Put the rounding of the simulators where nothing changes."""
        pods, total = self.pods, self.gradient.workload.weight
        still = weighted == 0
        without = np.flatnonzero(still & self._cpu_only)
        if len(without):
            weighted[without] = self._noise.of_cpus(state, pods.cpu[without]) * total
        for number in np.flatnonzero(still & ~self._cpu_only).tolist():
            weighted[number] = self._noisiest(state, pods.pods[number]) * total

    def _noisiest(self, state: NodeState, pod: TracePod) -> float:
        """The largest change of F that rounding makes out of none, over the GPUs that the pod may get."""
        if not pod.shares_gpu:
            chosen = best_fit(state.gpu_left, pod)
            return self._noise.of_gpus(state, pod, chosen) if len(chosen) == pod.gpus else 0.0
        first = _first_by_level(state, pod)
        if not first:
            return 0.0
        changes = self._of(pod).by_level(state, sorted(first))
        at = [first[level] for level, change in zip(sorted(first), changes, strict=True) if change == 0]
        return max((self._noise.of_gpus(state, pod, (gpu,)) for gpu in at), default=0.0)

    def _scores(self, weighted: Reals) -> Reals:
        gpus = weighted / self.gradient.workload.weight / WHOLE_GPU
        if self.semantics is Semantics.EXACT:
            return gpus
        return np.trunc(100 * (1 / (1 + np.exp(-gpus))))

    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:
        """The first GPU of the best score; whole GPUs: the first idle ones."""
        if not pod.shares_gpu:
            return best_fit(state.gpu_left, pod)
        first = _first_by_level(state, pod)
        if len(first) == 1:
            return tuple(first.values())
        levels = sorted(first)
        changes = self._of(pod).by_level(state, levels)
        if self.semantics is Semantics.REFERENCE:
            for k in np.flatnonzero(changes == 0).tolist():
                changes[k] = self._noise.of_gpus(state, pod, (first[levels[k]],)) * self.gradient.workload.weight
        scores = self._scores(changes)
        best = scores.max()
        return (min(first[level] for level, score in zip(levels, scores, strict=True) if score == best),)

    def _of(self, pod: TracePod) -> FragmentGradient:
        number = self.pods.number[class_key(pod)]
        if number not in self._alone:
            self._alone[number] = FragmentGradient(self.gradient.workload, self.pods.alone(number))
        return self._alone[number]


def _first_by_level(state: NodeState, pod: TracePod) -> dict[int, int]:
    """By how much is left on GPUs that fit, the first such GPU."""
    return {state.gpu_left[k]: k for k in reversed(fitting_gpus(state.gpu_left, pod.gpu_milli))}


class PowerAware:
    """PWR: the node whose power grows least."""

    stretched = True
    level = 100

    def __init__(self, pods: PodClasses, power: Mapping[str, NodePower], semantics: Semantics) -> None:
        self.pods = pods
        self.power = power
        self.semantics = semantics

    def scores(self, state: NodeState) -> Reals:
        """For every class of pods."""
        power, pods = self.power[state.node.name], self.pods
        cpu = power.cpu_watts(np.array([state.cpu_left]))[0] - power.cpu_watts(state.cpu_left - pods.cpu)
        fullest_busy = max((free_milli for free_milli in state.gpu_left if free_milli < WHOLE_GPU), default=-1)
        woken = np.where(pods.shares, pods.gpu_milli > fullest_busy, pods.gpus)
        saved: Reals = cpu - (power.gpu.full_w - power.gpu.idle_w) * woken
        return np.trunc(saved) if self.semantics is Semantics.REFERENCE else saved

    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:
        """The first GPU that is at work already, else the first idle one; whole GPUs: the first idle ones."""
        if not pod.shares_gpu:
            return best_fit(state.gpu_left, pod)
        fitting = fitting_gpus(state.gpu_left, pod.gpu_milli)
        return (next((k for k in fitting if state.gpu_left[k] < WHOLE_GPU), fitting[0]),)
