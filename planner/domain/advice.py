"""What runs in a cluster that no plan wrote, what it serves, wastes and breaks, and what to change of it first."""

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.layout import ParallelConfig, Phase
from planner.domain.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStart:
    """What an engine's command line says. Names are as they stand there; numbers are None where a flag is left to the
    engine.

    `parallel`: one copy of the model, or of its replicas where the engine itself runs several (`copies`). `context`:
    tokens of prompt and answer; `sequences` of an attention group; `tokens_per_step` of a rank. `gaps`: why it cannot
    be priced as it runs, a sentence each; `notes`: what pricing does not count.
    """

    engine: str
    model: str
    served_as: tuple[str, ...] = ()
    parallel: ParallelConfig = field(default_factory=lambda: ParallelConfig(tp=1, dp=1))
    copies: int = 1
    nodes: int = 1
    phase: Phase = Phase.MIXED
    context: int | None = None
    sequences: int | None = None
    tokens_per_step: int | None = None
    quantization: str = ""
    cache_format: str = ""
    overlapped: bool = False
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDeployment:
    """Copies of a model that one Kubernetes object runs.

    `where`: file and object, for texts. `version`: of the engine, by its image (empty: not told). `copies`: of the
    model; `pods_per_copy`; `pod_gpus`: GPUs that a pod claims (0: none told). `gpu`: their type, `gpu_source`: what
    says so (both empty: nothing does). `pods`: a regular expression of its pods' names. `scaled_by`: the autoscaler
    that sets the number of copies.
    """

    where: str
    kind: str
    namespace: str
    name: str
    start: EngineStart
    image: str = ""
    version: str = ""
    copies: int
    pods_per_copy: int = 1
    pod_gpus: int = 0
    node_labels: tuple[tuple[str, str], ...] = ()
    gpu: str = ""
    gpu_source: str = ""
    pods: str = ""
    scaled_by: str = ""
    gaps: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """By which it is told apart: namespace and name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it cannot be priced as it runs."""
        return (*self.start.gaps, *self.gaps)

    @property
    def claimed_gpus(self) -> int:
        """GPUs that its pods claim; those of its degrees where no pod tells."""
        each = self.pod_gpus * self.pods_per_copy or self.start.parallel.devices * self.start.copies
        return each * self.copies

    @property
    def servers(self) -> int:
        """Copies of the model, those that one engine runs by itself counted."""
        return self.copies * self.start.copies

    @property
    def used_gpus(self) -> int:
        """GPUs that the command line makes use of."""
        return self.servers * self.start.parallel.devices


class AdviceKind(StrEnum):
    """What a change turns: how many copies run, the flags they are started with, the router before them, or the servers
    themselves (their shapes, GPU types and buckets). The simplest first."""

    COPIES = "copies"
    FLAGS = "flags"
    ROUTER = "router"
    SERVERS = "servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedChange:
    """One change of a service, on top of those before it. `saved_usd_per_hour`: below 0 where it costs; `plan`: what
    serves then, at `rent_usd_per_hour`. `servers_touched`: that stop, start or restart. `restores`: it makes the
    promise cover the load again. `folder`: where its plan is written."""

    service: str
    kind: AdviceKind
    summary: str
    saved_usd_per_hour: float
    rent_usd_per_hour: float
    promise_before_rps: float
    promise_rps: float
    servers_touched: int
    restores: bool = False
    steps: tuple[str, ...] = ()
    plan: Plan
    folder: str = ""

    @property
    def saved_per_server(self) -> float:
        """USD/hour for each server that is touched."""
        return self.saved_usd_per_hour / max(1, self.servers_touched)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAdvice:
    """One service today, by the cost model calibrated on its own metrics.

    `rate_rps`: that comes (None: nothing tells); `needed_rps`: that must be promised for it. `predicted_rps`: promise
    by the model as it is shipped, `promise_rps` calibrated. `paces`: GPU type and measured over predicted speed.
    `wasted_usd_per_hour`: rent of copies beyond what the needed rate takes (None: the rate is not known). `breaks`:
    what is broken or near it, a sentence each; `notes`: what the figures rest on.
    """

    name: str
    namespace: str
    model: str
    engine: str
    deployments: tuple[RunningDeployment, ...]
    plan: Plan
    rate_rps: float | None
    needed_rps: float | None
    predicted_rps: float
    promise_rps: float
    paces: tuple[tuple[str, float], ...] = ()
    rent_usd_per_hour: float
    wasted_usd_per_hour: float | None
    breaks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        """Of the promise that comes."""
        return None if self.rate_rps is None or not self.promise_rps else self.rate_rps / self.promise_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What runs, what cannot be judged and why, and what to change first. `headroom`: share of the rate that must be
    promised beyond it; `source`: where it was looked for. `next_command`: that plans anew from what was found."""

    source: str
    headroom: float
    services: tuple[ServiceAdvice, ...]
    gaps: tuple[tuple[RunningDeployment, tuple[str, ...]], ...]
    changes: tuple[AdvisedChange, ...]
    further: int = 0
    next_command: str = ""

    @property
    def rent_usd_per_hour(self) -> float:
        """Of the services that could be judged."""
        return sum(service.rent_usd_per_hour for service in self.services)

    @property
    def saved_usd_per_hour(self) -> float:
        """By all changes together."""
        return sum(change.saved_usd_per_hour for change in self.changes)
