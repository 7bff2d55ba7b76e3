"""What runs in a cluster that no plan wrote, what it serves, wastes and breaks, and what to change of it first."""

from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.layout import ParallelConfig, Phase

NVIDIA_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStart:
    """What an engine's command line says. Names are as they stand there; numbers are None where a flag is left to the
    engine.

    `parallel`: one copy of the model, or of its replicas where the engine itself runs several (`copies`). `context`:
    tokens of prompt and answer; `sequences` of an attention group; `tokens_per_step` of a rank. `memory_share`: of a
    GPU's memory. `gaps`: why it cannot be priced as it runs, a sentence each; `notes`: what pricing does not count.
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
    memory_share: float | None = None
    quantization: str = ""
    cache_format: str = ""
    prefix_caching: bool | None = None
    overlapped: bool = False
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDeployment:
    """Copies of a model that one Kubernetes object runs.

    `where`: file and object, for texts. `version`: of the engine, by its image (empty: not told). `copies`: of the
    model; `pods_per_copy`; `pod_gpus`: GPUs that a pod claims (0: none told), `resource` by which name. `gpu`: their
    type, `gpu_source`: what says so (both empty: nothing does). `pods`: a regular expression of its pods' names.
    `scaled_by`: the autoscaler that sets the number of copies.
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
    resource: str = ""
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
