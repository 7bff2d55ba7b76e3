"""What all steps do: one walk over the model's layers, each operation by its formula and by its measured kernels."""

from dataclasses import dataclass, replace

import numpy as np

from planner.cost import attention, collectives, ffn
from planner.cost.arrays import Array, Numbers, as_array, ceil_divide
from planner.cost.attention import AttentionWork
from planner.cost.device import Device
from planner.cost.efficiency import saturation
from planner.cost.kernels import KernelTime, Rows
from planner.cost.measured import at_least, glue_ms, measured, rows_of
from planner.cost.parts import Part
from planner.domain import CostSettings, ModelSpec, Phase

_PERMUTED_BYTES = 6  # an expert's copy of a token: written and read on dispatch (1 byte), on combine (2 bytes)
_STREAM_PASSES = 3  # of a further residual stream and block: read once to be mixed into one, then read and written
_US_PER_MS = 1000.0
_BYTE_PER_MS = 1e6  # of a GB/s


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What steps are asked for: arrays that broadcast.

    `length`: a prompt's tokens (prefill) or a sequence's cached tokens (decode). `batch`: prompts a rank takes in, or
    sequences that an attention group decodes, those of all pipeline stages together. `cached`: share of each prompt
    that is in the prefix cache (prefill). `ep`: GPUs that experts are spread over whole, each cut among
    `devices` / `ep` (None: over all).
    """

    phase: Phase
    tp: Array
    dp: Array
    pp: Array
    length: Array
    batch: Array
    cached: Numbers = 0.0
    ep: Numbers | None = None

    @classmethod
    def at(
        cls,
        phase: Phase,
        tp: Numbers,
        dp: Numbers,
        pp: Numbers,
        *,
        length: Numbers,
        batch: Numbers,
        cached: Numbers = 0.0,
    ) -> "Steps":
        """Steps of numbers or arrays."""
        columns = {"tp": tp, "dp": dp, "pp": pp, "length": length, "batch": batch}
        return cls(phase=phase, cached=cached, **{name: as_array(column) for name, column in columns.items()})

    @property
    def devices(self) -> Array:
        """GPUs that share a layer's experts."""
        return np.asarray(self.tp * self.dp)

    @property
    def spread(self) -> Array:
        """`ep`, of all where it is not told."""
        return self.devices if self.ep is None else as_array(self.ep)


def common_parts(
    dev: Device,
    model: ModelSpec,
    settings: CostSettings,
    steps: Steps,
    work: AttentionWork,
    *,
    new: Array,
    expanded: Array,
    passes: Array,
    micro: Array,
    scores: tuple[Part, ...] | None = None,
    expanding: Array | None = None,
) -> tuple[Part, ...]:
    """Parts that all steps have, over all layers and `passes` over the model of `micro` micro-batches each.

    `scores`: the attention scores, where they are not those of `work` in one part. `expanding`: FLOP/ms for the
    expansion of MLA's cache, where it differs from other products over weights.
    """
    loads = micro * passes
    rows, expanding = rows_of(dev.kernels, new, loads), dev.weights if expanding is None else expanding
    parts = [
        _projections_part(
            dev, model, work, steps.tp, new=new, expanded=expanded, loads=loads, expanding=expanding, rows=rows
        ),
        *(scores or (score_part("attention", dev, work),)),
        collectives.all_reduce_part(dev, model, tokens=new, tp=steps.tp, dp=steps.dp, micro_batches=loads),
        _small_kernels_part(dev, model, tokens=new, tp=steps.tp, loads=loads),
        ffn.dense_part(dev, model, tokens=new, tp=steps.tp, micro_batches=loads, rows=rows),
    ]
    if model.experts:
        tokens, devices = new / steps.tp, steps.devices
        experts_on_device = ceil_divide(model.experts.routed + settings.redundant_experts, devices)
        # Without groups every GPU does its part of every token: none is busier than another.
        imbalance = 1.0 if settings.balanced_experts else np.where(steps.dp > 1, dev.efficiency.imbalance, 1.0)
        parts.append(
            ffn.shared_part(dev, model, tokens=tokens, tp=steps.tp, dp=steps.dp, micro_batches=loads, rows=rows)
        )
        parts.append(
            ffn.routed_part(
                dev,
                model,
                model.experts,
                tokens=tokens,
                devices=devices,
                on_device=experts_on_device,
                dp=steps.dp,
                ep=steps.spread,
                micro_batches=loads,
                imbalance=imbalance,
            )
        )
        parts += collectives.all_to_all_parts(
            dev,
            model,
            model.experts,
            settings,
            tokens=tokens * ffn.busiest(imbalance, devices),
            group_tokens=new,
            devices=devices,
            dp=steps.dp,
            micro_batches=loads,
        )
    stage = collectives.transfer_part(
        dev, model, settings, tokens=new, tp=steps.tp, pp=steps.pp, stage_devices=steps.devices
    )
    return (*parts, stage)


def scheduling_part(dev: Device, latency_ms: Array) -> Part:
    """What an engine does between passes; engines whose kernels were measured prepare the next one meanwhile."""
    kernel = None if dev.kernels is None else measured(np.zeros(np.shape(latency_ms)))
    return Part(name="scheduling", latency_ms=latency_ms, kernel=kernel)


def score_part(name: str, dev: Device, work: AttentionWork) -> Part:
    """Attention scores over all layers, and the cache that they read."""
    eff = dev.efficiency
    share = eff.attention_prefill if dev.phase is Phase.PREFILL else eff.attention_decode
    flops, moved = 2 * work.score_macs, work.cache_bytes
    return Part(
        name=name,
        compute_ms=flops / (dev.fp16 * share),
        memory_ms=moved / dev.cache,
        flops=flops,
        bytes=moved,
        kernel=None if work.scores is None else at_least(work.scores, moved / (dev.gpu.memory_gb_s * _BYTE_PER_MS)),
    )


def _projections_part(
    dev: Device,
    model: ModelSpec,
    work: AttentionWork,
    tp: Array,
    *,
    new: Array,
    expanded: Array,
    loads: Array,
    expanding: Array,
    rows: Rows | None,
) -> Part:
    eff = dev.efficiency
    projections = ffn.gemm_part(
        "projections",
        dev,
        flops=2 * work.projection_macs,
        rate=dev.weights,
        rows=new,
        weight_bytes=work.weight_bytes,
        micro_batches=loads,
    )
    expansion = 2 * work.expansion_macs
    reached = expanding * eff.gemm * saturation(expanded / loads, eff.gemm_half)
    kernel = None
    if dev.kernels is not None and rows is not None:
        kernel = attention.projections_ms(model, dev.kernels, rows, tp)
    return replace(
        projections,
        compute_ms=projections.compute_ms + expansion / reached,
        flops=projections.flops + expansion,
        kernel=kernel,
    )


def _small_kernels_part(dev: Device, model: ModelSpec, *, tokens: Array, tp: Array, loads: Array) -> Part:
    """Norms, residuals, quantisation, routing: activations through memory, and a fixed time a layer."""
    layers = model.blocks / 2  # the efficiencies are of layers with two blocks
    row = model.hidden_size * collectives.ACTIVATION_BYTES
    moved = layers * tokens * row * dev.efficiency.passes
    moved = moved + model.blocks * tokens * row * _STREAM_PASSES * (model.residual_streams - 1)
    if model.experts:
        sent = model.experts.sent_width(model.hidden_size)
        moved = moved + model.moe_layers * tokens / tp * model.experts.active * sent * _PERMUTED_BYTES
    fixed_us = layers * dev.efficiency.layer_us + model.choosing_layers * dev.efficiency.indexer_us
    latency = loads * fixed_us / _US_PER_MS
    glue = None if dev.kernels is None else _glue(dev, model, tokens=tokens, tp=tp, loads=loads)
    return Part(name="small kernels", memory_ms=moved / dev.memory, latency_ms=latency, bytes=moved, kernel=glue)


_NORMED = 4  # rows of 16 bits that a norm with its residual reads and writes
_GATED = 3  # likewise of the width between an FFN's products
_GLUE_KERNELS = 4  # of a layer: norms and what is copied, rotated or quantised beside measured kernels


def _glue(dev: Device, model: ModelSpec, *, tokens: Array, tp: Array, loads: Array) -> KernelTime:
    """What engines run between the kernels that were measured."""
    width = sum(count * ffn.size for ffn, count in model.dense_ffns) / tp
    moved = collectives.ACTIVATION_BYTES * tokens * (model.blocks * _NORMED * model.hidden_size + _GATED * width)
    kernels = model.blocks / 2 * _GLUE_KERNELS
    return measured(glue_ms(dev.gpu, kernels=kernels, moved=moved, loads=loads))


def fullest_rank(dev: Device, settings: CostSettings, dp: Array) -> Array:
    """Prefill of the fullest of `dp` attention ranks, which the others wait for, over that of the mean one."""
    return as_array(1.0) if settings.balanced_experts else ffn.busiest(dev.efficiency.rank_imbalance, dp)
