"""What the simulators take for a change of fragmentation where there is none: the rounding of their sums.

They add up popularity * milli-GPU by cause, in the order of the target workload, and then the causes. A pod without
GPUs that leaves fewer free CPUs moves classes from one cause to another; the sum is the same, its last digits are not.
A change of -4e-13 milli-GPU makes the score 49 instead of 50, and another node is taken: so go 9 placements of FGD and,
as one thing leads to another, a third of those of PWR100+FGD900 (seed 42).
Source: the reference's decisions on the default trace, which come out node by node only so.
"""

from collections.abc import Sequence

import numpy as np

from planner.domain import TracePod, allows
from planner.placement.fragmentation import TargetWorkload
from planner.placement.node_states import Booleans, Integers, NodeState, Reals


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
