"""One pass that carries running sequences and a chunk of a prompt: the step of aggregated serving.

| symbol | meaning | unit |
|---|---|---|
| b | sequences of an attention group, each with its next token (with drafts: its verified ones) | 1 |
| c | prompt tokens that the group takes in with the same pass | tokens |
| L, h | length of the prompts that the chunk is cut from, share of it that the prefix cache holds | tokens, 1 |
| n | tokens of the pass: b v + c, v tokens verified a sequence | tokens |
| k | kernels' share: k(prefill) and k(decode), each by its tokens: n / (c / k_p + b v / k_d) | 1 |
| D, g | mean answer; tokens of it that a pass yields a sequence (1 without drafts) | tokens |
| q | prompts that begin a pass: b g / D | 1 |
| f | passes that take a chunk in, for each pass of the sequences: q L (1 - h) / c | 1 |
| T(b), T(c), T(b, c) | a pass with sequences, with a chunk, with both | ms |

Products over weights and experts see all n tokens at once; attention of the chunk and of the sequences add up.
In steady state prompts are taken in by chunks of c = min(budget, L (1 - h) max(1, q)). Half of the engines' steps mix
both, half take prompts in apart: a pass of the sequences, with what comes before the next one, takes
T = T(b) + f (T(c) + T(b, c) - T(b)) / 2.
With b = 0 the pass is a prefill step, with c = 0 a decode pass, both in one micro-batch. Where k(decode) is far below
k(prefill), a short chunk fills up the products of few sequences, and the pass may be a little shorter than without it;
so may one with more sequences where prompts are spread unevenly over the ranks, as their share of the tokens falls.
Source: facts on aggregated serving (chunked prefill as in vLLM, SGLang and TensorRT-LLM) and on the fit of the cost
model (half of the steps).

`explain_mixed` takes a pass apart: sequences in answer, and a chunk of prompts with them.
"""

from dataclasses import dataclass, replace

import numpy as np

from planner.cost import attention, ffn, memory
from planner.cost.arguments import require_at_least
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.attention import AttentionWork
from planner.cost.device import CostContext, Device, device
from planner.cost.drafts import draft_of, drafts_parts
from planner.cost.explanation import checked_step, explained_pass, require_length
from planner.cost.images import image_parts
from planner.cost.layers import Intake
from planner.cost.limits import limits, lossless
from planner.cost.measured import Kernels
from planner.cost.parts import Part, StepCost
from planner.cost.prefix_hits import shape_hits
from planner.cost.summing import summed
from planner.cost.walk import Steps, common_parts, fullest_rank, scheduling_part, score_part
from planner.domain import PHASES, CostSettings, GpuSpec, ModelSpec, ParallelConfig, Phase, StepExplanation
from planner.errors import InfeasibleError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """What passes are asked for: arrays that broadcast.

    `sequences` of an attention group with `cached` tokens each (b), `chunk` tokens of prompts of `prompt` tokens (c),
    of which the prefix cache holds the share `hit`. `ep`: see `Steps`.
    """

    tp: Array
    dp: Array
    sequences: Array
    cached: Array
    chunk: Array
    prompt: Array
    hit: Numbers = 0.0
    ep: Numbers | None = None

    @property
    def fresh(self) -> Array:
        """Tokens of a prompt that are not in the prefix cache."""
        return np.asarray(self.prompt * (1 - as_array(self.hit)))


def intake(sequences: Array, fresh: Array, answer: Array, gain: Numbers, budget: Numbers) -> tuple[Array, Array]:
    """(c, f): tokens of a chunk, passes that take one in for each pass of the sequences. Arrays broadcast."""
    begun = sequences * as_array(gain) / answer
    chunk = np.minimum(as_array(budget), fresh * np.maximum(1.0, begun))
    return chunk, np.asarray(begun * fresh / chunk)


def added_ms(decode_ms: Array, prefill_ms: Array, mixed_ms: Array) -> Array:
    """What a chunk adds to the passes: taken in apart, or mixed with the sequences, half of them each."""
    return np.asarray((prefill_ms + np.maximum(mixed_ms - decode_ms, 0.0)) / 2)


def mixed_cost(context: CostContext, passes: Passes) -> StepCost:
    """The parts of one pass (ms); `total_ms` is the pass, whatever it gains with drafts."""
    plain = np.array(False)
    by_phase = {
        phase: device(context.gpu, context.model, phase, context.settings, overlapped=plain) for phase in PHASES
    }
    return pass_cost(by_phase[Phase.PREFILL], by_phase[Phase.DECODE], context.model, context.settings, passes)


def pass_cost(prefill: Device, decode: Device, model: ModelSpec, settings: CostSettings, passes: Passes) -> StepCost:
    """`mixed_cost` on given devices."""
    p, single = passes, as_array(1.0)
    decoded = p.sequences * (1 + settings.drafting.drafted)
    n = decoded + p.chunk
    blend = _blended(prefill, decode, p.chunk / n, decoded / n)
    steps = Steps(phase=blend.phase, tp=p.tp, dp=p.dp, pp=single, length=p.prompt, batch=p.sequences, ep=p.ep)
    parts = _parts(blend, prefill, decode, model, settings, steps, passes)
    relatives: tuple[Part, ...] = ()
    if prefill.relative is not None and decode.relative is not None:
        first, other = prefill.relative, decode.relative
        rates = _blended(first, other, p.chunk / n, decoded / n)
        relatives = _parts(rates, first, other, model, settings, steps, passes)
    # Only prompts lie unevenly over the ranks.
    waiting = 1 + (fullest_rank(prefill, settings, p.dp) - 1) * p.chunk / n
    pace = decode.pace.at(p.tp, p.dp, steps.spread)
    return summed(blend, model, steps, parts, single, relatives=relatives, gained=1.0, waiting=waiting, pace=pace)


def _parts(
    blend: Device,
    prefill: Device,
    decode: Device,
    model: ModelSpec,
    settings: CostSettings,
    steps: Steps,
    passes: Passes,
) -> tuple[Part, ...]:
    """Of a pass: products at the blended rates of both phases, what is of one alone at its own."""
    p, single, verified = passes, as_array(1.0), 1 + settings.drafting.drafted
    decoded = p.sequences * verified
    of_chunk, of_sequences = _work(model, passes, verified, prefill.kernels)
    # Weights are read once for both; the caches of sequences are in their scores' part.
    both = replace(of_chunk, projection_macs=of_chunk.projection_macs + of_sequences.projection_macs)
    scores = (
        score_part("attention", prefill, of_chunk),
        score_part("attention of sequences", decode, of_sequences),
    )
    parts = common_parts(
        blend,
        model,
        settings,
        steps,
        both,
        scores=scores,
        new=decoded + p.chunk,
        expanded=_expanded(passes),
        passes=single,
        micro=single,
        expanding=prefill.weights,
    )
    # Drafts are of the sequences alone.
    of_drafts = replace(steps, length=p.cached)
    drafts = drafts_parts(decode, draft_of(model, settings), settings, of_drafts, p.sequences)
    head = ffn.head_part(blend, model, tokens=decoded + p.chunk / p.fresh, tp=p.tp)
    fixed = scheduling_part(
        decode, np.where(p.chunk > 0, prefill.efficiency.step_prefill_ms, decode.efficiency.step_decode_ms)
    )
    images = image_parts(prefill, model, settings, prompts=p.chunk / p.prompt, length=p.prompt, tp=p.tp, passes=single)
    return (*parts, *images, head, *drafts, fixed)


def _work(
    model: ModelSpec, passes: Passes, verified: int, kernels: Kernels | None
) -> tuple[AttentionWork, AttentionWork]:
    """Of the chunk and of the sequences. Of a prompt in several chunks the mean one counts."""
    p = passes
    intake = Intake(new=p.chunk, expanded=_expanded(p), prompts=p.chunk / p.fresh, fresh=p.fresh, prompt=p.prompt)
    of_chunk = attention.prefill_work(model, intake, p.tp, kernels)
    of_sequences = attention.decode_work(
        model, sequences=p.sequences, tokens=as_array(verified), cached=p.cached, tp=p.tp, kernels=kernels
    )
    return of_chunk, of_sequences


def _expanded(passes: Passes) -> Array:
    """Tokens whose keys and values the chunk reads: its own, those of its prompt's chunks before it, and those that the
    prefix cache holds of the prompt."""
    fresh = passes.fresh
    chunks = np.maximum(1.0, fresh / np.maximum(passes.chunk, 1.0))
    before = chunks * (passes.prompt - fresh) / fresh
    return np.asarray(passes.chunk * (before + (chunks + 1) / 2))


def _blended(prefill: Device, decode: Device, chunk_share: Array, sequence_share: Array) -> Device:
    """Rates of arithmetic and of the NIC by the tokens of both kinds, and what each sends; the rest is common."""

    def blend(first: Array, other: Array) -> Array:
        return np.asarray(1 / (chunk_share / first + sequence_share / other))

    return replace(
        decode,
        fp16=blend(prefill.fp16, decode.fp16),
        weights=blend(prefill.weights, decode.weights),
        experts=blend(prefill.experts, decode.experts),
        shared=blend(prefill.shared, decode.shared),
        nic=blend(as_array(prefill.nic), as_array(decode.nic)),
        fans_out=chunk_share,
    )


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
    fresh = max(1, round(of_prompt * float(1 - as_array(shape_hits(context, of_prompt, config, Phase.MIXED)))))
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
    draft = draft_of(model, settings)
    free = memory.free_gb(
        context.gpu,
        model,
        tp=tp,
        experts_on_device=memory.experts_on_device(model, settings, config.stage_devices),
        draft=draft,
    )
    # A prompt that is taken in by parts keeps the cache of all of it.
    prompts = max(1.0, chunk / prompt)
    cached = memory.cache_gb(model, length=prompt, batch=prompts, tp=tp, draft=draft)
    of_prompts = cached + memory.activation_gb(model, chunk, tp)
    each = memory.cache_gb(model, length=length, batch=1, tp=tp, draft=draft)
    each = each + memory.activation_gb(model, 1 + settings.drafting.drafted, tp)
    return int(np.floor((free - of_prompts) / each))


def _explained(
    context: CostContext, config: ParallelConfig, length: int, batch: int, chunk: int, prompt: int
) -> StepExplanation:
    model, settings = context.model, context.settings
    passes = Passes(
        tp=as_array(config.tp),
        dp=as_array(config.dp),
        sequences=as_array(batch),
        cached=as_array(length),
        chunk=as_array(chunk),
        prompt=as_array(prompt),
        hit=shape_hits(context, prompt, config, Phase.MIXED),
    )
    of_prompts = memory.cache_gb(model, length=prompt, batch=max(1.0, chunk / prompt), tp=config.tp)
    explained = explained_pass(
        context,
        config,
        mixed_cost(context, passes),
        limits(context, mixed_cost(lossless(context), passes), passes.tp, passes.dp),
        phase=Phase.MIXED,
        length=length,
        batch=batch,
        tokens=chunk + batch * settings.drafting.gain,
        cache_gb=float(of_prompts + memory.cache_gb(model, length=length, batch=batch, tp=config.tp)),
    )
    return replace(explained, chunk=chunk, prompt=prompt)
