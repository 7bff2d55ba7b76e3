"""Attention: operations and bytes of one layer on one GPU of a group of tp.

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

from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array
from planner.domain import GroupedAttention, MlaAttention, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWork:
    """One layer on one GPU: multiply-adds of projections and scores, weights and cache read (bytes).

    `expansion_macs` (MLA prefill) are over the expanded tokens, `projection_macs` over the new ones.
    """

    projection_macs: Array
    expansion_macs: Array
    score_macs: Array
    weight_bytes: Array
    cache_bytes: Array


def weights(model: ModelSpec, tp: Array) -> Array:
    """Attention weights of one layer on one GPU (elements)."""
    a, d = model.attention, model.hidden_size
    if isinstance(a, MlaAttention):
        repeated = d * (a.query_rank + a.kv_rank + a.rope_dim)
        return repeated + (model.attention_parameters - repeated) / tp
    # Over more GPUs than KV heads each head is repeated, not cut.
    kv = 2 * d * a.kv_heads * a.head_dim
    return (model.attention_parameters - kv) / tp + kv / np.minimum(tp, a.kv_heads)


def prefill_work(model: ModelSpec, *, new: Array, expanded: Array, pairs: Array, tp: Array) -> AttentionWork:
    """`new` tokens of a group, `expanded` of the latent cache, `pairs` of query and key (all layers alike)."""
    a, d = model.attention, model.hidden_size
    if isinstance(a, MlaAttention):
        query = d * a.query_parameters_per_hidden + a.query_rank * a.heads * (a.nope_dim + a.rope_dim) / tp
        latent = d * (a.kv_rank + a.rope_dim)
        expand = a.kv_rank * a.heads * (a.nope_dim + a.value_dim) / tp
        projections, expansion = new * (query + latent + a.heads * a.value_dim * d / tp), expanded * expand
        scores = a.heads / tp * pairs * (a.nope_dim + a.rope_dim + a.value_dim)
    else:
        projections, expansion = new * weights(model, tp), 0 * expanded
        scores = a.heads / tp * pairs * 2 * a.head_dim
    return AttentionWork(
        projection_macs=projections,
        expansion_macs=expansion,
        score_macs=scores,
        weight_bytes=weights(model, tp) * model.weight_bytes,
        cache_bytes=(new + expanded) * _cache_share(model, tp),  # written, and read by every chunk
    )


def decode_work(model: ModelSpec, *, sequences: Array, tokens: Array, cached: Array, tp: Array) -> AttentionWork:
    """`sequences` with `cached` tokens each, `tokens` new ones of each; MLA in absorbed form."""
    a, d = model.attention, model.hidden_size
    new = sequences * tokens
    if isinstance(a, MlaAttention):
        query = d * a.query_parameters_per_hidden + a.query_rank * a.heads * (a.nope_dim + a.rope_dim) / tp
        absorbed = a.heads * a.kv_rank * (a.nope_dim + a.value_dim) / tp
        macs = query + d * (a.kv_rank + a.rope_dim) + absorbed + a.heads * a.value_dim * d / tp
        projections, pair = new * macs, a.heads / tp * (2 * a.kv_rank + a.rope_dim)
    else:
        projections, pair = new * weights(model, tp), a.heads / tp * 2 * a.head_dim
    attended = mean_seen(model, cached)
    return AttentionWork(
        projection_macs=projections,
        expansion_macs=0 * new,
        score_macs=new * attended * pair,
        weight_bytes=weights(model, tp) * model.weight_bytes,
        cache_bytes=sequences * attended * _cache_share(model, tp),
    )


def mean_seen(model: ModelSpec, cached: Array) -> Array:
    """Tokens that a query sees of `cached` ones, mean over layers."""
    a = model.attention
    if isinstance(a, GroupedAttention) and a.windowed_layers:
        share = a.windowed_layers / model.layers
        return (1 - share) * cached + share * np.minimum(cached, a.window)
    return cached


def causal_pairs(model: ModelSpec, *, new: Array, total: Array) -> Array:
    """Pairs of query and key of one prompt (layers' mean): its last `new` tokens ask, each sees all up to itself."""
    full = new * (total - (new - 1) / 2)
    a = model.attention
    if isinstance(a, GroupedAttention) and a.windowed_layers:
        share = a.windowed_layers / model.layers
        past = total - new
        growing = np.clip(a.window - past, 0, new)  # queries whose window is not full yet
        windowed = growing * past + growing * (growing + 1) / 2 + (new - growing) * a.window
        return (1 - share) * full + share * windowed
    return full


def _cache_share(model: ModelSpec, tp: Array) -> Array:
    """Cache of one token and layer on one GPU (bytes)."""
    a = model.attention
    return a.kv_width * model.kv_bytes / np.minimum(tp, a.divisible_kv_heads)


def cache_bytes_per_sequence(model: ModelSpec, length: Array, tp: Array) -> Array:
    """Cache of one sequence of `length` tokens over all layers on one GPU of a group (bytes); windows are respected."""
    return model.layers * mean_seen(model, length) * _cache_share(model, tp)
