"""Latent attention, of all tokens or of those that an indexer chooses.

| symbol | meaning | unit |
|---|---|---|
| H, r, q, rope, nope, v | heads, KV rank, query rank, rotary, plain and value head dimensions | 1 |
| I, i, k | index heads, their width, tokens that they choose | 1, 1, tokens |
| c | tokens that a query attends to: s, with an indexer min(s, k) | tokens |

Heads are split over a group; the latent projections, the cache and the index keys are repeated. Prompts are taken in
with keys and values expanded from the cache; decode keeps them compressed (absorbed form), and so does the intake of
prompts longer than what an indexer chooses, as kernels of sparse attention do.
index scores = I i pairs; they run at the rate of FP8, which is not looked at: they count as scores.
"""

from typing import Any

import numpy as np

from planner.cost.arrays import Array
from planner.cost.kernels import KernelTime, no_answer
from planner.cost.layers.seam import Decoded, Intake, LayerCost, LayerWork, causal_pairs, share_of_pairs
from planner.cost.measured import Kernels, Products, as_ones, of_prompts, times_of
from planner.domain import MlaAttention


def _weights(kind: MlaAttention, hidden_size: int, tp: Array) -> Array:
    matrices = kind.matrices(hidden_size)
    index = sum(size for name, size in matrices.items() if name.startswith("indexer."))
    repeated = hidden_size * (kind.query_rank + kind.kv_rank + kind.rope_dim) + index
    return np.asarray(repeated + (kind.parameters(hidden_size) - repeated) / tp)


def _projected(kind: MlaAttention, hidden_size: int, tp: Array) -> tuple[Array, Array]:
    """MACs of a token: queries with the indexer's, and what is written to the cache; output with its gate."""
    a, d = kind, hidden_size
    query = d * a.query_parameters_per_hidden + a.query_rank * a.heads * (a.nope_dim + a.rope_dim) / tp
    if a.indexer is not None:
        query = query + sum(a.indexer.matrices(d, a.query_rank).values())
    outputs = a.heads * a.value_dim + a.gate_width
    return np.asarray(query + d * (a.kv_rank + a.rope_dim)), np.asarray(outputs * d / tp)


def _absorbed(kind: MlaAttention, tp: Array) -> Array:
    """MACs of a token that brings queries and results into the latent space and back."""
    return np.asarray(kind.heads * kind.kv_rank * (kind.nope_dim + kind.value_dim) / tp)


def _index_macs(kind: MlaAttention, pairs: Array) -> Array:
    """Each GPU scores all tokens."""
    index = kind.indexer
    return pairs * index.heads * index.dim if index is not None and index.own else 0 * pairs


def _index_bytes(kind: MlaAttention) -> int:
    return 0 if kind.indexer is None else kind.indexer.cached_bytes


def _prefill(kind: MlaAttention, hidden_size: int, intake: Intake, tp: Array, kv_bytes: float) -> LayerWork:
    a, moved = kind, intake.new + intake.expanded
    into, out = _projected(kind, hidden_size, tp)
    pairs = intake.prompts * causal_pairs(new=intake.fresh, total=intake.prompt)
    scores = a.heads / tp * pairs * (a.nope_dim + a.rope_dim + a.value_dim)
    expansion = intake.expanded * (a.kv_rank * a.heads * (a.nope_dim + a.value_dim) / tp)
    projections = intake.new * (into + out)
    if a.indexer is not None:
        sparse = intake.prompt > a.indexer.top
        chosen = intake.prompts * causal_pairs(new=intake.fresh, total=intake.prompt, window=a.indexer.top)
        scores = np.where(sparse, a.heads / tp * chosen * (2 * a.kv_rank + a.rope_dim), scores)
        scores = scores + np.where(sparse, _index_macs(a, pairs), 0.0)
        projections = projections + np.where(sparse, intake.new * _absorbed(a, tp), 0.0)
        expansion = np.where(sparse, 0.0, expansion)
    return LayerWork(
        projection_macs=projections,
        expansion_macs=expansion,
        score_macs=scores,
        cache_bytes=moved * (a.entry_bytes(kv_bytes) + _index_bytes(a)),  # written, and read by every chunk
    )


def _attended(kind: MlaAttention, cached: Array) -> Array:
    return cached if kind.indexer is None else np.minimum(cached, kind.indexer.top)


def _decode(kind: MlaAttention, hidden_size: int, decoded: Decoded, tp: Array, kv_bytes: float) -> LayerWork:
    a, attended = kind, _attended(kind, decoded.cached)
    into, out = _projected(kind, hidden_size, tp)
    index = decoded.new * _index_macs(a, decoded.cached)
    return LayerWork(
        projection_macs=decoded.new * (into + _absorbed(a, tp) + out),
        expansion_macs=0 * decoded.new,
        score_macs=decoded.new * attended * (a.heads / tp * (2 * a.kv_rank + a.rope_dim)) + index,
        cache_bytes=decoded.sequences * (attended * a.entry_bytes(kv_bytes) + decoded.cached * _index_bytes(a)),
    )


def _cached(kind: MlaAttention, tokens: Array, tp: Array, kv_bytes: float) -> Array:
    return np.asarray(tokens * (kind.entry_bytes(kv_bytes) + _index_bytes(kind)) + 0 * tp)


_SPARSE = "zai-org/GLM-5"


def _module(kind: MlaAttention, kernels: Kernels, *sizes: Array) -> tuple[Any, ...]:
    """Which module tables are asked for."""
    sort, model = ("mla", "") if kind.indexer is None else ("dsa", _SPARSE)
    # Measured in these formats alone.
    form = "bfloat16" if kernels.weights == "bfloat16" else "fp8_block"
    return (sort, *sizes, form, kernels.cache, model)


def _with_projections(kind: MlaAttention, kernels: Kernels) -> bool:
    """Sparse attention is measured with its projections and its indexer, where it is."""
    return kind.indexer is not None and kernels.tables.has_module("dsa")


def _products(kind: MlaAttention, hidden_size: int, tp: Array) -> Products:
    a, heads = kind, np.maximum(1.0, np.floor(kind.heads / tp))
    hidden = np.full(np.shape(tp), float(hidden_size))
    written = np.full(np.shape(tp), float(a.kv_rank + a.rope_dim))
    query = heads * (a.nope_dim + a.rope_dim)
    into = ((written + a.query_rank, hidden), (query, np.full(np.shape(tp), float(a.query_rank))))
    first = into if a.query_rank else ((written + query, hidden),)
    return (
        *first,
        (heads * (a.nope_dim + a.value_dim), np.full(np.shape(tp), float(a.kv_rank))),
        (hidden, heads * a.value_dim + a.gate_width / tp),
    )


def _context(kind: MlaAttention, kernels: Kernels, intake: Intake, tp: Array) -> KernelTime:
    heads, prompts = np.maximum(1.0, np.floor(kind.heads / tp)), as_ones(intake.prompts)
    if _with_projections(kind, kernels):
        prompt = kernels.tables.context_module(*_module(kind, kernels, prompts, intake.prompt, heads))
    elif kind.indexer is not None:
        prompt = no_answer(prompts, intake.prompt, heads)
    else:
        prompt = kernels.latent.context_mla(prompts, intake.prompt, heads, kernels.cache)
    return of_prompts(times_of(prompt, share_of_pairs(intake)), intake.prompts)


def _generation(kind: MlaAttention, kernels: Kernels, decoded: Decoded, tp: Array) -> KernelTime:
    heads = np.maximum(1.0, np.floor(kind.heads / tp))
    sequences, cached = as_ones(decoded.sequences), as_ones(decoded.cached)
    if _with_projections(kind, kernels):
        return kernels.tables.generation_module(*_module(kind, kernels, sequences, cached, heads))
    if kind.indexer is not None:
        return no_answer(sequences, cached, heads)
    return kernels.latent.generation_mla(sequences, cached, heads, kernels.cache)


LATENT = LayerCost(
    weights=_weights,
    prefill=_prefill,
    decode=_decode,
    cached=_cached,
    products=_products,
    context=_context,
    generation=_generation,
    with_projections=_with_projections,
    alignment=128,
)
