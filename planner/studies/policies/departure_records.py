"""Pods that come, wait, run and leave: how the queue is kept, what became of every pod, the cluster over time."""

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.fragments import Semantics


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
