"""Rates in the paper's counting, with its parallel configurations (any divisors) and its memory.

| symbol | meaning | unit |
|---|---|---|
| s[j] | midpoint of range j | tokens |
| B | sequences of a GPU, a multiple of 8 within 8..1024 | 1 |
| N | mean answer, rounded | tokens |
| x | experts on the device, the shared one included | 1 |

prefill 1000 / t (no factor dp, memory unchecked [6]); decode 1000 r B / sum_{i<N} TPOT(s + i).
Arrays have shape (configurations, ranges). Memory has DeepSeek-V3's sizes as literals [5].
Source: facts on planning; Rignall 2025, sections 4.2.3 and 4.6.
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array, ceil_divide, divisors
from planner.cost.grid import Degrees, RateGrid, answer_points, midpoints
from planner.cost.prefix_hits import number_of_hits
from planner.cost.reference.steps import decode_step, prefill_step, shape_of
from planner.domain import CostSettings, GpuSpec, ModelSpec, ParallelConfig, Phase, Workload
from planner.units import GIB, MS_PER_S

MEMORY_SHARE = 0.9
_REST_GB = 2.91  # embeddings and dense FFNs
_ATTENTION_MB = 187.17
_EXPERT_MB = 44.05


def weights_gb(model: ModelSpec, *, tp: Numbers, experts_on_device: Numbers) -> Array:
    """Weights of one GPU."""
    t, x = as_array(tp), as_array(experts_on_device)
    return np.asarray(_REST_GB + _ATTENTION_MB * model.layers / t / 1024 + _EXPERT_MB * model.moe_layers * x / 1024)


def max_batch(
    gpu: GpuSpec,
    model: ModelSpec,
    *,
    seq_len: Numbers,
    decode_len: Numbers,
    tp: Numbers,
    experts_on_device: Numbers,
) -> Array:
    """Most sequences of a GPU whose KV fits, not rounded; negative where not even the weights fit."""
    length = as_array(seq_len) + as_array(decode_len)
    free = gpu.memory_gb * MEMORY_SHARE - weights_gb(model, tp=tp, experts_on_device=experts_on_device)
    return np.asarray(free * GIB / (length * model.kv_bytes_per_token * as_array(tp)))


LARGEST_BATCH = 1024
BATCH_STEP = 8
EXACT_SUM_UP_TO = 512


def reference_rates(
    phase: Phase,
    gpu: GpuSpec,
    model: ModelSpec,
    settings: CostSettings,
    workload: Workload,
    configs: list[ParallelConfig],
) -> RateGrid:
    """Rates of `configs` in a phase."""
    if phase is Phase.PREFILL:
        return _prefill_rates(gpu, model, settings, workload, configs)
    return _decode_rates(gpu, model, workload, configs)


def _prefill_rates(
    gpu: GpuSpec, model: ModelSpec, settings: CostSettings, workload: Workload, configs: list[ParallelConfig]
) -> RateGrid:
    degrees, lengths = Degrees.of(configs), midpoints(workload)
    step = prefill_step(
        gpu, model, seq_len=lengths, tp=degrees.tp, dp=degrees.dp, kv_cache_rate=number_of_hits(settings)
    ).total_ms
    return RateGrid(rates_rps=MS_PER_S / step, batch_sizes=np.ones(step.shape), step_ms=step)


def _decode_rates(gpu: GpuSpec, model: ModelSpec, workload: Workload, configs: list[ParallelConfig]) -> RateGrid:
    """Each range at the largest batch that fits."""
    degrees, lengths = Degrees.of(configs), midpoints(workload)
    batch = _batch(gpu, model, workload, degrees)
    offsets, tokens = _answer_tokens(workload)
    tpot = decode_step(
        gpu,
        model,
        seq_len=lengths[..., None] + offsets,
        tp=degrees.tp[..., None],
        batch_size=np.maximum(batch, 1)[..., None],
        devices=degrees.devices[..., None],
    ).total_ms.mean(axis=-1)
    rates = degrees.replicas * batch * MS_PER_S / (tokens * tpot)
    return RateGrid(rates_rps=rates, batch_sizes=batch, step_ms=tpot)


def _batch(gpu: GpuSpec, model: ModelSpec, workload: Workload, degrees: Degrees) -> Array:
    _, moe = shape_of(model)
    fitting = max_batch(
        gpu,
        model,
        seq_len=midpoints(workload),
        decode_len=workload.max_output_tokens,
        tp=degrees.tp,
        experts_on_device=ceil_divide(moe.routed, degrees.devices) + moe.shared,
    )
    batch = np.minimum(np.floor(np.maximum(fitting, 0)), LARGEST_BATCH)
    return np.where(fitting >= 1, np.maximum(batch - batch % BATCH_STEP, BATCH_STEP), as_array(0))


def _answer_tokens(workload: Workload) -> tuple[Array, float]:
    tokens = float(max(1, round(max(1.0, workload.mean_output_tokens))))
    # Longer sums are sampled: a column for every token would not fit.
    if tokens <= EXACT_SUM_UP_TO:
        return np.arange(tokens), tokens
    return answer_points(tokens, 16), tokens


def reference_configurations(phase: Phase, size: int) -> list[ParallelConfig]:
    """One replica in prefill, any number in decode; any degree of tensor parallelism."""
    replicas = [1] if phase is Phase.PREFILL else divisors(size)
    return [ParallelConfig(tp=tp, dp=size // r // tp, replicas=r) for r in replicas for tp in divisors(size // r)]
