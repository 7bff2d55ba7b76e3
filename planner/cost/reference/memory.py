"""Shallowsim's memory: DeepSeek-V3's sizes as literals [5].

| symbol | meaning | unit |
|---|---|---|
| x | experts on the device, the shared one included | 1 |
| B | sequences of a GPU | 1 |
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.domain import GpuSpec, ModelSpec
from planner.units import GIB

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
