"""Layers with a state of constant size: linear attention and Mamba2.

| symbol | meaning | unit |
|---|---|---|
| V, k, v | value heads (of Mamba2 heads), widths of a key (state) and of a value (channels of a head) | 1 |
| C | tokens of a chunk in which prompts are taken in | tokens |
| S | state of a sequence (bytes) | bytes |

A pass of decode updates and reads the state: 2 V k v MACs a token, and moves it in and out of memory: 2 S a sequence.
Prompts go chunk by chunk: beside 2 V k v MACs a token the chunk's own pairs, V C (k + v) / 2, and the state moves once
a chunk. Heads, and the state with them, are split over a group; what a query sees does not grow with the context.
Source: chunked forms of Yang et al., arXiv:2406.06484 and 2412.06464, and of Dao and Gu, arXiv:2405.21060.
"""

from dataclasses import replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.kernels import KernelTime
from planner.cost.kernels.grid import no_answer
from planner.cost.layers.seam import Decoded, Intake, LayerCost, LayerWork
from planner.cost.measured import Kernels, Products, as_ones, of_prompts
from planner.domain.model import LinearAttention, Mamba2

CHUNK = 64
_Recurrent = LinearAttention | Mamba2


def _weights(kind: _Recurrent, hidden_size: int, tp: Array) -> Array:
    return np.asarray(kind.parameters(hidden_size) / tp)


def _shape(kind: _Recurrent) -> tuple[int, int, int]:
    """(V, k, v)."""
    if isinstance(kind, Mamba2):
        return kind.heads, kind.state, kind.head_dim
    return kind.value_heads, kind.key_dim, kind.value_dim


def _prefill(kind: _Recurrent, hidden_size: int, intake: Intake, tp: Array, kv_bytes: float) -> LayerWork:  # noqa: ARG001 - the seam's
    heads, key, value = _shape(kind)
    chunks = intake.new / CHUNK + intake.prompts  # of every prompt the last one is begun
    return LayerWork(
        projection_macs=intake.new * _weights(kind, hidden_size, tp),
        expansion_macs=0 * intake.expanded,
        score_macs=intake.new * (heads / tp * (2 * key * value + CHUNK * (key + value) / 2)),
        cache_bytes=2 * chunks * kind.held_bytes / tp,
    )


def _decode(kind: _Recurrent, hidden_size: int, decoded: Decoded, tp: Array, kv_bytes: float) -> LayerWork:  # noqa: ARG001 - the seam's
    heads, key, value = _shape(kind)
    return LayerWork(
        projection_macs=decoded.new * _weights(kind, hidden_size, tp),
        expansion_macs=0 * decoded.new,
        score_macs=decoded.new * (heads / tp * 2 * key * value),
        cache_bytes=2 * decoded.sequences * kind.held_bytes / tp,
    )


def _cached(kind: _Recurrent, tokens: Array, tp: Array, kv_bytes: float) -> Array:  # noqa: ARG001 - the seam's
    return np.asarray(kind.held_bytes / tp + 0 * tokens)


def _products(kind: _Recurrent, hidden_size: int, tp: Array) -> Products:
    heads, _, value = _shape(kind)
    out = heads * value / tp
    hidden = np.full(np.shape(tp), float(hidden_size))
    # All that is projected from the hidden state, in one product.
    return (((kind.parameters(hidden_size) / hidden_size - heads * value) / tp, hidden), (hidden, out))


def _context(kind: _Recurrent, kernels: Kernels, intake: Intake, tp: Array) -> KernelTime:
    return of_prompts(
        _time(kind, kernels, "context", as_ones(intake.prompts), as_ones(intake.fresh), tp), intake.prompts
    )


def _generation(kind: _Recurrent, kernels: Kernels, decoded: Decoded, tp: Array) -> KernelTime:
    once = np.ones(np.shape(decoded.sequences))
    return _time(kind, kernels, "generation", as_ones(decoded.sequences), once, tp)


def _time(kind: _Recurrent, kernels: Kernels, phase: str, sequences: Array, tokens: Array, tp: Array) -> KernelTime:
    """Of the convolution and the recurrence; Mamba2's were not measured under these engines."""
    if isinstance(kind, Mamba2):
        return no_answer(sequences, tokens, tp)
    heads, keys = (np.maximum(1.0, np.floor(count / tp)) for count in (kind.value_heads, kind.key_heads))
    sort = "kda" if kind.channels else "gdn"
    return kernels.tables.linear_attention(sort, phase, sequences, tokens, heads, keys, kind.value_dim)


MAMBA2 = LayerCost(
    weights=_weights,
    prefill=_prefill,
    decode=_decode,
    cached=_cached,
    products=_products,
    context=_context,
    generation=_generation,
)
LINEAR = replace(MAMBA2, alignment=CHUNK)
