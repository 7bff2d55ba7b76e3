"""Grouped attention: heads, and the cache as far as there are KV heads, are split over a group.

| symbol | meaning | unit |
|---|---|---|
| H, G | heads, KV heads | 1 |
| D, V | width of a key head, of a value head | 1 |
| c | tokens that a query sees: s, with a window at most so many | tokens |

projections = n (weights on the GPU), scores = H/tp pairs (D + V), cache = c G (D + V) / min(tp, G).
Chunks are counted as windows of their length, which is what a token at the end of one sees: an upper bound.
"""

import numpy as np

from planner.cost.arrays import Array
from planner.cost.kernels import KernelTime, no_answer
from planner.cost.layers.seam import Decoded, Intake, LayerCost, LayerWork, causal_pairs
from planner.cost.measured import Kernels, Products, as_ones, of_prompts
from planner.domain import GroupedAttention


def _weights(kind: GroupedAttention, hidden_size: int, tp: Array) -> Array:
    # Over more GPUs than KV heads each head is repeated, not cut.
    kv = hidden_size * kind.kv_projections
    if kind.indexer is not None:  # index heads are few, and on every GPU
        index = hidden_size * kind.indexer.dim * (kind.indexer.heads + 1)
        return np.asarray(index + (kind.parameters(hidden_size) - kv - index) / tp + kv / np.minimum(tp, kind.kv_heads))
    return np.asarray((kind.parameters(hidden_size) - kv) / tp + kv / np.minimum(tp, kind.kv_heads))


def _token_bytes(kind: GroupedAttention, tp: Array, kv_bytes: float) -> Array:
    """Cache of one token on one GPU (bytes)."""
    return np.asarray(kind.kv_width * kv_bytes / np.minimum(tp, kind.divisible_kv_heads))


def seen_tokens(kind: GroupedAttention, cached: Array) -> Array:
    """Tokens that a query sees of `cached` ones."""
    width = _width(kind)
    return np.minimum(cached, width) if width else cached


def _width(kind: GroupedAttention) -> int:
    """Tokens that a query sees at most; 0: all."""
    return kind.indexer.tokens if kind.indexer is not None else kind.window


def _index_macs(kind: GroupedAttention, pairs: Array) -> Array:
    """Index scores of these pairs of query and token; every GPU has all index heads."""
    return pairs * kind.indexer.heads * kind.indexer.dim if kind.indexer is not None else 0 * pairs


def _index_bytes(kind: GroupedAttention) -> int:
    return kind.indexer.cached_bytes if kind.indexer is not None else 0


def _prefill(kind: GroupedAttention, hidden_size: int, intake: Intake, tp: Array, kv_bytes: float) -> LayerWork:
    pairs = intake.prompts * causal_pairs(new=intake.fresh, total=intake.prompt, window=_width(kind))
    every = intake.prompts * causal_pairs(new=intake.fresh, total=intake.prompt)
    return LayerWork(
        projection_macs=intake.new * _weights(kind, hidden_size, tp),
        expansion_macs=0 * intake.expanded,
        score_macs=kind.heads / tp * pairs * (kind.head_dim + kind.value_width) + _index_macs(kind, every),
        # written, and read by every chunk
        cache_bytes=(intake.new + intake.expanded) * (_token_bytes(kind, tp, kv_bytes) + _index_bytes(kind)),
    )


def _decode(kind: GroupedAttention, hidden_size: int, decoded: Decoded, tp: Array, kv_bytes: float) -> LayerWork:
    attended = seen_tokens(kind, decoded.cached)
    return LayerWork(
        projection_macs=decoded.new * _weights(kind, hidden_size, tp),
        expansion_macs=0 * decoded.new,
        score_macs=decoded.new * attended * (kind.heads / tp * (kind.head_dim + kind.value_width))
        + decoded.new * _index_macs(kind, decoded.cached),
        cache_bytes=decoded.sequences
        * (attended * _token_bytes(kind, tp, kv_bytes) + decoded.cached * _index_bytes(kind)),
    )


def _cached(kind: GroupedAttention, tokens: Array, tp: Array, kv_bytes: float) -> Array:
    # what an indexer leaves aside stays cached, what a window has passed does not
    held = np.minimum(tokens, kind.window) if kind.window else tokens
    return np.asarray(held * _token_bytes(kind, tp, kv_bytes) + tokens * _index_bytes(kind))


def _products(kind: GroupedAttention, hidden_size: int, tp: Array) -> Products:
    heads, out = _split(kind.heads, tp), kind.matrices(hidden_size)
    gate = out.get("q_proj", 0) / hidden_size / kind.heads  # columns a head, with a gate's
    values = 0 if kind.keys_are_values else kind.value_width
    columns = heads * gate + _split(kind.kv_heads, tp) * (kind.head_dim + values)
    hidden = np.full(np.shape(tp), float(hidden_size))
    return ((columns, hidden), (hidden, heads * kind.value_width))


def _split(heads: int, tp: Array) -> Array:
    """Heads on one GPU: more GPUs than heads repeat them."""
    return np.maximum(1.0, np.floor(heads / tp))


def _context(kind: GroupedAttention, kernels: Kernels, intake: Intake, tp: Array) -> KernelTime:
    heads, kv_heads = _split(kind.heads, tp), _split(kind.kv_heads, tp)
    if kind.indexer is not None:  # what chooses the blocks was not measured apart
        return no_answer(intake.prompts, intake.fresh, heads)
    prompt = kernels.tables.context_attention(
        as_ones(intake.prompts),
        as_ones(intake.fresh),
        heads,
        kv_heads,
        kind.head_dim,
        kernels.cache,
        _width(kind),
        intake.prompt - intake.fresh,
    )
    return of_prompts(prompt, intake.prompts)


def _generation(kind: GroupedAttention, kernels: Kernels, decoded: Decoded, tp: Array) -> KernelTime:
    if kind.indexer is not None:
        return no_answer(decoded.sequences, decoded.cached, tp)
    return kernels.tables.generation_attention(
        as_ones(decoded.sequences),
        as_ones(decoded.cached),
        _split(kind.heads, tp),
        _split(kind.kv_heads, tp),
        kind.head_dim,
        kernels.cache,
        _width(kind),
    )


GROUPED = LayerCost(
    weights=_weights,
    prefill=_prefill,
    decode=_decode,
    cached=_cached,
    products=_products,
    context=_context,
    generation=_generation,
)
