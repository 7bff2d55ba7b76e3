"""Shallowsim's multi-head latent attention: one layer on one group of tp GPUs.

| symbol | meaning | unit |
|---|---|---|
| d | hidden size | 1 |
| s, h | prompt length, share found in the prefix cache | tokens, 1 |
| H, r, rope, nope, v | heads, KV rank, rotary, plain and value head dimensions | 1 |
| B | sequences of a GPU | 1 |

FLOPs = 2 MACs. GFLOP / (TFLOP/s) = ms. The full square is counted [10]; a cache hit saves the KV down-projection
only [9].
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.reference.device import Device
from planner.domain import MlaAttention, ModelSpec
from planner.units import GIB, GIGA, MIB, MS_PER_S

KERNEL = 0.7
LAYER_OVERHEAD_MS = 0.05
ALL_REDUCE_LATENCY_MS = 0.015


def prefill_ms(dev: Device, model: ModelSpec, mla: MlaAttention, seq_len: Numbers, kv_cache_rate: Numbers) -> Array:
    """One prompt, no tensor parallelism, no overhead."""
    d, s, h = model.hidden_size, as_array(seq_len), as_array(kv_cache_rate)
    projections = (
        s * d * mla.query_rank
        + s * mla.query_rank * mla.heads * (mla.nope_dim + mla.rope_dim)
        + s * d * (mla.kv_rank + mla.rope_dim) * (1 - h)
        + s * mla.kv_rank * mla.heads * (mla.nope_dim + mla.value_dim)
    )
    scores = mla.heads * s * s * (mla.rope_dim + mla.nope_dim + mla.value_dim) + s * mla.heads * mla.value_dim * d
    return _layer_ms(dev, model, projections, scores)


def decode_ms(dev: Device, model: ModelSpec, mla: MlaAttention, seq_len: Numbers, batch: Numbers) -> Array:
    """One token of `batch` sequences in absorbed form, no tensor parallelism, no overhead, KV read apart."""
    d, s, b = model.hidden_size, as_array(seq_len), as_array(batch)
    projections = (
        d * mla.query_rank
        + mla.query_rank * mla.heads * mla.rope_dim
        + mla.heads * (mla.query_rank * mla.nope_dim + mla.nope_dim * mla.kv_rank)
    )
    scores = (
        mla.heads * (mla.rope_dim * s + 2 * s * mla.kv_rank)
        + mla.heads * mla.kv_rank * mla.value_dim
        + mla.heads * mla.value_dim * d
    )
    return _layer_ms(dev, model, projections * b, scores * b)


def _layer_ms(dev: Device, model: ModelSpec, projections: Array, scores: Array) -> Array:
    gemm, attention = 2 * projections / GIGA, 2 * scores / GIGA
    if dev.fp4:  # no kernel efficiency, no weight load [4]
        return gemm / dev.low + attention / dev.fp16 / KERNEL
    weights = model.attention_parameters * model.weight_bytes / MIB
    return gemm / dev.low / KERNEL + attention / dev.fp16 / KERNEL + weights / dev.memory


def split_ms(dev: Device, model: ModelSpec, whole_ms: Array, tokens: Numbers, tp: Numbers) -> Array:
    """One layer over `tp` GPUs: its share, `tokens` activations once over NVLink, the fixed overhead."""
    t = as_array(tp)
    all_reduce = as_array(tokens) * model.hidden_size * 2 / MIB / dev.nvlink + ALL_REDUCE_LATENCY_MS
    return np.where(t > 1, whole_ms / t + all_reduce, whole_ms) + LAYER_OVERHEAD_MS


def kv_read_ms(dev: Device, model: ModelSpec, seq_len: Numbers, batch: Numbers) -> Array:
    """Reading one layer's cached KV of `batch` sequences."""
    size = as_array(seq_len) * model.attention.kv_width * as_array(batch) * model.kv_bytes
    return size / GIB / dev.memory * MS_PER_S
