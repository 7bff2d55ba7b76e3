"""Who has to go so that a pod with a higher priority can come: the question, the rules and the answers."""

from dataclasses import dataclass
from enum import StrEnum
from operator import index
from typing import SupportsIndex, TypeVar

from planner.domain.cluster import HIGHEST_PRIORITY, LOWEST_PRIORITY
from planner.domain.placement import Alignment, Qos
from planner.errors import InputError

Word = TypeVar("Word", bound=StrEnum)


def one_of(kind: type[Word], value: str, where: str) -> Word:
    """The member of that value, as a member or as plain text. InputError: no such value."""
    if value not in tuple(kind):
        raise InputError(f"{where}: must be one of {', '.join(kind)}, got {value!r}.", hint="Choose one of them.")
    return kind(value)


def whole(value: SupportsIndex, where: str) -> int:
    """A whole number of any kind as `int`. InputError: anything else."""
    try:
        return index(value)
    except TypeError:
        raise InputError(f"{where}: must be a whole number, got {value!r}.", hint="Give a whole number.") from None


def pod_priority(value: SupportsIndex, where: str) -> int:
    """A pod's priority. InputError: no whole number, or beyond 32 bits."""
    priority = whole(value, f"{where}: priority")
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise InputError(
            f"{where}: priority: must be from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, got {priority}.",
            hint="Kubernetes knows no others.",
        )
    return priority


class VictimMethod(StrEnum):
    """How sets of victims are found.

    `standard`: Gödel's (drain all, reprieve the most important). `naive`: every subset. `imp`: Incremental Minimal
    Preemption, subsets by size until one fits. `masks`: the same answer from target sets of GPUs, all nodes at once.
    """

    STANDARD = "standard"
    NAIVE = "naive"
    IMP = "imp"
    MASKS = "masks"


class VictimRule(StrEnum):
    """What the best set of victims is.

    `score`: S = α/Σpriority + (1-α)·T (FlexTopo paper, equation 1), of the sets of least size. Of all sets, whatever
    their size: `lost_work`, least GPU-seconds since the last checkpoints (SpotGPU, 4.2); `combined`, priority, lost
    work and topology, weighted.
    """

    SCORE = "score"
    LOST_WORK = "lost_work"
    COMBINED = "combined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """A pod that asks for `gpus` whole GPUs of one node, `cpus` cores and memory there, at a priority."""

    name: str
    gpus: int
    priority: int
    qos: Qos = Qos.GUARANTEED
    gpu: str = ""
    cpus: float = 0.0
    memory_gb: float = 0.0

    def __post_init__(self) -> None:
        where = f"preemptor {self.name}"
        object.__setattr__(self, "gpus", whole(self.gpus, f"{where}: gpus"))
        object.__setattr__(self, "priority", pod_priority(self.priority, where))
        object.__setattr__(self, "qos", one_of(Qos, self.qos, f"{where}: qos"))


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimSettings:
    """How sets of victims are compared.

    `alpha` weighs priority against topology, within 0..1; `numa`, `socket`, `cross` are T of a group inside one NUMA
    node, inside one socket and across sockets (facts: the paper gives neither). `lost_work_weight`: of the combined
    rule, what a lost GPU-hour counts against T, which is within 0..1. Priorities of zero or below: facts say to shift;
    every victim's priority is counted from the lowest of the cluster, where that is below 1, as 1. Pods younger than
    `protected_s` are no victims (Gödel's protection window; pods of unknown age are old).
    """

    rule: VictimRule = VictimRule.SCORE
    alpha: float = 0.5
    numa: float = 1.0
    socket: float = 0.5
    cross: float = 0.1
    lost_work_weight: float = 0.1
    protected_s: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", one_of(VictimRule, self.rule, "preemption.rule"))
        if not 0.0 <= self.alpha <= 1.0:
            raise InputError(
                f"preemption.alpha: must be within 0..1, got {self.alpha:g}.",
                hint="0 looks at topology only, 1 at priorities only.",
            )
        if not 1.0 >= self.numa >= self.socket >= self.cross >= 0.0:
            raise InputError(
                f"preemption.numa, socket, cross: must fall from at most 1 to at least 0, got {self.numa:g}, "
                f"{self.socket:g}, {self.cross:g}.",
                hint="1, 0.5 and 0.1 are the defaults.",
            )
        if not 0.0 <= self.lost_work_weight < float("inf"):
            raise InputError(
                f"preemption.lost_work_weight: must be finite and at least 0, got {self.lost_work_weight:g}.",
                hint="0.1 lets ten lost GPU-hours outweigh the best topology.",
            )
        if not self.protected_s >= 0.0:
            raise InputError(
                f"preemption.protected_s: must be seconds, at least 0, got {self.protected_s:g}.",
                hint="0 protects nobody.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimSet:
    """One way to make room: pods that go (keys, in the order in which to evict them), and the GPUs that the preemptor
    then takes. `spare_gpus`: GPUs that come free beyond those. `lost_gpu_s` since the last checkpoints (unknown: 0).
    `priority_sum` of the pods as they state them; `score` counts them from the cluster's lowest, where that is below 1.
    """

    node: str
    pods: tuple[str, ...]
    gpus: tuple[int, ...]
    alignment: Alignment
    score: float
    priority_sum: int
    lost_gpu_s: float
    spare_gpus: int
