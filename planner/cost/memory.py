"""Device memory: what fits beside the weights.

| symbol | meaning | unit |
|---|---|---|
| x | experts on the device, the shared ones included | 1 |
| tp | GPUs of an attention group | 1 |
| B | sequences of a group (mended) or of a GPU (reference) | 1 |

Mended: weights from the model's shape; latent KV is not divided by tp (all heads share it); one step's tokens need
buffers for their K dispatched (1 byte) and combined (2 bytes) copies. Sizes in GB = 10^9 bytes.
"""

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.efficiency import MEMORY_SHARE
from planner.cost.rules import Rules
from planner.domain import GpuSpec, ModelSpec
from planner.units import GB, GIB

# DeepSeek-V3's sizes as Shallowsim writes them: embeddings and dense FFNs (GB), attention and one expert (MB)
_LISTED_REST_GB = 2.91
_LISTED_ATTENTION_MB = 187.17
_LISTED_EXPERT_MB = 44.05
_EMBEDDING_BYTES = 2
_DISPATCH_AND_COMBINE_BYTES = 3


def weights_gb(model: ModelSpec, *, tp: Numbers, experts_on_device: Numbers) -> Array:
    """Weights of one GPU (GB): attention, dense FFNs and embeddings over `tp`, experts whole."""
    t, x = as_array(tp), as_array(experts_on_device)
    attention = model.layers * model.attention.parameters(model.hidden_size)
    dense = model.dense_layers * model.dense_ffn_parameters
    split = (attention + dense) * model.weight_bytes + model.embedding_parameters * _EMBEDDING_BYTES
    experts = model.moe_layers * model.expert_parameters * model.weight_bytes
    return split / t / GB + experts * x / GB


def activation_gb(model: ModelSpec, tokens_per_gpu: Numbers) -> Array:
    """Buffers for one step of `tokens_per_gpu` (GB)."""
    copies = model.experts.active * _DISPATCH_AND_COMBINE_BYTES
    return as_array(tokens_per_gpu) * model.hidden_size * copies / GB


def free_gb(gpu: GpuSpec, model: ModelSpec, *, tp: Numbers, experts_on_device: Numbers) -> Array:
    """What the weights leave of the usable memory (GB); negative where they do not fit."""
    return gpu.memory_gb * MEMORY_SHARE - weights_gb(model, tp=tp, experts_on_device=experts_on_device)


def max_batch(
    gpu: GpuSpec,
    model: ModelSpec,
    rules: Rules,
    *,
    seq_len: Numbers,
    decode_len: Numbers,
    tp: Numbers,
    experts_on_device: Numbers,
) -> Array:
    """Most sequences whose KV fits, not rounded; negative where not even the weights fit.

    Reference: per GPU of a group that shares its sequences. Default: per attention group of `tp` GPUs.
    """
    length = as_array(seq_len) + as_array(decode_len)
    if not rules.literal_memory_sizes:
        free = free_gb(gpu, model, tp=tp, experts_on_device=experts_on_device)
        activations = activation_gb(model, 1 / as_array(tp))
        return np.asarray(free / (length * model.kv_bytes_per_token / GB + activations))
    t, x = as_array(tp), as_array(experts_on_device)
    free = (
        gpu.memory_gb * MEMORY_SHARE
        - _LISTED_REST_GB
        - _LISTED_ATTENTION_MB * model.layers / t / 1024
        - _LISTED_EXPERT_MB * model.moe_layers * x / 1024
    )
    return np.asarray(free * GIB / (length * model.kv_bytes_per_token * t))
