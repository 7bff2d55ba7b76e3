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

import numpy as np
from numpy.typing import ArrayLike

from planner.cost import attention, ffn
from planner.cost.arrays import Array, as_array, ceil_divide
from planner.cost.device import CostContext, Device, device
from planner.cost.drafts import draft_of, drafts_parts
from planner.cost.images import image_parts
from planner.cost.kernels import KernelTime
from planner.cost.layers import Intake
from planner.cost.parts import PART_FIGURES, Part, StepCost
from planner.cost.summing import summed
from planner.cost.walk import Steps, common_parts, fullest_rank, scheduling_part
from planner.domain import CostSettings, ModelSpec, Phase

__all__ = ["Steps", "step_cost", "step_ms"]


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
    of_phase, micro = _OF_PHASE[steps.phase], np.where(split, 2.0, 1.0)
    parts, relatives = (
        () if rates is None else of_phase(rates, context.model, context.settings, steps, micro)
        for rates in (dev, dev.relative)
    )
    prefill = steps.phase is Phase.PREFILL
    return summed(
        dev,
        context.model,
        steps,
        parts,
        micro,
        relatives=relatives,
        gained=1.0 if prefill else context.settings.drafting.gain,
        waiting=fullest_rank(dev, context.settings, steps.dp) if prefill else as_array(1.0),
        pace=(dev.pace.apart if prefill else dev.pace).at(steps.tp, steps.dp, steps.spread),
    )


def _faster(first: StepCost, other: StepCost) -> StepCost:
    """Step by step the faster of two ways."""
    better = other.total_ms < first.total_ms

    def pick(a: ArrayLike, b: ArrayLike) -> Array:
        return np.where(better, b, a)

    def pick_kernel(a: Part, b: Part) -> KernelTime | None:
        if a.kernel is None or b.kernel is None:
            return None
        plain, split = a.kernel, b.kernel
        return KernelTime(ms=pick(plain.ms, split.ms), basis_of=lambda: np.where(better, split.basis, plain.basis))

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


def _prefill(dev: Device, model: ModelSpec, settings: CostSettings, steps: Steps, micro: Array) -> tuple[Part, ...]:
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
    images = image_parts(dev, model, settings, prompts=new / s, length=s, tp=steps.tp, passes=passes)
    head = ffn.head_part(dev, model, tokens=steps.batch, tp=steps.tp)
    return (*parts, *images, head, scheduling_part(dev, passes * dev.efficiency.step_prefill_ms))


def _decode(dev: Device, model: ModelSpec, settings: CostSettings, steps: Steps, micro: Array) -> tuple[Part, ...]:
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
    drafts = drafts_parts(dev, draft, settings, steps, sequences)
    return (*parts, head, *drafts, scheduling_part(dev, as_array(dev.efficiency.step_decode_ms)))


_OF_PHASE = {Phase.PREFILL: _prefill, Phase.DECODE: _decode}
