"""What became of each arrival, and a run in figures; pods that come, wait, run and leave, and the cluster over time."""

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.fragments import Semantics


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of one arrival, and the cluster after it. `node` is "" where the pod fitted nowhere.

    `arrived_gpu_milli` counts every pod so far, `used_gpu_milli` those that lie somewhere.
    """

    arrival: int
    pod: str
    node: str
    gpus: tuple[int, ...]
    arrived_gpu_milli: int
    used_gpu_milli: int
    fragmentation_milli: float
    cpu_power_w: float
    gpu_power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineMetrics:
    """A run at one percentage of arrived GPU capacity (facts on fragmentation and power, section 10).

    `allocation_percent` and `fragmentation_percent` of all GPUs, `fragmentation_ratio_percent` of the idle ones;
    `failures`: pods that fitted nowhere so far. `arrived_gpu_milli` and `used_gpu_milli` are those of the power's grid:
    means over runs of the one divide by means of the other.
    """

    arrived_percent: int
    allocation_percent: float
    fragmentation_percent: float
    fragmentation_ratio_percent: float
    failures: int
    cpu_power_w: float
    gpu_power_w: float
    arrived_gpu_milli: float
    used_gpu_milli: float

    @property
    def power_w(self) -> float:
        """EOPC: watts of CPUs and GPUs."""
        return self.cpu_power_w + self.gpu_power_w

    @property
    def grar(self) -> float:
        """GPU resource allocation ratio: used over arrived; 1 where nothing has arrived."""
        return self.used_gpu_milli / self.arrived_gpu_milli if self.arrived_gpu_milli else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineRun:
    """A policy's run over one order of arrivals. `gpu_milli`: of the whole cluster."""

    policy: str
    semantics: Semantics
    gpu_milli: int
    decisions: tuple[Decision, ...]
    metrics: tuple[OnlineMetrics, ...]

    @property
    def failures(self) -> int:
        """Pods that fitted nowhere."""
        return sum(not decision.node for decision in self.decisions)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Pods that fit nowhere wait, and are tried again when something has left, in the order in which they came.

    `backfill`: a pod that fits may pass those before it that do not; else it waits behind them. No room is reserved, so
    that a large pod may be passed for ever. `most_wait_s`: a pod that has waited so long gives up (0: nobody waits;
    None: for ever).
    """

    backfill: bool = True
    most_wait_s: float | None = None


class Outcome(StrEnum):
    """What became of a pod: it ran, it gave up waiting (or could not wait), it waits where the events end."""

    RAN = "ran"
    FAILED = "failed"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One pod, seconds of the trace. `started_s` None: it never ran; `left_s` None: nor left, or its end is not known.

    `tries`: how often it was looked for room for. `waited_s`: until it started, gave up, or the events ended.
    """

    pod: str
    node: str
    gpus: tuple[int, ...]
    outcome: Outcome
    created_s: float
    started_s: float | None
    left_s: float | None
    waited_s: float
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMoment:
    """The cluster from one event on until the next."""

    time_s: float
    used_gpu_milli: int
    running: int
    waiting: int
    waiting_gpu_milli: int
    fragmentation_milli: float
    cpu_power_w: float
    gpu_power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFigures:
    """Figures of the queue. `wait_*_s` over the pods that ran; `retries`: tries after the first, of all pods."""

    ran: int
    failed: int
    waiting: int
    waited: int
    retries: int
    wait_mean_s: float
    wait_p95_s: float
    wait_max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureRun:
    """A policy's run over a trace with departures. Means are over time, from the first event to the last.

    `energy_kwh` of CPUs and GPUs in that time; `allocation_percent` of all GPUs.
    """

    policy: str
    semantics: Semantics
    gpu_milli: int
    stays: tuple[Stay, ...]
    moments: tuple[ClusterMoment, ...]
    queue: WaitFigures
    allocation_percent: float
    fragmentation_percent: float
    power_w: float
    energy_kwh: float
