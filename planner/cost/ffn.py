"""Feed-forward blocks on one GPU: dense FFN, shared and routed experts, output head.

| symbol | meaning | unit |
|---|---|---|
| n | tokens that one GPU pushes through the block in a step | tokens |
| mu | micro-batches of a step; each loads the weights | 1 |
| K, E | routed experts a token visits, routed experts | 1 |
| g | experts that one GPU holds (redundant copies included) | 1 |
| f | share of the experts that some token of the micro-batch visits: 1 - (1 - K/E)^tokens | 1 |
| m | tokens per visited expert and micro-batch: n K imbalance / (mu g f) | tokens |

compute = FLOPs / (rate eta(m)), eta(m) = eta_max m / (m + half), of routed experts eta_max (m / (m + half))^power;
memory = weights / bandwidth. Kernels that unpack weights read ahead: few rows cost them at most expert_reads x memory.
"""

import math
from dataclasses import replace

import numpy as np

from planner.cost.arrays import Array, as_array
from planner.cost.device import Device
from planner.cost.efficiency import saturation
from planner.cost.kernels import KernelTime, Rows
from planner.cost.measured import Products, added, as_ones, experts_ms, products_ms, rows_of, times_of
from planner.cost.parts import Part
from planner.domain import Experts, ModelSpec
from planner.domain.model.spec import EMBEDDING_BYTES

IMBALANCE_DEVICES = 32
_NO_CHANCE = 1e-300


def gemm_part(
    name: str,
    dev: Device,
    *,
    flops: Array,
    rate: Array,
    rows: Array,
    weight_bytes: Array,
    micro_batches: Array,
    kernel: KernelTime | None = None,
) -> Part:
    """A GEMM of `flops` over `rows` tokens in all micro-batches, its weights read once in each."""
    eff = dev.efficiency
    reached = rate * eff.gemm * saturation(rows / micro_batches, eff.gemm_half)
    moved = weight_bytes * micro_batches
    return Part(
        name=name, compute_ms=flops / reached, memory_ms=moved / dev.memory, flops=flops, bytes=moved, kernel=kernel
    )


def _ffn_products(hidden_size: int, width: Array, *, gated: bool) -> Products:
    """Up, with its gate, and down again."""
    hidden = np.full(np.shape(width), float(hidden_size))
    return ((width * (2 if gated else 1), hidden), (hidden, width))


def dense_part(
    dev: Device, model: ModelSpec, *, tokens: Array, tp: Array, micro_batches: Array, rows: Rows | None
) -> Part:
    """Dense FFNs of all dense layers, `tokens` of a group of `tp` GPUs; `rows`: the same, as tables are asked."""
    weights = model.dense_ffn_parameters / tp
    kernel = None
    if dev.kernels is not None and rows is not None and model.dense_layers:
        form, hidden = dev.kernels.weights, model.hidden_size
        kernel = added(
            times_of(products_ms(dev.kernels, form, _ffn_products(hidden, ffn.size / tp, gated=ffn.gated), rows), count)
            for ffn, count in model.dense_ffns
        )
    return gemm_part(
        "dense",
        dev,
        flops=2 * tokens * weights,
        rate=dev.weights,
        rows=tokens,
        weight_bytes=weights * model.weight_bytes,
        micro_batches=micro_batches,
        kernel=kernel,
    )


def head_part(dev: Device, model: ModelSpec, *, tokens: Array, tp: Array) -> Part:
    """Output head for the `tokens` of a group that need a next token."""
    weights = as_array(model.head_parameters / tp)
    rows, kernel = rows_of(dev.kernels, tokens), None
    if dev.kernels is not None and rows is not None:
        columns = model.vocab_size / tp
        products = ((columns, np.full(np.shape(columns), float(model.hidden_size))),)
        kernel = products_ms(dev.kernels, "bfloat16", products, rows)
    return gemm_part(
        "head",
        dev,
        flops=2 * tokens * weights,
        rate=dev.fp16,
        rows=tokens,
        weight_bytes=weights * model.head_bytes,
        micro_batches=as_array(1.0),
        kernel=kernel,
    )


def shared_part(
    dev: Device, model: ModelSpec, *, tokens: Array, tp: Array, dp: Array, micro_batches: Array, rows: Rows | None
) -> Part:
    """Shared experts of all MoE layers for `tokens` per GPU, and projections to the latent width of the routed ones and
    back; every GPU holds them whole. `rows`: the group's tokens, as tables are asked."""
    latent = model.experts.latent_parameters(model.hidden_size) if model.experts else 0
    return gemm_part(
        "shared experts",
        dev,
        flops=2 * tokens * as_array(model.moe_layers * (model.shared_parameters + latent)),
        rate=dev.shared,
        rows=tokens,
        weight_bytes=as_array(model.moe_layers * (model.shared_weight_bytes + latent * EMBEDDING_BYTES)),
        micro_batches=micro_batches,
        kernel=_shared_kernel(dev, model, rows, tp=tp, dp=dp),
    )


def _shared_kernel(dev: Device, model: ModelSpec, rows: Rows | None, *, tp: Array, dp: Array) -> KernelTime | None:
    """Measured: router, shared experts (split over a group that is alone), projections to a latent width."""
    experts, kernels = model.experts, dev.kernels
    if kernels is None or rows is None or experts is None:
        return None
    hidden = np.full(np.shape(tp), float(model.hidden_size))
    router = np.full(np.shape(tp), float(experts.routed))
    times = [products_ms(kernels, "bfloat16", ((router, hidden),), rows)]
    if experts.shared:
        width = experts.shared_width / np.where(dp > 1, 1.0, tp)
        products = _ffn_products(model.hidden_size, width, gated=experts.gated)
        times.append(products_ms(kernels, kernels.shared, products, rows))
    if experts.latent:
        narrow = np.full(np.shape(tp), float(experts.latent))
        times.append(products_ms(kernels, "bfloat16", ((narrow, hidden), (hidden, narrow)), rows))
    return times_of(added(times), model.moe_layers)


def routed_part(
    dev: Device,
    model: ModelSpec,
    experts: Experts,
    *,
    tokens: Array,
    devices: Array,
    on_device: Array,
    dp: Array,
    ep: Array,
    micro_batches: Array,
    imbalance: Array | float,
) -> Part:
    """Routed experts of all MoE layers for `tokens` per GPU on `devices` GPUs with `on_device` experts each."""
    eff = dev.efficiency
    visits = tokens * experts.active * busiest(imbalance, devices)
    missed = math.log(max(1 - experts.active / experts.routed, _NO_CHANCE))  # ln of a token's chance to miss an expert
    visited = 1 - np.exp(missed * (tokens * devices / micro_batches))
    # Who has tokens at all loads one expert at least.
    loaded = np.maximum(on_device * visited, np.minimum(1, on_device))
    full = saturation(visits / micro_batches / loaded, eff.expert_half)
    eta = eff.expert * np.exp(eff.expert_power * np.log(full))  # several times as fast as a power
    weights = model.moe_layers * model.expert_parameters
    flops, moved = 2 * visits * weights, micro_batches * loaded * weights * model.expert_bytes
    memory_ms = moved / dev.memory
    kernel = None
    if dev.kernels is not None:
        of_layer = experts_ms(
            dev.kernels,
            experts,
            experts.sent_width(model.hidden_size),
            as_ones(tokens * devices / micro_batches),
            tp=np.maximum(1, devices // ep),
            ep=ep,
        )
        kernel = times_of(of_layer, model.moe_layers * micro_batches)
    few = np.minimum(flops / (dev.experts * eta), dev.expert_reads * memory_ms)
    part = Part(
        name="routed experts",
        compute_ms=np.maximum(flops / (dev.experts * eff.expert), few),
        memory_ms=memory_ms,
        flops=flops,
        bytes=moved,
    )
    if kernel is None:
        return part
    # Measured with all tokens on every rank; where tokens are sent to their experts, each works on its own rows alone.
    sent = np.where(dp > 1, np.fmin(kernel.ms, part.ms), kernel.ms)
    return replace(part, kernel=kernel.becoming(sent))


def busiest(imbalance: Array | float, devices: Array) -> Array:
    """Tokens of the busiest of `devices` GPUs over the mean.

    `imbalance` holds for 32 GPUs; the excess grows with the logarithm of their number, and is nil on one GPU.
    """
    return np.asarray(1 + (imbalance - 1) * np.log2(as_array(devices)) / np.log2(IMBALANCE_DEVICES))
