"""What drafts tokens, in the shape that formulas take: layers that run behind the model, once for each drafted token.

| method | a layer that drafts | joins (weights, count) | head |
|---|---|---|---|
| mtp | as the model's last layer | the token's embedding and the hidden state: 2 d^2 | the model's own |
| eagle | a dense one, d wide, heads of 128, 8 of keys and values | 3 d^2 and d (heads + 16) 128 | its own |

EAGLE joins three hidden states into one, and makes queries, keys and values of the token's embedding, too.

What joins lies in 16 bits, as heads do. EAGLE-3's layers: github.com/SafeAILab/EAGLE, eagle/model/cnets.py.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from planner.cost import attention, ffn
from planner.cost.arrays import Array, as_array
from planner.cost.device import Device
from planner.cost.measured import measured
from planner.cost.parts import PART_FIGURES, Part, scaled
from planner.cost.walk import Steps, common_parts
from planner.domain import CostSettings, ModelSpec
from planner.domain.model import DenseFfn, GroupedAttention, LayerGroup
from planner.domain.model.spec import EMBEDDING_BYTES
from planner.domain.serving.speculation import DraftMethod, DraftModel, Speculation

_HEAD_DIM = 128
_KV_HEADS = 8
_USUAL_WIDENING = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """`tokens` drafted a step by `layer`, a model of one layer and a head, of which `copies` lie in memory, each with
    `joining` weights (count); `own_head`: the head lies beside the model's, and does not share it."""

    tokens: int
    layer: ModelSpec
    copies: int
    joining: int
    own_head: bool


def draft_of(model: ModelSpec, settings: CostSettings) -> Draft | None:
    """What drafts; None where nothing can. As long as the number of tokens is open they are 0: room alone is kept."""
    return _draft_of(model, settings.drafting) if settings.drafting.tokens != 0 else None


@lru_cache(maxsize=256)
def _draft_of(model: ModelSpec, drafting: Speculation) -> Draft:
    tokens, d = drafting.tokens or 0, model.hidden_size
    if drafting.method is DraftMethod.EAGLE and drafting.draft is not None:
        layer = _eagle_layer(model, drafting.draft)
        heads = layer.heads + 2 * _KV_HEADS
        return Draft(tokens=tokens, layer=layer, copies=1, joining=3 * d * d + d * heads * _HEAD_DIM, own_head=True)
    return Draft(tokens=tokens, layer=_own_layer(model), copies=model.mtp_layers, joining=2 * d * d, own_head=False)


def _own_layer(model: ModelSpec) -> ModelSpec:
    """The model's last kind of attention, and its experts where it has any."""
    last, _ = list(model.attentions)[-1]
    ffn = model.experts or list(model.dense_ffns)[-1][0]
    return _alone(model, LayerGroup(count=1, attention=last, ffn=ffn), model.vocab_size, model.weight_bytes)


def _eagle_layer(model: ModelSpec, draft: DraftModel) -> ModelSpec:
    heads = max(_KV_HEADS, model.hidden_size // _HEAD_DIM)
    size = draft.ffn_size or model.widest_dense_ffn or _USUAL_WIDENING * model.hidden_size
    layer = LayerGroup(
        count=1,
        attention=GroupedAttention(heads=heads, kv_heads=_KV_HEADS, head_dim=_HEAD_DIM),
        ffn=DenseFfn(size=size),
    )
    return _alone(model, layer, draft.vocab_size, EMBEDDING_BYTES)


def _alone(model: ModelSpec, layer: LayerGroup, vocab_size: int, weight_bytes: float) -> ModelSpec:
    """A model of the layer alone."""
    return ModelSpec(
        name=f"draft of {model.name}",
        uri=model.uri,
        hidden_size=model.hidden_size,
        groups=(layer,),
        vocab_size=vocab_size,
        max_context=model.max_context,
        weight_bytes=weight_bytes,
        expert_bytes=model.expert_bytes,
        shared_bytes=model.shared_bytes,
        kv_bytes=model.kv_bytes,
    )


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
