"""What one server is started with, and pools of such servers."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import ParallelConfig, Phase

_Count = Annotated[int, Bounds(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServerConfig:
    """One copy of the model as an engine runs it: `parallel` has one replica.

    `tokens_per_step`: budget of a prefill step of one attention rank (0 in decode). `batch_size`: sequences of an
    attention group in decode; prompts that a rank may hold in a prefill step. `overlapped`: two micro-batches hide the
    experts' communication, one choice for the whole server.
    """

    parallel: ParallelConfig
    tokens_per_step: int = 0
    batch_size: int = 0
    overlapped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPool:
    """`count` equal islands that serve one phase of one bucket, prompts of `start` <= tokens < `end`.

    `capacity_rps`: requests/s of the bucket's mix that one island serves within the service levels; `full_rps`: without
    them. `share`: of the bucket's requests that go to the pool.
    """

    gpu: str
    phase: Phase
    server: ServerConfig
    count: int
    start: int
    end: int
    capacity_rps: float
    full_rps: float
    share: float = 1.0

    @property
    def gpus(self) -> int:
        """GPUs of the pool."""
        return self.count * self.server.parallel.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLatency:
    """Times to first token and per output token of one bucket of prompt lengths, at one rate of the whole (ms).

    None where the queue has no end, or nobody decodes.
    """

    rate_rps: Annotated[float, Bounds(low=0), Key("of the whole mix", unit="requests/s")]
    ttft_p50_ms: Annotated[float | None, Bounds(low=0)]
    ttft_p99_ms: Annotated[float | None, Bounds(low=0)]
    tpot_p50_ms: Annotated[float | None, Bounds(low=0)]
    tpot_p99_ms: Annotated[float | None, Bounds(low=0)]
