"""Policies that take what a pod adds: fragments (FGD), watts (PWR); and the noise of the simulators, digit for digit.

They add up popularity * milli-GPU by cause, in the order of the target workload, and then the causes. A pod without
GPUs that leaves fewer free CPUs moves classes from one cause to another; the sum is the same, its last digits are not.
A change of -4e-13 milli-GPU makes the score 49 instead of 50, and another node is taken: so go 9 placements of FGD and,
as one thing leads to another, a third of those of PWR100+FGD900 (seed 42).
Source: the reference's decisions on the default trace, which come out node by node only so.

FGD  reference: trunc(100 / (1 + exp(-d))), d = (F before - F after) in GPUs; exact: d
PWR  reference: trunc(P before - P after), stretched over the feasible nodes; exact: P before - P after, W
A mixture in exact semantics is PWR's equation 5 as it stands: watts and GPUs weighed as they are.
Where F does not change, d of the reference is what its sums lose in rounding (`rounding_noise`).
A part of a GPU is tried on every GPU; the first of the best counts. Whole GPUs are the first idle ones.
Sources: facts on fragmentation and power, sections 6, 9 and 11.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from planner.domain import WHOLE_GPU, Semantics, TracePod, allows
from planner.placement.fragmentation import FragmentGradient, TargetWorkload
from planner.placement.node_states import (
    Booleans,
    Integers,
    NodeState,
    PodClasses,
    Reals,
    best_fit,
    class_key,
    fitting_gpus,
)
from planner.placement.power_model import NodePower


class RoundingNoise:
    """F before - F after, milli-GPU, in the simulators' order of summation."""

    def __init__(self, workload: TargetWorkload) -> None:
        classes = workload.classes
        self._classes = classes
        self._cpu = np.array([pod.cpu_milli for pod in classes], dtype=np.int64)
        self._gpu_milli = np.array([pod.gpu_milli for pod in classes], dtype=np.int64)
        self._gpus = np.array([pod.gpus for pod in classes], dtype=np.int64)
        self._popularity = np.array([pod.popularity for pod in classes], dtype=np.float64)
        self._barred: dict[str, Booleans] = {}

    def of_cpus(self, state: NodeState, cpu: Integers) -> Reals:
        """For each of these amounts of milli-CPU that a pod without GPUs would take."""
        cpu_left = np.concatenate([[state.cpu_left], state.cpu_left - cpu])
        sums = self._sums(state.node.gpu_model, state.gpu_left, cpu_left)
        change: Reals = sums[0] - sums[1:]
        return change

    def of_gpus(self, state: NodeState, pod: TracePod, gpus: Sequence[int]) -> float:
        """For a pod that gets these GPUs."""
        gpu_left = list(state.gpu_left)
        for gpu in gpus:
            gpu_left[gpu] -= pod.gpu_milli
        model = state.node.gpu_model
        before = self._sums(model, state.gpu_left, np.array([state.cpu_left]))
        return float(before[0] - self._sums(model, gpu_left, np.array([state.cpu_left - pod.cpu_milli]))[0])

    def _sums(self, gpu_model: str, gpu_left: Sequence[int], cpu_left: Integers) -> Reals:
        """F for each of these amounts of free milli-CPU."""
        idle = sum(gpu_left)
        free = np.array(gpu_left, dtype=np.int64)
        fitting = free >= self._gpu_milli[:, None]
        count, sums = fitting.sum(axis=1), (fitting * free).sum(axis=1)
        weighted_idle = self._popularity * idle
        barred = self._not_allowed(gpu_model)
        asks = (self._gpus > 0) & ~barred
        room = asks & (count >= self._gpus)
        no_room = asks & (count < self._gpus)
        enough = self._cpu[:, None] <= cpu_left
        causes = (
            _added(weighted_idle * no_room, ~enough),
            _added(weighted_idle * no_room + self._popularity * (idle - sums) * room, enough),
            _added(weighted_idle * room, ~enough),
            _added(weighted_idle * (self._gpus == 0), enough),
            _added(weighted_idle * (self._gpus == 0), ~enough),
            _added(weighted_idle * barred, np.ones_like(enough)),
        )
        total = np.zeros(len(cpu_left))
        for cause in causes:
            total = total + cause
        return total

    def _not_allowed(self, model: str) -> Booleans:
        if model not in self._barred:
            self._barred[model] = np.array(
                [pod.gpus > 0 and not allows(pod.gpu_spec, model) for pod in self._classes], dtype=np.bool_
            )
        return self._barred[model]


def _added(amounts: Reals, where: Booleans) -> Reals:
    """Sums over classes, one class after the other (a plain sum may pair them up)."""
    total: Reals = np.cumsum(amounts[:, None] * where, axis=0)[-1]
    return total


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
