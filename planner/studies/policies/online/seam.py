"""The seam of online policies: what a policy may know of a study, and what it answers.

A policy judges one node for every class of pods at once, the higher the better, and picks the GPUs on the node that is
chosen. Classes that do not fit are masked by the caller.
Sources: facts on fragmentation and power, sections 7 and 8.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planner.domain import Semantics, TracePod
from planner.placement.fragmentation import TargetWorkload
from planner.placement.node_states import NodeState, PodClasses, Reals, best_fit, fitting_gpus
from planner.placement.power_model import NodePower


class Policy(Protocol):
    """One scoring policy. `stretched`: its integer scores are stretched to 0..100 over the feasible nodes.

    `level` is the stretched score where all feasible nodes have the same raw one.
    """

    @property
    def stretched(self) -> bool:
        """Whether raw scores are stretched before they are weighed (reference semantics)."""

    @property
    def level(self) -> int:
        """Stretched score of nodes that are all alike."""

    def scores(self, state: NodeState) -> Reals:
        """Raw score of the node for every class of pods."""

    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:
        """The GPUs that a pod, which fits, gets on the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a policy is made from: the classes of pods, the target workload, watts by node, how scores are rounded, and
    the seed of what is drawn."""

    pods: PodClasses
    workload: TargetWorkload
    power: Mapping[str, NodePower]
    semantics: Semantics
    seed: int


class RandomPolicy:
    """Any feasible node, and for a part of a GPU any fitting one; `ScoreBoard` draws the node."""

    stretched = False
    level = 0

    def __init__(self, classes: int, generator: np.random.Generator) -> None:
        self.generator = generator
        self._none = np.zeros(classes)

    def scores(self, state: NodeState) -> Reals:  # noqa: ARG002 - the seam's signature
        """0 for all: what distinguishes nodes is drawn with every arrival."""
        return self._none

    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:
        """A drawn one for a part of a GPU; whole GPUs: the first idle ones."""
        if pod.shares_gpu:
            return (int(self.generator.choice(fitting_gpus(state.gpu_left, pod.gpu_milli))),)
        return best_fit(state.gpu_left, pod)
