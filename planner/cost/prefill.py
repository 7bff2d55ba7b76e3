"""Prefill: time of one step of a replica with dp ranks of tp GPUs.

| symbol | meaning | unit |
|---|---|---|
| L, Ld | layers, dense layers | 1 |
| s | prompt length | tokens |
| n | prompts per rank and step | 1 |
| mla1, mla | attention of a dense and of a MoE layer | ms |

total = Ld (mla1 + dense) + (L - Ld) (mla + shared + routed)
        + (L - Ld) (max(0, combine - mla - shared) + max(0, dispatch - routed))
Source: Shallowsim.
"""

from dataclasses import dataclass

import numpy as np

from planner.cost import attention, collectives, experts
from planner.cost.arrays import Array, Numbers, as_array, ceil_divide
from planner.cost.device import Device, device
from planner.cost.rules import Rules
from planner.domain import GpuSpec, ModelSpec, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillTime:
    """One prefill step (ms). All but the totals are per layer; `attention_ms` is that of a MoE layer.

    `compute_ms` + `comm_ms` sum all layers without overlap; `total_ms` hides communication behind computation.
    """

    attention_ms: Array
    dense_attention_ms: Array
    dense_ms: Array
    shared_ms: Array
    routed_ms: Array
    dispatch_ms: Array
    combine_ms: Array
    compute_ms: Array
    comm_ms: Array
    total_ms: Array


def prefill_step(
    gpu: GpuSpec,
    model: ModelSpec,
    rules: Rules,
    *,
    seq_len: Numbers,
    tp: Numbers,
    dp: Numbers,
    kv_cache_rate: Numbers = 0.0,
    prompts_per_rank: Numbers = 1,
) -> PrefillTime:
    """Time of one step; each of `dp` ranks carries `prompts_per_rank` prompts of `seq_len`. Inputs broadcast."""
    dev = device(gpu, model, rules, Phase.PREFILL)
    s, n, t = as_array(seq_len), as_array(prompts_per_rank), as_array(tp)
    fresh = s * n if rules.cache_hit_on_kv_only else s * n * (1 - as_array(kv_cache_rate))
    whole = _attention_ms(dev, model, rules, s, kv_cache_rate, n)
    sparse = attention.split_ms(dev, model, whole, fresh, t, ring=not rules.batch_per_gpu)
    first = whole if rules.batch_per_gpu else sparse
    dense = experts.dense_ms(dev, model, fresh, 1 if rules.batch_per_gpu else t)
    devices = t * as_array(dp)
    held = as_array(model.experts.routed) / devices
    if not rules.four_nodes_always:
        held = ceil_divide(model.experts.routed, devices)
    shared, routed = experts.prefill_ms(dev, model, rules, fresh / t, held)
    dispatch, combine = collectives.prefill_ms(dev, model, rules, fresh, t, devices)
    return _sum(model, first, sparse, dense, shared, routed, dispatch, combine)


def _attention_ms(dev: Device, model: ModelSpec, rules: Rules, s: Array, rate: Numbers, prompts: Array) -> Array:
    """Attention of `prompts` prompts on one GPU; the weights are read once a step."""
    projections, scores = attention.prefill_macs(model, rules, s, rate)
    return attention.layer_ms(dev, model, rules, projections * prompts, scores * prompts)


def _sum(
    model: ModelSpec,
    first: Array,
    sparse: Array,
    dense: Array,
    shared: Array,
    routed: Array,
    dispatch: Array,
    combine: Array,
) -> PrefillTime:
    moe = model.moe_layers
    compute = model.dense_layers * (first + dense) + moe * (sparse + shared + routed)
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
        comm_ms=moe * (dispatch + combine),
        total_ms=compute + moe * exposed,
    )
