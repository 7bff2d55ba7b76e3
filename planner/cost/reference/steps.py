"""Shallowsim's sums over layers.

| symbol | meaning | unit |
|---|---|---|
| L, Ld | layers, dense layers | 1 |
| mla1, mla | attention of a dense and of a MoE layer | ms |

prefill = Ld (mla1 + dense)
          + (L - Ld) (mla + shared + routed + max(0, combine - mla - shared) + max(0, dispatch - routed))
decode  = Ld (mla1 + dense) + (L - Ld) (mla + shared + routed + max(0, dispatch + combine - mla - shared))
"""

import numpy as np

from planner.cost.arrays import Numbers, as_array, ceil_divide
from planner.cost.parts import DecodeTime, PrefillTime
from planner.cost.reference.layers import (
    all_to_all_decode_ms,
    all_to_all_prefill_ms,
    attention_decode_ms,
    attention_prefill_ms,
    dense_ms,
    device,
    experts_decode_ms,
    experts_prefill_ms,
    kv_read_ms,
    split_ms,
)
from planner.domain import Experts, GpuSpec, MlaAttention, ModelSpec, Phase
from planner.errors import InputError
from planner.units import MIB


def prefill_step(
    gpu: GpuSpec,
    model: ModelSpec,
    *,
    seq_len: Numbers,
    tp: Numbers,
    dp: Numbers,
    kv_cache_rate: Numbers = 0.0,
    prompts_per_rank: Numbers = 1,
) -> PrefillTime:
    """Time of one step; each of `dp` ranks carries `prompts_per_rank` prompts of `seq_len`. Inputs broadcast."""
    mla, moe = shape_of(model)
    dev, s, n, t = device(gpu, Phase.PREFILL), as_array(seq_len), as_array(prompts_per_rank), as_array(tp)
    load = mla.parameters(model.hidden_size) * model.weight_bytes / MIB / dev.memory * (0 if dev.fp4 else 1)  # [4]
    first = (attention_prefill_ms(dev, model, mla, s, kv_cache_rate) - load) * n + load  # weights once a step
    sparse = split_ms(dev, model, first, s * n, t)
    dense = dense_ms(dev, model, s * n)
    shared, routed = experts_prefill_ms(dev, model, moe, s * n / t, moe.routed / (t * as_array(dp)))
    dispatch, combine = all_to_all_prefill_ms(dev, model, moe, s * n, t)
    layers = model.moe_layers
    compute = model.dense_layers * (first + dense) + layers * (sparse + shared + routed)
    exposed = np.maximum(0, combine - sparse - shared) + np.maximum(0, dispatch - routed)
    return PrefillTime(
        attention_ms=sparse,
        dense_attention_ms=first,
        dense_ms=dense,
        shared_ms=shared,
        routed_ms=routed,
        dispatch_ms=dispatch,
        combine_ms=combine,
        compute_ms=compute,
        comm_ms=layers * (dispatch + combine),
        total_ms=compute + layers * exposed,
    )


def decode_step(
    gpu: GpuSpec,
    model: ModelSpec,
    *,
    seq_len: Numbers,
    tp: Numbers,
    batch_size: Numbers,
    devices: Numbers,
    experts_per_device: Numbers | None = None,
    fp8_combine: bool = False,
) -> DecodeTime:
    """Time of one token for `batch_size` sequences of a GPU; attention divides their work by tp all the same [3]."""
    mla, moe = shape_of(model)
    dev, b, t, d = device(gpu, Phase.DECODE), as_array(batch_size), as_array(tp), as_array(devices)
    g = as_array(experts_per_device) if experts_per_device is not None else ceil_divide(moe.routed, d)
    undivided = attention_decode_ms(dev, model, mla, seq_len, b)
    read = kv_read_ms(dev, model, mla, seq_len, b)
    sparse, first = split_ms(dev, model, undivided, b, t) + read, undivided + read
    dense = dense_ms(dev, model, b)
    shared, routed = experts_decode_ms(dev, model, moe, b, g)
    dispatch, combine = all_to_all_decode_ms(dev, model, moe, b, d, g, fp8_combine=fp8_combine)
    overlapped = model.dense_layers * (first + dense) + model.moe_layers * (sparse + shared + routed)
    exposed = np.maximum(0, dispatch + combine - sparse - shared)
    return DecodeTime(
        attention_ms=sparse,
        dense_attention_ms=first,
        dense_ms=dense,
        shared_ms=shared,
        routed_ms=routed,
        dispatch_ms=dispatch,
        combine_ms=combine,
        overlapped_ms=overlapped,
        total_ms=overlapped + model.moe_layers * exposed,
    )


def shape_of(model: ModelSpec) -> tuple[MlaAttention, Experts]:
    """Attention and experts of a model that Shallowsim's formulas hold for; InputError for any other."""
    kinds = {attention for attention, _ in model.attentions}
    mla = next(iter(kinds)) if len(kinds) == 1 else None
    if isinstance(mla, MlaAttention) and mla.query_rank and model.experts:
        return mla, model.experts
    raise InputError(
        f"model {model.name}: reference mode knows DeepSeek's shape only (latent attention with compressed queries, "
        "mixture of experts).",
        hint="Use cost.mode default.",
    )
