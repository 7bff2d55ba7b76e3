"""Records of the policy study: what became of each arrival, and a run in figures."""

from dataclasses import dataclass

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
