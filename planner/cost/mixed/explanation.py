"""A mixed pass taken apart: sequences in answer, and a chunk of prompts with them."""

from dataclasses import replace

import numpy as np

from planner.cost import memory
from planner.cost.arguments import require_at_least
from planner.cost.arrays import as_array
from planner.cost.device import CostContext
from planner.cost.efficiency import origin_of
from planner.cost.explanation import checked_step, explained_pass, require_length
from planner.cost.mixed.passes import Passes, mixed_cost
from planner.cost.prefix_hits import shape_hits
from planner.domain import PHASES, CostSettings, GpuSpec, ModelSpec, Origin, ParallelConfig, Phase, StepExplanation
from planner.errors import InfeasibleError, InputError

LARGEST_BATCH = 1024


def explain_mixed(
    gpu: GpuSpec | str,
    model: ModelSpec | str,
    *,
    tp: int,
    devices: int,
    length: int,
    chunk: int | None = None,
    prompt: int | None = None,
    batch: int | None = None,
    settings: CostSettings | None = None,
) -> StepExplanation:
    """One pass of a replica of `devices` GPUs without stages, part by part, with no overlap.

    `batch` sequences of an attention group with `length` tokens in the cache (default: as many as fit beside the
    chunk), `chunk` tokens of prompts of `prompt` tokens (default: `length`) that each rank takes in (default: a prompt,
    or what the budget of a step holds of it). Raises InputError on what the GPU or the model cannot have and on more
    tokens than a step may have, InfeasibleError where weights, caches and buffers do not fit.
    """
    context, config = checked_step(gpu, model, tp=tp, devices=devices, pp=1, length=length, settings=settings)
    budget = context.settings.max_tokens_per_step
    of_prompt = length if prompt is None else prompt
    require_length(context.model, of_prompt, "prompt")
    fresh = max(1, round(of_prompt * float(1 - as_array(shape_hits(context, of_prompt, config)))))
    taken_in = min(fresh, budget) if chunk is None else chunk
    require_at_least(taken_in, 1, "chunk")
    if taken_in > budget:
        raise InputError(
            f"chunk: must be at most {budget}, the token budget of a step, got {taken_in}.",
            hint="Lower it, or raise cost.max_tokens_per_step.",
        )
    batch_limit = _most_sequences(context, config, length, taken_in, of_prompt)
    if batch_limit < (batch or 1):
        needed = f"{batch or 1} sequences of {length} tokens and a chunk of {taken_in}"
        raise InfeasibleError(
            f"{context.model.name}: {needed} must fit on {devices} {context.gpu.name} (tp {tp}): memory holds "
            f"{max(0, batch_limit)} sequences.",
            hint="Use more GPUs, fewer or shorter sequences, a smaller chunk, or a GPU with more memory.",
        )
    return _explained(
        context, config, length, min(batch_limit, LARGEST_BATCH) if batch is None else batch, taken_in, of_prompt
    )


def _most_sequences(context: CostContext, config: ParallelConfig, length: int, chunk: int, prompt: int) -> int:
    """What memory holds beside the prompts that are taken in, and the buffers of the chunk."""
    model, settings, tp = context.model, context.settings, config.tp
    free = memory.free_gb(
        context.gpu,
        model,
        tp=tp,
        experts_on_device=memory.experts_on_device(model, settings, config.stage_devices),
        drafts=settings.mtp_tokens > 0,
    )
    # A prompt that is taken in by parts keeps the cache of all of it.
    prompts = max(1.0, chunk / prompt)
    of_prompts = memory.cache_gb(model, length=prompt, batch=prompts, tp=tp) + memory.activation_gb(model, chunk, tp)
    each = memory.cache_gb(model, length=length, batch=1, tp=tp) + memory.activation_gb(
        model, 1 + settings.mtp_tokens, tp
    )
    return int(np.floor((free - of_prompts) / each))


def _explained(
    context: CostContext, config: ParallelConfig, length: int, batch: int, chunk: int, prompt: int
) -> StepExplanation:
    model, settings = context.model, context.settings
    cost = mixed_cost(
        context,
        Passes(
            tp=as_array(config.tp),
            dp=as_array(config.dp),
            sequences=as_array(batch),
            cached=as_array(length),
            chunk=as_array(chunk),
            prompt=as_array(prompt),
            hit=shape_hits(context, prompt, config),
        ),
    )
    gained = sum(settings.mtp_acceptance**k for k in range(1 + settings.mtp_tokens))
    of_prompts = memory.cache_gb(model, length=prompt, batch=max(1.0, chunk / prompt), tp=config.tp)
    explained = explained_pass(
        context,
        config,
        cost,
        phase=Phase.MIXED,
        length=length,
        batch=batch,
        tokens=chunk + batch * gained,
        cache_gb=float(of_prompts + memory.cache_gb(model, length=length, batch=batch, tp=config.tp)),
        origin=_weaker_origin(context),
    )
    return replace(explained, chunk=chunk, prompt=prompt)


def _weaker_origin(context: CostContext) -> tuple[Origin, str]:
    """Of the estimates of both phases, which the pass has parts of, the one that is less firm."""
    both = [origin_of(context.gpu, context.model, phase, context.settings.calibration) for phase in PHASES]
    return max(both, key=lambda pair: tuple(Origin).index(pair[0]))
