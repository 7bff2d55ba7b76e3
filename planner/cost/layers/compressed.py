"""Attention over compressed tokens.

| symbol | meaning | unit |
|---|---|---|
| H, D | heads, width of a head | 1 |
| W, rho, k | window, tokens an entry, entries that an indexer chooses | tokens, tokens, 1 |
| e | entries of a context: s / rho | 1 |
| c | what a query sees: min(s, W) tokens, and all e entries, of an indexer min(e, k) | 1 |

scores = H/tp 2 D pairs; an indexer scores all entries, on every GPU. Heads are split over a group; KV, entries and
index keys are repeated. Prompts are taken in as decode reads: entries are never expanded.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np

from planner.cost.arrays import Array
from planner.cost.layers.seam import Decoded, Intake, LayerCost, LayerWork, causal_pairs
from planner.cost.measured import Products
from planner.domain.model import CompressedAttention
from planner.domain.model.compressed import OVERLAPPING, PAGE_TOKENS, page_bytes


def _weights(kind: CompressedAttention, hidden_size: int, tp: Array) -> Array:
    split = {"q_b_proj", "o_a_proj", "o_b_proj"}
    matrices = kind.matrices(hidden_size)
    repeated = sum(size for name, size in matrices.items() if name not in split)
    return np.asarray(repeated + (kind.parameters(hidden_size) - repeated) / tp)


def _entries(kind: CompressedAttention, tokens: Array) -> Array:
    return tokens / kind.ratio if kind.ratio else 0 * tokens


def _chosen(kind: CompressedAttention, entries: Array) -> Array:
    return np.minimum(entries, kind.index_top) if kind.index_heads else entries


def _prefill(kind: CompressedAttention, hidden_size: int, intake: Intake, tp: Array, kv_bytes: float) -> LayerWork:
    near = causal_pairs(new=intake.fresh, total=intake.prompt, window=kind.window)
    every = causal_pairs(new=intake.fresh, total=intake.prompt) / kind.ratio if kind.ratio else 0 * near
    seen = every
    if kind.index_heads:
        seen = causal_pairs(new=intake.fresh, total=intake.prompt, window=kind.index_top * kind.ratio) / kind.ratio
    index = every * kind.index_heads * kind.index_dim
    moved = intake.new + intake.expanded
    return LayerWork(
        projection_macs=intake.new * _weights(kind, hidden_size, tp),
        expansion_macs=0 * intake.expanded,
        score_macs=intake.prompts * (kind.heads / tp * 2 * kind.head_dim * (near + seen) + index),
        cache_bytes=moved * kind.cached_bytes_per_token(kv_bytes) + intake.new * kind.entry_bytes(kv_bytes),
    )


def _decode(kind: CompressedAttention, hidden_size: int, decoded: Decoded, tp: Array, kv_bytes: float) -> LayerWork:
    entries = _entries(kind, decoded.cached)
    seen = np.minimum(decoded.cached, kind.window) + _chosen(kind, entries)
    index = entries * kind.index_heads * kind.index_dim
    return LayerWork(
        projection_macs=decoded.new * _weights(kind, hidden_size, tp),
        expansion_macs=0 * decoded.new,
        score_macs=decoded.new * (kind.heads / tp * 2 * kind.head_dim * seen + index),
        cache_bytes=decoded.sequences * (seen * kind.entry_bytes(kv_bytes) + entries * kind.index_bytes),
    )


def _cached(kind: CompressedAttention, tokens: Array, tp: Array, kv_bytes: float) -> Array:
    window = np.minimum(tokens, kind.window) * kind.entry_bytes(kv_bytes)
    return np.asarray(window + tokens * kind.cached_bytes_per_token(kv_bytes) + kind.held_bytes + 0 * tp)


_WINDOW_BLOCK = 64  # tokens


def packed_bytes(kinds: Sequence[tuple[CompressedAttention, int]], length: Array, kv_bytes: float) -> Array:
    """What an engine sets aside for a sequence, of all such layers (bytes): a block has the entries of all of them, and
    so does one that windows, or what entries are made of, are in, which begin within one and end in another. So vLLM
    0.33 groups them (`_get_packed_kv_cache_groups`)."""
    block = PAGE_TOKENS * sum(count * kind.cached_bytes_per_token(kv_bytes) for kind, count in kinds)
    page = max(page_bytes(_WINDOW_BLOCK, kind.entry_bytes(kv_bytes), kv_bytes) for kind, _ in kinds)
    groups = ceil(sum(count for _, count in kinds) / max(1, block // page))
    blocks = groups * (ceil(max(kind.window for kind, _ in kinds) / _WINDOW_BLOCK) + 1)
    for ratio, tokens in {kind.ratio: kind.compressing for kind, _ in kinds if kind.ratio}.items():
        blocks += ceil(tokens / (4 if ratio == OVERLAPPING else 8)) + 1
    return np.asarray(block * (np.ceil(length / PAGE_TOKENS) + blocks))


def _products(kind: CompressedAttention, hidden_size: int, tp: Array) -> Products:
    """As one product over the hidden state: its matrices are narrow ones, one after another."""
    return ((_weights(kind, hidden_size, tp) / hidden_size, np.full(np.shape(tp), float(hidden_size))),)


COMPRESSED = LayerCost(
    weights=_weights,
    prefill=_prefill,
    decode=_decode,
    cached=_cached,
    products=_products,
)
