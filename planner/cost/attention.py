"""Attention: operations and bytes of all layers on one GPU of a group of tp, each kind by its formula.

| symbol | meaning | unit |
|---|---|---|
| d, H, G, D | hidden size, heads, KV heads, head dimension | 1 |
| r, q, rope, nope, v | MLA: KV rank, query rank, rotary, plain and value head dimensions | 1 |
| n | new tokens of the group in this step | tokens |
| w | tokens whose cache is read in prefill; MLA expands keys and values from it | tokens |
| pairs | pairs of query and key that the causal mask leaves | 1 |
| s, B | cached tokens of a sequence, sequences of the group | tokens, 1 |
| c | tokens that a windowed layer sees: min(s, window) | tokens |

FLOPs = 2 MACs. A prompt of s tokens of which the share h is cached: n = (1 - h) s queries over s keys,
pairs = n (s - (n - 1)/2). Under tensor parallelism heads are split; the latent projections of MLA are repeated.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from planner.cost.arrays import Array, as_array
from planner.domain import Attention, GroupedAttention, MlaAttention, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWork:
    """All layers on one GPU: multiply-adds of projections and scores, weights and cache read (bytes).

    `expansion_macs` (MLA prefill) are over the expanded tokens, `projection_macs` over the new ones.
    """

    projection_macs: Array
    expansion_macs: Array
    score_macs: Array
    weight_bytes: Array
    cache_bytes: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What a step takes in, in tokens: `new` ones of a group, `expanded` of the latent cache, and of `prompts` prompts
    of `prompt` tokens the last `fresh` each (a part of a prompt counts as a part)."""

    new: Array
    expanded: Array
    prompts: Array
    fresh: Array
    prompt: Array


def weights(model: ModelSpec, tp: Array) -> Array:
    """Attention weights of all layers on one GPU (elements)."""
    return as_array(sum(count * layer_weights(kind, model.hidden_size, tp) for kind, count in model.attentions))


def layer_weights(kind: Attention, hidden_size: int, tp: Array) -> Array:
    """Attention weights of one layer on one GPU (elements)."""
    if isinstance(kind, MlaAttention):
        repeated = hidden_size * (kind.query_rank + kind.kv_rank + kind.rope_dim)
        return repeated + (kind.parameters(hidden_size) - repeated) / tp
    # Over more GPUs than KV heads each head is repeated, not cut.
    kv = hidden_size * kind.kv_projections
    return (kind.parameters(hidden_size) - kv) / tp + kv / np.minimum(tp, kind.kv_heads)


def prefill_work(model: ModelSpec, intake: Intake, tp: Array) -> AttentionWork:
    """What all layers do with the tokens that a step takes in."""
    return _total(_layer_prefill(model, kind, intake, tp) for kind in model.attentions)


def _layer_prefill(model: ModelSpec, layers: tuple[Attention, int], intake: Intake, tp: Array) -> AttentionWork:
    (a, count), d, new, expanded = layers, model.hidden_size, intake.new, intake.expanded
    pairs = intake.prompts * causal_pairs(a, new=intake.fresh, total=intake.prompt)
    held = layer_weights(a, d, tp)
    if isinstance(a, MlaAttention):
        query = d * a.query_parameters_per_hidden + a.query_rank * a.heads * (a.nope_dim + a.rope_dim) / tp
        latent = d * (a.kv_rank + a.rope_dim)
        expand = a.kv_rank * a.heads * (a.nope_dim + a.value_dim) / tp
        projections, expansion = new * (query + latent + a.heads * a.value_dim * d / tp), expanded * expand
        scores = a.heads / tp * pairs * (a.nope_dim + a.rope_dim + a.value_dim)
    else:
        projections, expansion = new * held, 0 * expanded
        scores = a.heads / tp * pairs * (a.head_dim + a.value_width)
    return AttentionWork(
        projection_macs=count * projections,
        expansion_macs=count * expansion,
        score_macs=count * scores,
        weight_bytes=count * held * model.weight_bytes,
        cache_bytes=count * (new + expanded) * _cache_share(model, a, tp),  # written, and read by every chunk
    )


def decode_work(model: ModelSpec, *, sequences: Array, tokens: Array, cached: Array, tp: Array) -> AttentionWork:
    """`sequences` with `cached` tokens each, `tokens` new ones of each; MLA in absorbed form."""
    return _total(_layer_decode(model, kind, sequences, tokens, cached, tp) for kind in model.attentions)


def _layer_decode(
    model: ModelSpec, layers: tuple[Attention, int], sequences: Array, tokens: Array, cached: Array, tp: Array
) -> AttentionWork:
    (a, count), d, new = layers, model.hidden_size, sequences * tokens
    held = layer_weights(a, d, tp)
    if isinstance(a, MlaAttention):
        query = d * a.query_parameters_per_hidden + a.query_rank * a.heads * (a.nope_dim + a.rope_dim) / tp
        absorbed = a.heads * a.kv_rank * (a.nope_dim + a.value_dim) / tp
        macs = query + d * (a.kv_rank + a.rope_dim) + absorbed + a.heads * a.value_dim * d / tp
        projections, pair = new * macs, a.heads / tp * (2 * a.kv_rank + a.rope_dim)
    else:
        projections, pair = new * held, a.heads / tp * (a.head_dim + a.value_width)
    attended = seen(a, cached)
    return AttentionWork(
        projection_macs=count * projections,
        expansion_macs=0 * new,
        score_macs=count * new * attended * pair,
        weight_bytes=count * held * model.weight_bytes,
        cache_bytes=count * sequences * attended * _cache_share(model, a, tp),
    )


def _total(works: Iterable[AttentionWork]) -> AttentionWork:
    first, *others = works
    return AttentionWork(
        **{name: sum((getattr(work, name) for work in others), getattr(first, name)) for name in _FIGURES}
    )


_FIGURES = tuple(field.name for field in fields(AttentionWork))


def seen(kind: Attention, cached: Array) -> Array:
    """Tokens that a query sees of `cached` ones."""
    if isinstance(kind, GroupedAttention) and kind.window:
        return np.minimum(cached, kind.window)
    return cached


def causal_pairs(kind: Attention, *, new: Array, total: Array) -> Array:
    """Pairs of query and key of one prompt: its last `new` tokens ask, each sees all up to itself."""
    if isinstance(kind, GroupedAttention) and kind.window:
        past = total - new
        growing = np.clip(kind.window - past, 0, new)  # queries whose window is not full yet
        return np.asarray(growing * past + growing * (growing + 1) / 2 + (new - growing) * kind.window)
    return np.asarray(new * (total - (new - 1) / 2))


def _cache_share(model: ModelSpec, kind: Attention, tp: Array) -> Array:
    """Cache of one token and layer on one GPU (bytes)."""
    return kind.kv_width * model.kv_bytes / np.minimum(tp, kind.divisible_kv_heads)


def cache_bytes_per_sequence(model: ModelSpec, length: Array, tp: Array) -> Array:
    """Cache of one sequence of `length` tokens over all layers on one GPU of a group (bytes); windows are respected."""
    each = (count * seen(kind, length) * _cache_share(model, kind, tp) for kind, count in model.attentions)
    return as_array(sum(each))
