"""Decode: time of one output token on a replica of D GPUs.

| symbol | meaning | unit |
|---|---|---|
| L, Ld | layers, dense layers | 1 |
| s | tokens already in the KV cache | tokens |
| B | sequences of an attention group of tp GPUs (reference: of a GPU) | 1 |
| D, g | GPUs of the replica, experts per GPU | 1 |

TPOT = Ld (mla1 + dense) + (L - Ld) (mla + shared + routed + max(0, dispatch + combine - mla - shared))
Source: Shallowsim.
"""

from dataclasses import dataclass

import numpy as np

from planner.cost import attention, collectives, experts
from planner.cost.arrays import Array, Numbers, as_array, ceil_divide
from planner.cost.device import device
from planner.cost.rules import Rules
from planner.domain import GpuSpec, ModelSpec, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTime:
    """One decode step (ms). All but `total_ms` are per layer; `attention_ms` is that of a MoE layer, KV read included.

    `total_ms` is the time per output token; `overlapped_ms` is it with all communication hidden.
    """

    attention_ms: Array
    dense_attention_ms: Array
    dense_ms: Array
    shared_ms: Array
    routed_ms: Array
    dispatch_ms: Array
    combine_ms: Array
    overlapped_ms: Array
    total_ms: Array


def decode_step(
    gpu: GpuSpec,
    model: ModelSpec,
    rules: Rules,
    *,
    seq_len: Numbers,
    tp: Numbers,
    batch_size: Numbers,
    devices: Numbers,
    experts_per_device: Numbers | None = None,
    fp8_combine: bool = False,
) -> DecodeTime:
    """Time of one token for `batch_size` sequences with `seq_len` cached tokens; inputs broadcast.

    `experts_per_device` defaults to ceil(E/D); spare slots hold redundant copies.
    """
    dev = device(gpu, model, rules, Phase.DECODE)
    b, t, d = as_array(batch_size), as_array(tp), as_array(devices)
    g = as_array(experts_per_device) if experts_per_device is not None else ceil_divide(model.experts.routed, d)
    tokens = b if rules.batch_per_gpu else b / t
    projections, scores = attention.decode_macs(model, seq_len)
    whole = attention.layer_ms(dev, model, rules, projections * b, scores * b)
    read = attention.kv_read_ms(dev, model, seq_len, b)
    sparse = attention.split_ms(dev, model, whole, b, t, ring=not rules.batch_per_gpu) + read
    first = whole + read if rules.batch_per_gpu else sparse
    dense = experts.dense_ms(dev, model, b, 1 if rules.batch_per_gpu else t)
    shared, routed = experts.decode_ms(dev, model, rules, tokens, g)
    dispatch, combine = collectives.decode_ms(dev, model, rules, tokens, d, g, fp8_combine=fp8_combine)
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
