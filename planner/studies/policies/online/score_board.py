"""Scores of every node for every class of pods, kept while pods come and go: only the node that changed is judged anew.

Nodes lie in tie order, so that the first best one is the one to take.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.domain import Semantics, TracePod
from planner.placement.node_states import NodeState, PodClasses, class_key
from planner.studies.policies.online.policies import THOUSANDTHS, PolicyMix
from planner.studies.policies.online.seam import Policy, RandomPolicy

NOWHERE = -1
INFEASIBLE = -(2**17)
"""Integer score of a node that a pod does not fit on: far below every score, and no weight makes it overflow."""

Row = NDArray[Any]  # float64 in exact semantics, int32 in those of the reference


class ScoreBoard:
    """`states` in tie order; `policies` those of `mix`, in its order; `weights` of each may change between arrivals."""

    def __init__(
        self,
        states: Sequence[NodeState],
        pods: PodClasses,
        policies: Sequence[Policy],
        mix: PolicyMix,
        semantics: Semantics,
    ) -> None:
        self.states, self.pods = states, pods
        self.policies, self.mix, self.semantics = policies, mix, semantics
        exact = semantics is Semantics.EXACT
        self.weights = [weight for _, weight in mix.terms] if exact else list(mix.integer_weights)
        self._least = -np.inf if exact else INFEASIBLE
        self._allowed = {model: pods.allowed(model) for model in {state.node.gpu_model for state in states}}
        shape, kind = (len(pods), len(states)), np.float64 if exact else np.int32
        self._raw: list[Row] = [np.empty(shape, dtype=kind) for _ in policies]
        self._judge_all()

    def _judge_all(self) -> None:
        alike: dict[object, list[int]] = {}
        for number, state in enumerate(self.states):
            occupancy = (*state.gpu_left, *sorted(state.hosted.items()))
            kind = (state.node.gpu_model, state.node.cpu_model, state.node.cpu_milli)
            key = (*kind, state.cpu_left, state.memory_left, state.pods, occupancy)
            alike.setdefault(key, []).append(number)
        for numbers in alike.values():
            self.judge(numbers[0])
            for raw in self._raw:
                raw[:, numbers] = raw[:, numbers[:1]]

    def judge(self, number: int) -> None:
        """A node has changed: score it for every class."""
        state = self.states[number]
        fits = self.pods.fitting(state, self._allowed[state.node.gpu_model])
        for raw, policy in zip(self._raw, self.policies, strict=True):
            raw[:, number] = np.where(fits, policy.scores(state), self._least)

    def weigh(self, alpha: float) -> None:
        """Give the first of two policies this weight, whole thousandths, and the second the rest."""
        first = round(THOUSANDTHS * alpha)
        exact = self.semantics is Semantics.EXACT
        self.weights = [alpha, 1 - alpha] if exact else [first, THOUSANDTHS - first]

    def choose(self, kind: int) -> int:
        """Number of the node for a pod of this class; NOWHERE where it fits on none."""
        first = self._raw[0][kind]
        if isinstance(self.policies[0], RandomPolicy):
            feasible = np.flatnonzero(first > self._least)
            return int(self.policies[0].generator.choice(feasible)) if len(feasible) else NOWHERE
        # alone, stretching keeps the first of the best: only they reach 100
        total = first if len(self._raw) == 1 else self._total(kind)
        best = int(total.argmax())
        return best if first[best] > self._least else NOWHERE

    def _total(self, kind: int) -> Row:
        """Weighted scores; a node that is not feasible has less than every one that is. Some weight is above 0."""
        total: Row | None = None
        for raw, policy, weight in zip(self._raw, self.policies, self.weights, strict=True):
            if not weight:  # what a pod does not fit on, no other policy does either
                continue
            row: Row = raw[kind]
            if policy.stretched and self.semantics is Semantics.REFERENCE:
                row = _stretched(row, policy.level)
            total = row * weight if total is None else total + row * weight
        assert total is not None
        return total

    def place(self, number: int, kind: int) -> tuple[int, ...]:
        """Put a pod of the class, which fits, on the node; the GPUs that it got."""
        pod, state = self.pods.pods[kind], self.states[number]
        gpus = self.policies[self.mix.picks_gpus].gpus(state, pod) if pod.gpus else ()
        state.take(pod, gpus)
        self.judge(number)
        return gpus

    def remove(self, number: int, pod: TracePod, gpus: Sequence[int]) -> None:
        """A pod that was placed goes."""
        self.states[number].give_back(pod, gpus)
        self.judge(number)

    def class_of(self, pod: TracePod) -> int:
        """Number of the pod's class."""
        return self.pods.number[class_key(pod)]


def _stretched(row: Row, level: int) -> Row:
    """Scores on 0..100 between the worst and the best feasible node, rounded down; below 0, or `level`, where not."""
    high = row.max()
    low = INFEASIBLE + 1 + (row - (INFEASIBLE + 1)).view(np.uint32).min().astype(np.int64)  # infeasible: the largest
    above = np.maximum(row, low - 1, dtype=row.dtype) - row.dtype.type(low)
    stretched: Row = above + row.dtype.type(level) if high <= low else above * 100 // row.dtype.type(high - low)
    return stretched
