"""Rates of every configuration of one island class, over all ranges.

| symbol | meaning | unit |
|---|---|---|
| s[j] | midpoint of range j | tokens |
| n | prompts per rank and prefill step | 1 |
| B | sequences of an attention group (reference: of a GPU) | 1 |
| N | mean answer | tokens |

default   prefill: 1000 dp n / t           decode: 1000 r dp B / sum_{i<N} TPOT(s + i), N as it is
reference prefill: 1000 / t                decode: 1000 r B / sum_{i<N} TPOT(s + i), N rounded to an integer

Prompts beyond the step's token budget are taken alone. Arrays have shape (configurations, ranges).
Source: facts on planning; Rignall 2025, sections 4.2.3 and 4.6.
"""

from dataclasses import dataclass

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array, as_array, ceil_divide
from planner.cost.decode import decode_step
from planner.cost.prefill import prefill_step
from planner.cost.rules import Rules
from planner.domain import CostSettings, GpuSpec, ModelSpec, ParallelConfig, Workload
from planner.units import GB, MS_PER_S

LARGEST_BATCH = 1024
BATCH_STEP = 8
QUADRATURE_POINTS = 16
EXACT_SUM_UP_TO = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGrid:
    """Rates (requests/s), batch sizes and step times (ms) per configuration and range."""

    rates_rps: Array
    batch_sizes: Array
    step_ms: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """The configurations as columns of shape (configurations, 1)."""

    tp: Array
    dp: Array
    replicas: Array

    @classmethod
    def of(cls, configs: list[ParallelConfig]) -> "Degrees":
        """Columns of `configs`."""
        columns = np.array([(c.tp, c.dp, c.replicas) for c in configs], dtype=float).T[:, :, None]
        return cls(tp=columns[0], dp=columns[1], replicas=columns[2])

    @property
    def devices(self) -> Array:
        """GPUs of a replica."""
        return np.asarray(self.tp * self.dp)


def prefill_rates(
    gpu: GpuSpec,
    model: ModelSpec,
    rules: Rules,
    settings: CostSettings,
    workload: Workload,
    configs: list[ParallelConfig],
) -> RateGrid:
    """Prefill rates of `configs`."""
    degrees, lengths = Degrees.of(configs), _midpoints(workload)
    prompts = _prompts_per_rank(gpu, model, rules, settings, degrees, workload)
    step = prefill_step(
        gpu,
        model,
        rules,
        seq_len=lengths,
        tp=degrees.tp,
        dp=degrees.dp,
        kv_cache_rate=settings.kv_cache_rate,
        prompts_per_rank=np.maximum(prompts, 1),
    ).total_ms
    carried = as_array(1.0) if rules.memory_unchecked else degrees.dp * prompts
    return RateGrid(rates_rps=carried * MS_PER_S / step, batch_sizes=prompts, step_ms=step)


def _prompts_per_rank(
    gpu: GpuSpec,
    model: ModelSpec,
    rules: Rules,
    settings: CostSettings,
    degrees: Degrees,
    workload: Workload,
) -> Array:
    """Prompts of one rank's step: what the token budget and the memory allow, 0 where not even one fits."""
    lengths = _midpoints(workload)
    shape = np.broadcast_shapes(degrees.tp.shape, lengths.shape)
    if rules.memory_unchecked:
        return np.ones(shape)
    fresh = lengths * (1 - settings.kv_cache_rate)
    budget = np.maximum(1, np.floor(settings.max_tokens_per_step / fresh))
    held = ceil_divide(model.experts.routed, degrees.devices) + model.experts.shared
    free = memory.free_gb(gpu, model, tp=degrees.tp, experts_on_device=held)
    longest = _largest(workload, rules)
    activations = memory.activation_gb(model, longest * (1 - settings.kv_cache_rate) / degrees.tp)
    needed = longest * model.kv_bytes_per_token / GB + activations
    return np.minimum(budget, np.maximum(0, np.floor(free / needed)))


def decode_rates(
    gpu: GpuSpec, model: ModelSpec, rules: Rules, workload: Workload, configs: list[ParallelConfig]
) -> RateGrid:
    """Decode rates of `configs`, each range at the largest batch that fits."""
    degrees, lengths = Degrees.of(configs), _midpoints(workload)
    batch = _batch(gpu, model, rules, workload, degrees)
    offsets, tokens = _answer_tokens(workload, rules)
    tpot = decode_step(
        gpu,
        model,
        rules,
        seq_len=lengths[..., None] + offsets,
        tp=degrees.tp[..., None],
        batch_size=np.maximum(batch, 1)[..., None],
        devices=degrees.devices[..., None],
    ).total_ms.mean(axis=-1)
    groups = degrees.replicas if rules.batch_per_gpu else degrees.replicas * degrees.dp
    return RateGrid(rates_rps=groups * batch * MS_PER_S / (tokens * tpot), batch_sizes=batch, step_ms=tpot)


def _batch(gpu: GpuSpec, model: ModelSpec, rules: Rules, workload: Workload, degrees: Degrees) -> Array:
    """Largest batch per configuration and range, a multiple of 8 where there are 8; 0 where nothing fits."""
    held = ceil_divide(model.experts.routed, degrees.devices) + model.experts.shared
    most = memory.max_batch(
        gpu,
        model,
        rules,
        seq_len=_largest(workload, rules),
        decode_len=workload.max_output_tokens,
        tp=degrees.tp,
        experts_on_device=held,
    )
    whole = np.minimum(np.floor(np.maximum(most, 0)), LARGEST_BATCH)
    rounded = whole - whole % BATCH_STEP
    if rules.batch_per_gpu:
        return np.where(most >= 1, np.maximum(rounded, BATCH_STEP), 0)
    return np.where(rounded >= BATCH_STEP, rounded, whole)


def _answer_tokens(workload: Workload, rules: Rules) -> tuple[Array, float]:
    """Where in the answer TPOT is sampled (offsets in tokens), and how many tokens it stands for.

    TPOT is piecewise linear in the cached length, so the midpoint rule is exact but for its single kink.
    """
    tokens = max(1.0, workload.mean_output_tokens)
    if rules.stepped_efficiency:
        tokens = float(max(1, round(tokens)))
        if tokens <= EXACT_SUM_UP_TO:
            return np.arange(tokens), tokens
    points = QUADRATURE_POINTS
    return (np.arange(points) + 0.5) * tokens / points - 0.5, tokens


def _largest(workload: Workload, rules: Rules) -> Array:
    """The length that has to fit, per range."""
    if rules.memory_at_midpoint:
        return _midpoints(workload)
    return np.array([[r.longest_input_tokens for r in workload.ranges]], dtype=float)


def _midpoints(workload: Workload) -> Array:
    return np.array([[r.midpoint for r in workload.ranges]], dtype=float)
