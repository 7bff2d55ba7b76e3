"""Device memory: weights, cache and activations of the fullest GPU of a replica.

| symbol | meaning | unit |
|---|---|---|
| tp, D, pp | GPUs of an attention group, GPUs that share a layer's experts, pipeline stages | 1 |
| x | experts on a GPU: ceil((E + redundant) / D) routed ones and the shared ones | 1 |
| B | sequences of an attention group (of all stages together) | 1 |
| n | tokens of a step | tokens |
| M | device memory as the driver shows it | GB |
| ENGINE_MEMORY_SHARE | share of M that manifests give to the engine | 1 |
| RESERVE_GB | what of it the driver, the CUDA context and communication buffers take before any weight | GB |

Attention, dense FFN and head are split over tp (latent projections repeated), experts lie whole on GPUs, a stage holds
ceil(L / pp) layers. The cache of a sequence lies on its group, divided by tp only as far as there are KV heads.
Weights, cache and activations have ENGINE_MEMORY_SHARE * M - RESERVE_GB; graphs lie in the rest of M.
RESERVE_GB: SGLang finds 138.4 of the 140.4 GiB of an H200 free before it loads DeepSeek-R1 at TP8
(github.com/ai-dynamo/aisimulate, pull request 263), vLLM reports 1.8 GiB outside of torch on an H100 whose 79.65 GiB
it sees as 79.2 (github.com/vllm-project/vllm, pull request 10511).
Sizes in GB = 10^9 bytes.
"""

import numpy as np

from planner.cost import attention
from planner.cost.arrays import Array, Numbers, as_array, ceil_divide
from planner.cost.device import CostContext
from planner.cost.drafts import Draft, draft_of
from planner.domain import ENGINE_MEMORY_SHARE, CostSettings, GpuSpec, ModelSpec
from planner.domain.model.spec import EMBEDDING_BYTES
from planner.units import GB

RESERVE_GB = 2.0


def experts_on_device(model: ModelSpec, settings: CostSettings, devices: Numbers) -> Array:
    """Experts that one of `devices` GPUs holds of each layer, shared ones included."""
    if not model.experts:
        return np.zeros(as_array(devices).shape)
    return ceil_divide(model.experts.routed + settings.redundant_experts, devices) + model.experts.shared


def weights_gb(
    model: ModelSpec, *, tp: Numbers, experts_on_device: Numbers, pp: Numbers = 1, draft: Draft | None = None
) -> Array:
    """Weights of the fullest GPU (GB), those of what drafts among them."""
    t, x, stages = as_array(tp), as_array(experts_on_device), as_array(pp)
    layer_share = np.minimum(ceil_divide(model.layers, stages) / model.layers, 1)
    # With stages the tables lie on two of them, the head on the last, and it is never the larger one.
    tables = np.where(stages > 1, model.head_parameters * EMBEDDING_BYTES, model.table_bytes) / t
    drafting = 0.0 if draft is None else _draft_bytes(draft, t, x)
    # A tower is split like the layers, and loaded whether images come or not.
    tower = model.tower_parameters * EMBEDDING_BYTES / t
    return np.asarray((_layers_bytes(model, t, x) * layer_share + tables + tower + drafting) / GB)


def _layers_bytes(model: ModelSpec, tp: Array, experts_on_device: Array) -> Array:
    """All layers on one GPU; connections are on every one."""
    split = attention.weights(model, tp) + model.dense_ffn_parameters / tp
    experts = model.moe_layers * _expert_bytes(model, experts_on_device)
    router = model.moe_layers * model.router_parameters * EMBEDDING_BYTES
    return np.asarray(split * model.weight_bytes + experts + router + model.connection_parameters * EMBEDDING_BYTES)


def _draft_bytes(draft: Draft, tp: Array, experts_on_device: Array) -> Array:
    """The layers that draft, on one GPU, and a head of their own; embeddings are the model's."""
    head = draft.own_head * draft.layer.head_parameters
    around = (draft.copies * draft.joining + head) * EMBEDDING_BYTES / tp
    return np.asarray(draft.copies * _layers_bytes(draft.layer, tp, experts_on_device) + around)


def _expert_bytes(model: ModelSpec, experts_on_device: Array) -> Array:
    """Experts of one layer on a GPU, the shared ones among `experts_on_device` (bytes)."""
    if not model.experts:
        return as_array(0.0)
    routed = experts_on_device - model.experts.shared
    return np.asarray(model.expert_parameters * routed * model.expert_bytes + model.shared_weight_bytes)


def activation_gb(model: ModelSpec, tokens_per_group: Numbers, tp: Numbers) -> Array:
    """Buffers for one step of `tokens_per_group` tokens (GB)."""
    n, t = as_array(tokens_per_group), as_array(tp)
    return np.asarray(n * (model.whole_buffer_bytes + model.split_buffer_bytes / t) / GB)


def usable_gb(gpu: GpuSpec) -> float:
    """What a GPU offers for weights, cache and activations (GB)."""
    return gpu.device_gb * ENGINE_MEMORY_SHARE - RESERVE_GB


def free_gb(
    gpu: GpuSpec,
    model: ModelSpec,
    *,
    tp: Numbers,
    experts_on_device: Numbers,
    pp: Numbers = 1,
    draft: Draft | None = None,
) -> Array:
    """What the weights leave of the usable memory (GB); negative where they do not fit."""
    return usable_gb(gpu) - weights_gb(model, tp=tp, experts_on_device=experts_on_device, pp=pp, draft=draft)


def cache_gb(
    model: ModelSpec,
    *,
    length: Numbers,
    batch: Numbers,
    tp: Numbers,
    pp: Numbers = 1,
    draft: Draft | None = None,
    states: int | None = None,
) -> Array:
    """Cache of `batch` sequences of `length` tokens on the fullest GPU of a group (GB), that of what drafts with it.
    `states`: of a sequence, where layers keep one (None: of one that is worked on)."""
    layer_share = ceil_divide(model.layers, pp) / model.layers
    kept_states = model.kept_states + (0 if draft is None else draft.tokens) if states is None else states
    each = attention.reserved_bytes(model, as_array(length), as_array(tp), states=kept_states) * layer_share
    if draft is not None:
        each = each + draft.copies * attention.reserved_bytes(draft.layer, as_array(length), as_array(tp))
    return np.asarray(each * as_array(batch) / GB)


def max_batch(
    gpu: GpuSpec,
    model: ModelSpec,
    *,
    seq_len: Numbers,
    decode_len: Numbers,
    tp: Numbers,
    experts_on_device: Numbers,
    pp: Numbers = 1,
    draft: Draft | None = None,
) -> Array:
    """Most sequences of an attention group whose cache fits, not rounded; negative where the weights do not fit.

    A pipeline holds the cache of all its sequences, each stage for its own layers.
    """
    length = as_array(seq_len) + as_array(decode_len)
    free = free_gb(gpu, model, tp=tp, experts_on_device=experts_on_device, pp=pp, draft=draft)
    cache = cache_gb(model, length=length, batch=1, tp=tp, pp=pp, draft=draft)
    return np.asarray(free / (cache + activation_gb(model, 1 + (draft.tokens if draft else 0), tp)))


def max_prompts(
    context: CostContext,
    *,
    longest: Numbers,
    tp: Numbers,
    experts_on_device: Numbers,
    pp: Numbers = 1,
    states: int | None = None,
) -> Array:
    """Most prompts of `longest` tokens whose cache fits on a rank, not rounded; negative where weights or buffers fail.

    The cache of the whole prompt is kept. Buffers are those of a step that fills the token budget: engines measure
    such a step when they start, whatever prompts then come, and give the cache what it leaves. `states`: of a prompt,
    where layers keep one (None: of one that is worked on).
    """
    gpu, model, settings = context.gpu, context.model, context.settings
    t, s = as_array(tp), as_array(longest)
    draft = draft_of(model, settings)
    free = free_gb(gpu, model, tp=t, experts_on_device=experts_on_device, pp=pp, draft=draft)
    # A prompt's cache stays while the stages work on others: as many prompts as stages.
    cache = cache_gb(model, length=s, batch=pp, tp=t, pp=pp, draft=draft, states=states)
    return np.asarray((free - activation_gb(model, settings.max_tokens_per_step, t)) / cache)
