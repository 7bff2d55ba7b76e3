"""Shallowsim's layers: a GPU as it sees it, latent attention, feed-forward blocks, and the expert all-to-all.

| symbol | meaning | unit |
|---|---|---|
| DERATING | share of a data-sheet rate that is seen (`discount`) | 1 |
| fp16, low | arithmetic rates: attention scores; everything else (FP4 where it exists [12], else FP8) | TFLOP/s |
| memory, nvlink, nic | bandwidths, MiB/(GB/s) taken as ms | GB/s |
| n | tokens that one GPU pushes through a feed-forward block in a step | tokens |
| K, g | experts a token visits, experts that one GPU holds | 1 |
| m | tokens per expert and micro-batch: int(n K / g) | tokens |
| eta | efficiency at the next power of two above m [7] | 1 |
| d | hidden size | 1 |
| s, h | prompt length, share found in the prefix cache | tokens, 1 |
| H, r, rope, nope, v | heads, KV rank, rotary, plain and value head dimensions | 1 |
| B | sequences of a GPU | 1 |
| N | GPUs of an NVLink domain | 1 |
| TARGET_NODES | nodes that a token's experts lie on, whatever the island's size [8] | 1 |

FLOPs = 2 MACs. GFLOP / (TFLOP/s) = ms. Attention is that of one layer on one group of tp GPUs: the full square is
counted [10]; a cache hit saves the KV down-projection only [9]. Dispatch has one byte an element, combine two.
"""

from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.domain import Experts, GpuSpec, MlaAttention, ModelSpec, Phase
from planner.units import GIB, GIGA, MIB, MS_PER_S

DERATING = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Derated rates of one GPU type in one phase."""

    gpu: GpuSpec
    fp16: float
    low: float
    memory: float
    nvlink: float
    nic: float
    fp4: bool


def device(gpu: GpuSpec, phase: Phase) -> Device:
    """Derate `gpu`; prefill gives some SMs to communication."""
    share = DERATING
    if phase is Phase.PREFILL:
        share *= (gpu.sms - gpu.sms_for_communication) / gpu.sms
    fp4 = gpu.fp4_tflops > 0
    fp8 = gpu.fp8_tflops or gpu.fp16_tflops  # the A100, absent from Shallowsim's table, computes FP8 weights in FP16
    return Device(
        gpu=gpu,
        fp16=gpu.fp16_tflops * share,
        low=(gpu.fp4_tflops if fp4 else fp8) * share,
        memory=gpu.reference_memory_gb_s * DERATING,  # [11]
        nvlink=(gpu.host_link_gb_s or gpu.nvlink_gb_s) * DERATING,  # no published device has links of two kinds
        nic=gpu.nic_gb_s * DERATING,
        fp4=fp4,
    )


MICRO_BATCHES = 2
_CURVES = {
    "general": np.array([0.05, 0.05, 0.05, 0.05, 0.08, 0.1, 0.2, 0.35, 0.4, 0.6, 0.7]),
    "h20": np.array([0.06, 0.06, 0.06, 0.12, 0.25, 0.45, 0.8, 0.9, 1.0, 1.0, 1.0]),
}


def efficiency(gpu: GpuSpec, tokens_per_expert: Numbers) -> Array:
    """The table's share at the next power of two strictly above int(m); the H200 counts as an H20 [1]."""
    curve = _CURVES["h20" if "H20" in gpu.name else "general"]
    tokens = np.maximum(np.floor(as_array(tokens_per_expert)), 0.0)
    above = np.where(tokens < 1, 0, np.floor(np.log2(np.maximum(tokens, 1.0))) + 1)
    return np.asarray(curve[np.minimum(above, len(curve) - 1).astype(int)])


def dense_ms(dev: Device, model: ModelSpec, tokens: Numbers) -> Array:
    """One dense FFN on one GPU."""
    weights = next((ffn.parameters(model.hidden_size) for ffn, _ in model.dense_ffns), 0)
    flops = 2 * as_array(tokens) * weights / GIGA
    return flops / dev.low + weights * model.weight_bytes / MIB / dev.memory


def _flops(model: ModelSpec, tokens: Array) -> Array:
    return 2 * tokens * model.expert_parameters / GIGA


def _load_ms(dev: Device, model: ModelSpec) -> float:
    return model.expert_parameters * model.expert_bytes / MIB / dev.memory


def experts_prefill_ms(
    dev: Device, model: ModelSpec, experts: Experts, tokens: Numbers, experts_on_device: Numbers
) -> tuple[Array, Array]:
    """(shared, routed) at the full derated rate."""
    n, g, load = as_array(tokens), as_array(experts_on_device), _load_ms(dev, model)
    shared = _flops(model, n * experts.shared) / dev.low + load * experts.shared
    return shared, _flops(model, n * experts.active) / dev.low + load * g


def experts_decode_ms(
    dev: Device, model: ModelSpec, experts: Experts, tokens: Numbers, experts_on_device: Numbers
) -> tuple[Array, Array]:
    """(shared, routed); two micro-batches each load the weights, half of them on FP4 devices."""
    n, g = as_array(tokens) / MICRO_BATCHES, as_array(experts_on_device)
    load = _load_ms(dev, model) / (2 if dev.fp4 else 1)
    rate = dev.low * efficiency(dev.gpu, n * experts.active / g)
    shared = _flops(model, n * experts.shared) / rate + load * experts.shared
    routed = _flops(model, n * experts.active) / rate + load * g
    return MICRO_BATCHES * np.asarray(shared), MICRO_BATCHES * np.asarray(routed)


KERNEL = 0.7
LAYER_OVERHEAD_MS = 0.05
ALL_REDUCE_LATENCY_MS = 0.015


def attention_prefill_ms(
    dev: Device, model: ModelSpec, mla: MlaAttention, seq_len: Numbers, kv_cache_rate: Numbers
) -> Array:
    """One prompt, no tensor parallelism, no overhead."""
    d, s, h = model.hidden_size, as_array(seq_len), as_array(kv_cache_rate)
    projections = (
        s * d * mla.query_rank
        + s * mla.query_rank * mla.heads * (mla.nope_dim + mla.rope_dim)
        + s * d * (mla.kv_rank + mla.rope_dim) * (1 - h)
        + s * mla.kv_rank * mla.heads * (mla.nope_dim + mla.value_dim)
    )
    scores = mla.heads * s * s * (mla.rope_dim + mla.nope_dim + mla.value_dim) + s * mla.heads * mla.value_dim * d
    return _layer_ms(dev, model, mla, projections, scores)


def attention_decode_ms(dev: Device, model: ModelSpec, mla: MlaAttention, seq_len: Numbers, batch: Numbers) -> Array:
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
    return _layer_ms(dev, model, mla, projections * b, scores * b)


def _layer_ms(dev: Device, model: ModelSpec, mla: MlaAttention, projections: Array, scores: Array) -> Array:
    gemm, attention = 2 * projections / GIGA, 2 * scores / GIGA
    if dev.fp4:  # no kernel efficiency, no weight load [4]
        return gemm / dev.low + attention / dev.fp16 / KERNEL
    weights = mla.parameters(model.hidden_size) * model.weight_bytes / MIB
    return gemm / dev.low / KERNEL + attention / dev.fp16 / KERNEL + weights / dev.memory


def split_ms(dev: Device, model: ModelSpec, whole_ms: Array, tokens: Numbers, tp: Numbers) -> Array:
    """One layer over `tp` GPUs: its share, `tokens` activations once over NVLink, the fixed overhead."""
    t = as_array(tp)
    all_reduce = as_array(tokens) * model.hidden_size * 2 / MIB / dev.nvlink + ALL_REDUCE_LATENCY_MS
    return np.where(t > 1, whole_ms / t + all_reduce, whole_ms) + LAYER_OVERHEAD_MS


def kv_read_ms(dev: Device, model: ModelSpec, mla: MlaAttention, seq_len: Numbers, batch: Numbers) -> Array:
    """Reading one layer's cached KV of `batch` sequences."""
    size = as_array(seq_len) * mla.kv_width * as_array(batch) * model.kv_bytes
    return size / GIB / dev.memory * MS_PER_S


TARGET_NODES = 4
COMBINE_BYTES = 2
SMALL_NODE = 8
PREFILL_LATENCY_MS = 0.05
DECODE_LATENCY_MS = 0.005


def all_to_all_prefill_ms(
    dev: Device, model: ModelSpec, experts: Experts, tokens: Numbers, tp: Numbers
) -> tuple[Array, Array]:
    """(dispatch, combine) for `tokens` on each rank of `tp` GPUs; dispatch is halved on every device [2]."""
    dispatch = _prefill_dispatch_ms(dev, model, experts, as_array(tokens), as_array(tp))
    return dispatch / 2 + PREFILL_LATENCY_MS, COMBINE_BYTES * dispatch + PREFILL_LATENCY_MS


def _prefill_dispatch_ms(dev: Device, model: ModelSpec, experts: Experts, tokens: Array, tp: Array) -> Array:
    n = dev.gpu.linked_gpus
    if n == SMALL_NODE:
        sent = (TARGET_NODES - 1) * (n / tp) * tokens * (experts.active / n) * model.hidden_size / MIB
        return sent / (n * dev.nic)
    foreign = (experts.routed - np.ceil(experts.routed / n)) / experts.routed
    return np.asarray(foreign * experts.active * tokens / tp * model.hidden_size / MIB / dev.nvlink)


def all_to_all_decode_ms(
    dev: Device,
    model: ModelSpec,
    experts: Experts,
    tokens: Numbers,
    devices: Numbers,
    experts_on_device: Numbers,
    *,
    fp8_combine: bool,
) -> tuple[Array, Array]:
    """(dispatch, combine) for `tokens` on each GPU. FP8 combine needs a device with FP4."""
    d, g, n = as_array(devices), as_array(experts_on_device), dev.gpu.linked_gpus
    near = experts.routed / g == SMALL_NODE if n == SMALL_NODE else d <= n
    bandwidth = np.where(near, as_array(dev.nvlink), as_array(dev.nic))
    dispatch = as_array(tokens) * model.hidden_size * experts.active / MIB / bandwidth
    combine = dispatch if fp8_combine and dev.fp4 else COMBINE_BYTES * dispatch
    latency = DECODE_LATENCY_MS * MICRO_BATCHES
    return dispatch + latency, combine + latency
