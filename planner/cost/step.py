"""One step of a replica: prompts taken in (prefill), or one token of every sequence (decode).

| symbol | meaning | unit |
|---|---|---|
| n | new tokens of an attention group | tokens |
| c | chunks of a prompt: ceil(fresh tokens / budget) | 1 |
| mu | micro-batches of a pass: 2 where communication is overlapped, else 1 | 1 |
| C, X | computation and communication of the MoE layers | ms |
| omega | share of the shorter of both that overlap hides | 1 |
| k | tokens drafted a step | tokens |
| v, a | tokens verified a sequence (1 + k), tokens gained a step (`planner.domain.serving.speculation`) | tokens |

step = sum of the parts - omega min(C, X); TPOT = step / a.
Drafts: the pass verifies v rows a sequence in every product, over as many more experts; the cache is read once for all.
Then the draft layer runs k times, first over what was verified, later over a token a sequence, its head after each.
What it does with prompts, as one layer more, is left out.
Chunked prefill: projections and FFNs add up over the chunks (equal ones), causal pairs too; weights are loaded once a
pass, and the cache of what came before is read, MLA's expanded, anew by every chunk: sum_i (h s + i fresh/c), i = 1..c.
Prompts that fit the budget together share a pass. Pipelined: pp equal micro-batches are in flight, so every stage
counts like the slowest, ceil(L/pp) layers, and a pass takes pp of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from planner.cost import attention, collectives, ffn
from planner.cost.arrays import Array, Numbers, as_array, ceil_divide
from planner.cost.attention import AttentionWork
from planner.cost.device import CostContext, Device, device
from planner.cost.drafts import Draft, draft_of
from planner.cost.efficiency import saturation
from planner.cost.images import image_parts
from planner.cost.kernels import Basis, KernelTime
from planner.cost.layers import Intake
from planner.cost.measured import at_least, beyond, glue_ms, measured, times_of
from planner.cost.parts import PART_FIGURES, Part, StepCost
from planner.domain import CostSettings, ModelSpec, Phase
from planner.domain.model.spec import EMBEDDING_BYTES

_PERMUTED_BYTES = 6  # an expert's copy of a token: written and read on dispatch (1 byte), on combine (2 bytes)
_STREAM_PASSES = 3  # of a further residual stream and block: read once to be mixed into one, then read and written
_US_PER_MS = 1000.0
_BYTE_PER_MS = 1e6  # of a GB/s


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What steps are asked for: arrays that broadcast.

    `length`: a prompt's tokens (prefill) or a sequence's cached tokens (decode). `batch`: prompts a rank takes in, or
    sequences that an attention group decodes, those of all pipeline stages together. `cached`: share of each prompt
    that is in the prefix cache (prefill). `ep`: GPUs that experts are spread over whole, each cut among `devices` / `ep`
    (None: over all).
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


def step_cost(context: CostContext, steps: Steps, *, overlap: bool | None = None) -> StepCost:
    """The parts of one step. In decode the parts are of one pass over the model, `total_ms` is TPOT.

    `overlap`: whether two micro-batches are run; None lets each step have the faster way, if the settings allow both.
    Raises InputError where the GPU lacks a figure.
    """
    if overlap is not None:
        return _one_way(context, steps, overlap=overlap)
    plain = _one_way(context, steps, overlap=False)
    # Without experts there is no exchange that could be hidden.
    if not (context.settings.two_micro_batches and context.model.experts):
        return plain
    return _faster(plain, _one_way(context, steps, overlap=True))


def step_ms(context: CostContext, steps: Steps) -> Array:
    """`step_cost(...).total_ms` without the parts: what tables of many steps need."""
    plain = _one_way(context, steps, overlap=False).total_ms
    if not (context.settings.two_micro_batches and context.model.experts):
        return plain
    return np.minimum(plain, _one_way(context, steps, overlap=True).total_ms)


def _one_way(context: CostContext, steps: Steps, *, overlap: bool) -> StepCost:
    # One GPU talks to nobody, so that there is nothing to hide.
    split = (steps.devices > 1) & (overlap and context.model.experts is not None)
    dev = device(context.gpu, context.model, steps.phase, context.settings, overlapped=split)
    of_phase = _prefill if steps.phase is Phase.PREFILL else _decode
    return of_phase(dev, context.model, context.settings, steps, np.where(split, 2.0, 1.0))


def _faster(first: StepCost, other: StepCost) -> StepCost:
    """Step by step the faster of two ways."""
    better = other.total_ms < first.total_ms

    def pick(a: ArrayLike, b: ArrayLike) -> Array:
        return np.where(better, b, a)

    def pick_kernel(a: Part, b: Part) -> KernelTime | None:
        if a.kernel is None or b.kernel is None:
            return None
        return KernelTime(ms=pick(a.kernel.ms, b.kernel.ms), basis=np.where(better, b.kernel.basis, a.kernel.basis))

    parts = tuple(
        Part(
            name=a.name,
            **{field: pick(getattr(a, field), getattr(b, field)) for field in PART_FIGURES},
            kernel=pick_kernel(a, b),
        )
        for a, b in zip(first.parts, other.parts, strict=True)
    )
    return StepCost(
        parts=parts,
        hidden_ms=pick(first.hidden_ms, other.hidden_ms),
        scale=first.scale,
        waiting=first.waiting,
        pace=first.pace,
        total_ms=pick(first.total_ms, other.total_ms),
        overlapped=pick(first.overlapped, other.overlapped) > 0,
    )


def _prefill(dev: Device, model: ModelSpec, settings: CostSettings, steps: Steps, micro: Array) -> StepCost:
    s, hit = steps.length, as_array(steps.cached)
    fresh = np.round((1 - hit) * s, 6)  # a rounding error must not cost a chunk
    budget = settings.max_tokens_per_step
    chunks = ceil_divide(fresh, budget)
    new = fresh * steps.batch
    passes = np.where(fresh <= budget, ceil_divide(np.round(new, 6), budget), chunks * steps.batch)
    expanded = steps.batch * (chunks * hit * s + fresh * (chunks + 1) / 2)
    intake = Intake(new=new, expanded=expanded, prompts=steps.batch, fresh=fresh, prompt=s)
    work = attention.prefill_work(model, intake, steps.tp, dev.kernels)
    parts = common_parts(dev, model, settings, steps, work, new=new, expanded=expanded, passes=passes, micro=micro)
    head = ffn.head_part(dev, model, tokens=steps.batch, tp=steps.tp)
    fixed = scheduling_part(dev, passes * dev.efficiency.step_prefill_ms)
    images = image_parts(dev, model, settings, prompts=new / s, length=s, tp=steps.tp, passes=passes)
    parts = (*parts, *images, head, fixed)
    if dev.relative is not None:
        parts = carried(parts, _prefill(dev.relative, model, settings, steps, micro).parts)
    waiting, pace = fullest_rank(dev, settings, steps.dp), dev.pace.apart.at(steps.tp, steps.dp, steps.spread)
    return summed(dev, model, steps, parts, micro, gained=1.0, waiting=waiting, pace=pace)


def carried(parts: tuple[Part, ...], relatives: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts with kernels of a relative: measured there, by what formulas say of both."""
    return tuple(
        part if other.kernel is None else replace(part, kernel=_as_much(other.kernel, part, other))
        for part, other in zip(parts, relatives, strict=True)
    )


def _as_much(kernel: KernelTime, part: Part, other: Part) -> KernelTime:
    here, there = part.formula_ms, other.formula_ms
    ratio = np.where(there > 0, here / np.where(there > 0, there, 1.0), 1.0)
    ms = kernel.ms * ratio
    basis = np.broadcast_to(np.maximum(kernel.basis, np.int8(Basis.SCALED)), np.shape(ms))
    return KernelTime(ms=ms, basis=basis)


def fullest_rank(dev: Device, settings: CostSettings, dp: Array) -> Array:
    """Prefill of the fullest of `dp` attention ranks, which the others wait for, over that of the mean one."""
    return as_array(1.0) if settings.balanced_experts else ffn.busiest(dev.efficiency.rank_imbalance, dp)


def _decode(dev: Device, model: ModelSpec, settings: CostSettings, steps: Steps, micro: Array) -> StepCost:
    verified, draft = 1 + settings.drafting.drafted, draft_of(model, settings)
    sequences = steps.batch / steps.pp
    new = sequences * verified
    work = attention.decode_work(
        model,
        sequences=sequences,
        tokens=as_array(verified),
        cached=steps.length,
        tp=steps.tp,
        kernels=dev.kernels,
    )
    once = as_array(1.0)
    parts = common_parts(dev, model, settings, steps, work, new=new, expanded=new, passes=once, micro=micro)
    head = ffn.head_part(dev, model, tokens=new, tp=steps.tp)
    fixed = scheduling_part(dev, as_array(dev.efficiency.step_decode_ms))
    parts = (*parts, head, *drafts_parts(dev, draft, settings, steps, sequences), fixed)
    if dev.relative is not None:
        parts = carried(parts, _decode(dev.relative, model, settings, steps, micro).parts)
    return summed(dev, model, steps, parts, micro, gained=settings.drafting.gain)


def drafts_parts(
    dev: Device, draft: Draft | None, settings: CostSettings, steps: Steps, sequences: Array
) -> tuple[Part, ...]:
    """What drafting takes after a pass, as one part; none where nothing is drafted, nor time where nothing is decoded.

    `steps.length`: cached tokens of a sequence.
    """
    if draft is None or not draft.tokens:
        return ()
    runs = [(1 + draft.tokens, 1), (1, draft.tokens - 1)]
    parts = [
        scaled(part, as_array(times * (sequences > 0)))
        for tokens, times in runs
        if times
        for part in _draft_run(dev, draft, settings, steps, sequences, tokens)
    ]
    figures = {name: sum(getattr(part, name) for part in parts) for name in PART_FIGURES}
    kernel = None if dev.kernels is None else measured(as_array(sum(part.ms for part in parts)))
    return (Part(name="drafts", **figures, kernel=kernel),)


def _draft_run(
    dev: Device, draft: Draft, settings: CostSettings, steps: Steps, sequences: Array, tokens: int
) -> tuple[Part, ...]:
    """The draft layer once, over so many tokens of each sequence, and its head for one of them."""
    layer, new, once = draft.layer, sequences * tokens, as_array(1.0)
    rates = replace(dev, weights=dev.fp16) if draft.own_head else dev  # EAGLE's are 16 bits
    work = attention.decode_work(layer, sequences=sequences, tokens=as_array(tokens), cached=steps.length, tp=steps.tp)
    alone = replace(steps, pp=once, ep=None)
    parts = common_parts(rates, layer, settings, alone, work, new=new, expanded=new, passes=once, micro=once)
    joining = draft.joining / steps.tp
    joined = ffn.gemm_part(
        "joining",
        dev,
        flops=2 * new * joining,
        rate=dev.fp16,
        rows=new,
        weight_bytes=joining * EMBEDDING_BYTES,
        micro_batches=once,
    )
    return (*parts, joined, ffn.head_part(dev, layer, tokens=sequences, tp=steps.tp))


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
    rate = dev.weights if expanding is None else expanding
    parts = [
        _projections_part(dev, model, work, tp=steps.tp, rows=new, expanded=expanded, loads=loads, expanding=rate),
        *(scores or (score_part("attention", dev, work),)),
        collectives.all_reduce_part(dev, model, tokens=new, tp=steps.tp, dp=steps.dp, micro_batches=loads),
        _small_kernels_part(dev, model, tokens=new, tp=steps.tp, loads=loads),
        ffn.dense_part(dev, model, tokens=new, tp=steps.tp, micro_batches=loads),
    ]
    if model.experts:
        tokens, devices = new / steps.tp, steps.devices
        experts_on_device = ceil_divide(model.experts.routed + settings.redundant_experts, devices)
        # Without groups every GPU does its part of every token: none is busier than another.
        imbalance = 1.0 if settings.balanced_experts else np.where(steps.dp > 1, dev.efficiency.imbalance, 1.0)
        parts.append(ffn.shared_part(dev, model, tokens=tokens, tp=steps.tp, dp=steps.dp, micro_batches=loads))
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
    *,
    tp: Array,
    rows: Array,
    expanded: Array,
    loads: Array,
    expanding: Array,
) -> Part:
    eff = dev.efficiency
    projections = ffn.gemm_part(
        "projections",
        dev,
        flops=2 * work.projection_macs,
        rate=dev.weights,
        rows=rows,
        weight_bytes=work.weight_bytes,
        micro_batches=loads,
    )
    expansion = 2 * work.expansion_macs
    reached = expanding * eff.gemm * saturation(expanded / loads, eff.gemm_half)
    kernel = None
    if dev.kernels is not None:
        kernel = attention.projections_ms(model, dev.kernels, rows=rows, tp=tp, loads=loads)
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


def scaled(part: Part, by: float | Array) -> Part:
    """A part with all its figures times `by`."""
    return Part(
        name=part.name,
        compute_ms=part.compute_ms * by,
        memory_ms=part.memory_ms * by,
        network_ms=part.network_ms * by,
        latency_ms=part.latency_ms * by,
        flops=part.flops * by,
        bytes=part.bytes * by,
        kernel=None if part.kernel is None else times_of(part.kernel, by),
    )


_OF_ALL_LAYERS = ("projections", "attention", "all-reduce", "small kernels")


_NODE = 8  # GPUs among which kernels of expert parallelism were measured


FORMULAS_SHARE = 0.3
"""Of the mean of logarithms of what kernels and what formulas say of a step; made by left-out errors of given runs."""


def _in_all(dev: Device, model: ModelSpec, ms: Mapping[str, Array], micro: Array) -> tuple[Array, Array]:
    """(all parts together without what is hidden, what is hidden): communication that computation hides."""
    communication = ms.get("dispatch", as_array(0.0)) + ms.get("combine", as_array(0.0))
    computing = model.moe_layers / model.layers * sum(ms[name] for name in _OF_ALL_LAYERS)
    for name in ("shared experts", "routed experts"):
        computing = computing + ms.get(name, as_array(0.0))
    hidden = np.where(micro > 1, dev.efficiency.overlap * np.minimum(computing, communication), 0.0)
    return as_array(sum(ms.values()) - hidden), hidden


def _narrow(parts: tuple[Part, ...], steps: Steps) -> tuple[Part, ...]:
    """The parts without measured kernels where experts are spread over more than a node: engines run other kernels
    there than those that were measured, and the formulas are nearer."""
    wide = (steps.dp > 1) & (steps.devices > _NODE)
    if not np.any(wide) or all(part.kernel is None for part in parts):
        return parts
    return tuple(part if part.kernel is None else replace(part, kernel=beyond(part.kernel, wide)) for part in parts)


def summed(
    dev: Device,
    model: ModelSpec,
    steps: Steps,
    parts: tuple[Part, ...],
    micro: Array,
    *,
    gained: float,
    waiting: Array | float = 1.0,
    pace: Array | None = None,
) -> StepCost:
    """The step of these parts: communication hidden where micro-batches overlap; stages, drafts and waiting counted."""
    parts = _narrow(parts, steps)
    unscaled_ms, hidden = _in_all(dev, model, {part.name: part.ms for part in parts}, micro)
    if pace is None:
        pace = dev.pace.at(steps.tp, steps.dp, steps.spread)
    if any(part.kernel is not None for part in parts):
        formula_ms, _ = _in_all(dev, model, {part.name: part.formula_ms for part in parts}, micro)
        # Kernels and formulas err apart from each other: the mean of both is nearer than either.
        pace = pace * np.power(unscaled_ms / formula_ms, FORMULAS_SHARE)
    scale = as_array(ceil_divide(model.layers, steps.pp) * steps.pp / model.layers / gained)
    return StepCost(
        parts=parts,
        hidden_ms=hidden,
        scale=scale,
        waiting=as_array(waiting),
        pace=as_array(pace),
        total_ms=as_array(unscaled_ms * scale * waiting / pace),
        overlapped=micro > 1,
    )
