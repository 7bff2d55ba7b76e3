"""A step taken apart, and configurations beside each other: what the cost stage shows of itself."""

from dataclasses import dataclass

from planner.domain.band import Band
from planner.domain.efficiency import Factor, Origin
from planner.domain.layout import ParallelConfig, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfStep:
    """One part over all layers (ms), what bounds it, its operations and bytes on one GPU.

    `ms` = max(compute, memory) + network + latency. `bound` is compute, memory, network or latency.
    """

    name: str
    ms: float
    compute_ms: float
    memory_ms: float
    network_ms: float
    latency_ms: float
    bound: str
    flops: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExplanation:
    """One step of one replica. `parts` add up to `step_ms` + `hidden_ms`.

    `step_ms` is one pass over the model; `total_ms` is what it stands for: prompts taken in, or the time per output
    token (pipelined steps and drafted tokens counted, and the `waiting` of attention ranks for the fullest, a factor of
    at least 1). `roofline_tokens_per_s_per_gpu` is what data-sheet rates
    would give without any loss. `origin` says how firm the estimate is, `factors` what went into it, `band` how far
    the rate may be off.

    A mixed pass decodes `batch` sequences with `length` tokens in the cache, and takes in `chunk` tokens of prompts of
    `prompt` tokens (both 0 of other steps); its rate is of the tokens of both.
    """

    gpu: str
    model: str
    phase: Phase
    parallel: ParallelConfig
    length: int
    batch: int
    parts: tuple[PartOfStep, ...]
    step_ms: float
    hidden_ms: float
    waiting: float
    total_ms: float
    tokens_per_s_per_gpu: float
    roofline_tokens_per_s_per_gpu: float
    bound: str
    weights_gb: float
    cache_gb: float
    usable_gb: float
    peak_tflops: tuple[tuple[str, float], ...]
    memory_gb_s: float
    origin: Origin
    origin_source: str
    factors: tuple[Factor, ...]
    band: Band | None = None
    chunk: int = 0
    prompt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRates:
    """One parallel configuration of one island over lengths: requests/s, 0 where it cannot serve."""

    gpu: str
    phase: Phase
    parallel: ParallelConfig
    lengths: tuple[int, ...]
    rates_rps: tuple[float, ...]
    batch_sizes: tuple[int, ...]
