"""Pods that arrive one by one at a cluster: nodes and pods of a trace, what became of each arrival, and the figures.

Milli-CPU, milli-GPU (a whole GPU is 1000) and MiB throughout, as in Alibaba's openb traces.
"""

from dataclasses import dataclass
from enum import StrEnum

WHOLE_GPU = 1000
"""Milli-GPU of one GPU."""


class Semantics(StrEnum):
    """How scores are computed.

    `reference`: as the public simulators do: truncated to integers, some normalised over the feasible nodes, weights in
    thousandths. `exact`: the papers' formulas on real numbers. In both, ties fall to the first node of the tie order.
    """

    REFERENCE = "reference"
    EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """A node of a trace. `gpu_model` is the type of its `gpus` GPUs; `cpu_model` "" means the power model's default."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_model: str
    cpu_model: str = ""

    @property
    def gpu_milli(self) -> int:
        """Milli-GPU of all its GPUs."""
        return self.gpus * WHOLE_GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePod:
    """A pod of a trace: `gpus` GPUs with `gpu_milli` of each. `gpu_spec`: allowed models, "A|B"; "" allows every one.

    A part of a GPU can be asked of one GPU only. Times in seconds since the trace began; None where it does not tell.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    gpu_spec: str = ""
    creation_s: float | None = None
    deletion_s: float | None = None

    @property
    def total_gpu_milli(self) -> int:
        """Milli-GPU over all its GPUs."""
        return self.gpus * self.gpu_milli

    @property
    def shares_gpu(self) -> bool:
        """Whether it asks for a part of one GPU."""
        return self.gpus == 1 and self.gpu_milli < WHOLE_GPU


def allows(gpu_spec: str, gpu_model: str) -> bool:
    """Whether a pod of this specification may lie on GPUs of this model."""
    return not gpu_spec or gpu_model in gpu_spec.split("|")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalPod:
    """A class of pods of the target workload. `weight`: how often it came; `popularity`: its share of all weights.

    They say the same, but sums of counts are exact, while the simulators' rounding follows from popularities.
    """

    cpu_milli: int
    gpus: int
    gpu_milli: int
    gpu_spec: str
    weight: float
    popularity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentCause:
    """Idle milli-GPU that a class of the target workload, or all of them by popularity, cannot use, by cause.

    `cpu_only`: the class asks for no GPU. `not_allowed`: the model is not in its list. `short_of_gpu`, `short_of_cpu`,
    `short_of_both`: the node is. `too_small`: the class fits, this is what is left on GPUs that are too full for it.
    `usable` is the rest.
    """

    cpu_only: float = 0.0
    not_allowed: float = 0.0
    short_of_gpu: float = 0.0
    short_of_cpu: float = 0.0
    short_of_both: float = 0.0
    too_small: float = 0.0
    usable: float = 0.0

    @property
    def total(self) -> float:
        """Everything but `usable`."""
        return (
            self.cpu_only
            + self.not_allowed
            + self.short_of_gpu
            + self.short_of_cpu
            + self.short_of_both
            + self.too_small
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """Fragmentation of a cluster now: expected over the target workload (`causes`), and of every class of it."""

    idle_gpu_milli: int
    causes: FragmentCause
    classes: tuple[tuple[TypicalPod, FragmentCause], ...]

    @property
    def ratio(self) -> float:
        """Share of the idle GPUs; 0 where none is idle."""
        return self.causes.total / self.idle_gpu_milli if self.idle_gpu_milli else 0.0
