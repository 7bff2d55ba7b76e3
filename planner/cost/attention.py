"""Multi-head latent attention: time of one layer on one group of tp GPUs.

| symbol | meaning | unit |
|---|---|---|
| d | hidden size | 1 |
| s, h | prompt length, share found in the prefix cache | tokens, 1 |
| q, kv | query tokens, key tokens | tokens |
| H, r, rope, nope, v | heads, KV rank, rotary, plain and value head dimensions | 1 |
| B | sequences of a step | 1 |

FLOPs = 2 MACs. GFLOP / (TFLOP/s) = ms; MiB / (GB/s) is taken as ms (as Shallowsim does).
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.device import Device
from planner.cost.efficiency import ALL_REDUCE_LATENCY_MS, KERNEL, LAYER_OVERHEAD_MS
from planner.cost.rules import Rules
from planner.domain import ModelSpec
from planner.units import GIB, GIGA, MIB, MS_PER_S


def prefill_macs(model: ModelSpec, rules: Rules, seq_len: Numbers, kv_cache_rate: Numbers) -> tuple[Array, Array]:
    """MACs of one prompt and layer: (projections, scores and output), any shape."""
    a, d = model.attention, model.hidden_size
    s, h = as_array(seq_len), as_array(kv_cache_rate)
    q = s if rules.cache_hit_on_kv_only else (1 - h) * s
    fresh = (1 - h) * s
    pairs = q * s if rules.full_square_attention else q * (s - (q - 1) / 2)
    projections = (
        q * d * a.query_rank
        + q * a.query_rank * a.heads * (a.nope_dim + a.rope_dim)
        + fresh * d * (a.kv_rank + a.rope_dim)
        + s * a.kv_rank * a.heads * (a.nope_dim + a.value_dim)
    )
    scores = a.heads * pairs * (a.rope_dim + a.nope_dim + a.value_dim) + q * a.heads * a.value_dim * d
    return projections, scores


def decode_macs(model: ModelSpec, seq_len: Numbers) -> tuple[Array, Array]:
    """MACs of one token and layer in absorbed form, the KV already cached: (projections, scores and output)."""
    a, d = model.attention, model.hidden_size
    s = as_array(seq_len)
    projections = (
        d * a.query_rank
        + a.query_rank * a.heads * a.rope_dim
        + a.heads * (a.query_rank * a.nope_dim + a.nope_dim * a.kv_rank)
    )
    scores = (
        a.heads * (a.rope_dim * s + 2 * s * a.kv_rank) + a.heads * a.kv_rank * a.value_dim + a.heads * a.value_dim * d
    )
    return as_array(projections), scores


def weights_mib(model: ModelSpec) -> float:
    """Attention weights of one layer (MiB)."""
    return model.attention.parameters(model.hidden_size) * model.weight_bytes / MIB


def layer_ms(device: Device, model: ModelSpec, rules: Rules, projections: Array, scores: Array) -> Array:
    """One layer on one GPU, no tensor parallelism, no overhead (ms)."""
    gemm, attention = 2 * projections / GIGA, 2 * scores / GIGA
    if device.fp4 and rules.fp4_attention_for_free:
        return gemm / device.gemm + attention / device.fp16 / KERNEL
    return gemm / device.gemm / KERNEL + attention / device.fp16 / KERNEL + weights_mib(model) / device.memory


def split_ms(device: Device, model: ModelSpec, whole_ms: Array, tokens: Numbers, tp: Numbers, *, ring: bool) -> Array:
    """One layer over `tp` GPUs: its share, the all-reduce of `tokens` activations, the fixed overhead (ms).

    Shallowsim moves the activations once over NVLink; a ring moves 2 (tp - 1)/tp of them.
    """
    t = as_array(tp)
    moved = as_array(tokens) * model.hidden_size * 2 / MIB
    if ring:
        moved = moved * 2 * (t - 1) / t
    all_reduce = moved / device.nvlink + ALL_REDUCE_LATENCY_MS
    return np.where(t > 1, whole_ms / t + all_reduce, whole_ms) + LAYER_OVERHEAD_MS


def kv_read_ms(device: Device, model: ModelSpec, seq_len: Numbers, batch: Numbers) -> Array:
    """Reading one layer's cached KV of `batch` sequences; every GPU of a group reads all of it (ms)."""
    size = as_array(seq_len) * model.attention.kv_width * as_array(batch) * model.kv_bytes
    return size / GIB / device.memory * MS_PER_S
