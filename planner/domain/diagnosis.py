"""What idle GPUs of a cluster cannot serve, why, and what one change would open."""

import re
from dataclasses import dataclass
from enum import StrEnum

from planner.domain.placement import Qos
from planner.errors import InputError

CPUS_OF_A_JOB_GPU = 12
"""CPUs that every GPU of a job of many nodes takes along (ASI paper, figure 14)."""

MOST_REQUEST_GPUS, MOST_REQUEST_CPUS, MOST_REQUEST_GB = 1_000, 1_000_000, 1_000_000
_REQUEST = re.compile(r"(\d{1,7})G(\d{1,7})C(?:(\d{1,7}(?:\.\d{1,6})?)GB)?")


class StrandingCause(StrEnum):
    """Why an idle GPU cannot serve. `remainder`: less than a job of many nodes is left over."""

    BARRED = "barred"
    FRACTIONAL = "fractional"
    STRANDED = "stranded"
    CPU = "cpu"
    MEMORY = "memory"
    UNKNOWN = "unknown"
    NUMA = "numa"
    REMAINDER = "remainder"
    TOPOLOGY = "topology"
    NVLINK_DOMAIN = "nvlink_domain"


class JobScope(StrEnum):
    """Where all GPUs of a job of many nodes have to lie."""

    CLUSTER = "cluster"
    ASW = "asw"
    NVLINK_DOMAIN = "nvlink_domain"


class ChangeKind(StrEnum):
    """A single change to a cluster or to what is asked of it."""

    CPUS = "cpus"
    MEMORY = "memory"
    ALIGNMENT = "alignment"
    CONSOLIDATION = "consolidation"
    MOVES = "moves"
    LOCKED_PODS = "locked_pods"
    PREEMPTION = "preemption"
    PARTS = "parts"
    FAULTS = "faults"
    SCOPE = "scope"

    @property
    def evicts(self) -> bool:
        """Whether pods have to go for it."""
        return self in (ChangeKind.PREEMPTION, ChangeKind.PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """What one pod asks of one node; `memory_gb` 0: nothing."""

    gpus: int
    cpus: int
    memory_gb: float = 0.0

    @property
    def name(self) -> str:
        """As `4G32C`, or `4G32C256GB` where memory is asked for."""
        return f"{self.gpus}G{self.cpus}C" + (f"{self.memory_gb:g}GB" if self.memory_gb else "")

    @classmethod
    def parse(cls, text: str) -> "GpuRequest":
        """`4G32C`, or with memory `4G32C256GB`. InputError where it is neither."""
        match = _REQUEST.fullmatch(text.strip().upper())
        gpus, cpus = (int(match[1]), int(match[2])) if match else (0, 0)
        memory_gb = float(match[3] or 0) if match else 0.0
        if not 1 <= gpus <= MOST_REQUEST_GPUS or cpus > MOST_REQUEST_CPUS or memory_gb > MOST_REQUEST_GB:
            raise InputError(
                f"request: must be GPUs (1 to {MOST_REQUEST_GPUS:,}) and CPUs of a pod, perhaps memory, got {text!r}.",
                hint="Write 4G32C, or 4G32C256GB.",
            )
        return cls(gpus=gpus, cpus=cpus, memory_gb=memory_gb)


PUBLISHED_REQUESTS = tuple(
    GpuRequest(gpus=gpus, cpus=cpus)
    for gpus, cpus in ((1, 8), (1, 12), (4, 32), (4, 48), (4, 64), (8, 64), (8, 96), (8, 128))
)
"""Those of figure 13 of the ASI paper."""

PUBLISHED_JOBS = (128, 256)
"""GPUs of the jobs of figure 14 of the ASI paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedCounts:
    """Idle GPUs that cannot be allocated, as the scripts released with ASI's trace count them. They are no partition:
    of a node short of CPUs only the request's own GPUs count, and a node that takes one request counts as served."""

    fractional: float
    stranded: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockingChange:
    """What one change would open. `amount`: CPUs or GB more on every node, or pods, moves or nodes, by `kind`.

    `gpus`: idle GPUs (of evicted pods: theirs, too) that further requests could have. `at_most`: a bound, no count.
    """

    kind: ChangeKind
    amount: float
    gpus: int
    at_most: bool = False
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDiagnosis:
    """A request against the idle GPUs of one type ("": of all). `fit`: how many there is room for at the same time.

    `causes` with what `fit` requests take sum up to `idle_gpus`. `changes`: those that open anything, most
    first, those for which pods have to go last.
    """

    gpu: str
    request: GpuRequest
    idle_gpus: float
    fit: int
    causes: tuple[tuple[StrandingCause, float], ...]
    released: ReleasedCounts
    changes: tuple[UnlockingChange, ...] = ()

    @property
    def servable_gpus(self) -> int:
        """GPUs of the requests that fit."""
        return self.fit * self.request.gpus

    def of(self, cause: StrandingCause) -> float:
        """Idle GPUs that this cause keeps away."""
        return dict(self.causes).get(cause, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiagnosis:
    """A job of many nodes against the idle GPUs of one type ("": types mixed). `slots`: idle GPUs with CPUs enough.

    `causes` with what `fit` jobs take sum up to `idle_gpus`. `released_fit`: as the released scripts count slots.
    """

    gpu: str
    gpus: int
    cpus_per_gpu: int
    scope: JobScope
    idle_gpus: float
    slots: int
    fit: int
    released_fit: int
    causes: tuple[tuple[StrandingCause, float], ...]
    changes: tuple[UnlockingChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OverCommitment:
    """Pods of a node that hold more than it has of a resource: gpus, cpus or memory_gb."""

    node: str
    resource: str
    used: float
    had: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiagnosis:
    """What a cluster's idle GPUs serve. Rows by type, then of all types; `notes`: what was assumed, in words.

    `guaranteed_only`: pods that may be preempted count as if they were not there.
    """

    cluster: str
    gpus: int
    idle_gpus: float
    qos: Qos
    guaranteed_only: bool
    requests: tuple[RequestDiagnosis, ...]
    jobs: tuple[JobDiagnosis, ...]
    overcommitted: tuple[OverCommitment, ...] = ()
    notes: tuple[str, ...] = ()
