"""Attention of all layers of a model on one GPU of a group: each kind by its own formulas (`layers/`), added up.

What an engine sets aside for a sequence is its cache; more than that of compressed tokens (`layers/compressed.py`), and
where layers keep a state:

| symbol | meaning | unit |
|---|---|---|
| S, t | state of a layer, cache of a token in a layer without state, on one GPU | bytes |
| a | tokens that blocks are multiples of: `alignment` of the kinds | tokens |
| b | block: a ceil(S / (a t)), the fewest tokens that take as much as a state | tokens |
| F, R | layers without state, with one | 1 |
| G | layers of a group: the fewer of F and R | 1 |
| c | states of a sequence: those that the engine keeps (`kept_states`), and one for each drafted token | 1 |

bytes = G b t (ceil(s / b) ceil(F / G) + c ceil(R / G)): a state takes a whole block, and so does the end of a sequence.
So vLLM 0.33 counts (`_align_hybrid_block_size`, `_get_kv_cache_groups_uniform_page_size`, `MambaSpec`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from math import lcm

import numpy as np

from planner.cost.arrays import Array, as_array, ceil_divide
from planner.cost.kernels import KernelTime, Rows
from planner.cost.layers import Decoded, Intake, LayerWork, cost_of
from planner.cost.layers.compressed import packed_bytes
from planner.cost.measured import Kernels, added, nothing, products_ms, times_of
from planner.domain import Attention, ModelSpec
from planner.domain.model import CompressedAttention


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWork:
    """All layers on one GPU: multiply-adds of projections, expansion (over the expanded tokens) and scores; weights and
    cache read (bytes). `scores`: measured (None: no tables were asked)."""

    projection_macs: Array
    expansion_macs: Array
    score_macs: Array
    weight_bytes: Array
    cache_bytes: Array
    scores: KernelTime | None = None


def weights(model: ModelSpec, tp: Array) -> Array:
    """Attention weights of all layers on one GPU (elements)."""
    each = (count * cost_of(kind).weights(kind, model.hidden_size, tp) for kind, count in model.attentions)
    return as_array(sum(each))


def prefill_work(model: ModelSpec, intake: Intake, tp: Array, kernels: Kernels | None = None) -> AttentionWork:
    """What all layers do with the tokens that a step takes in."""
    works = (
        (cost_of(kind).prefill(kind, model.hidden_size, intake, tp, model.kv_bytes), count)
        for kind, count in model.attentions
    )
    total = _total(model, works, tp)
    if kernels is None:
        return total
    # A pass without prompts asks for none.
    some = (intake.new > 0).astype(float)
    times = (
        times_of(cost_of(kind).context(kind, kernels, intake, tp), some * count) for kind, count in model.attentions
    )
    return replace(total, scores=added(times))


def decode_work(
    model: ModelSpec, *, sequences: Array, tokens: Array, cached: Array, tp: Array, kernels: Kernels | None = None
) -> AttentionWork:
    """`sequences` with `cached` tokens each, `tokens` new ones of each."""
    decoded = Decoded(sequences=sequences, tokens=tokens, cached=cached)
    works = (
        (cost_of(kind).decode(kind, model.hidden_size, decoded, tp, model.kv_bytes), count)
        for kind, count in model.attentions
    )
    total = _total(model, works, tp)
    if kernels is None:
        return total
    # Several tokens of a sequence share the reading of its cache.
    some = (sequences > 0).astype(float)
    times = (
        times_of(cost_of(kind).generation(kind, kernels, decoded, tp), some * count) for kind, count in model.attentions
    )
    return replace(total, scores=added(times))


def projections_ms(model: ModelSpec, kernels: Kernels, rows: Rows, tp: Array) -> KernelTime:
    """Measured projections of all layers over the rows; those of layers whose tables have them with the rest are
    none."""
    times = [
        times_of(
            products_ms(kernels, kernels.weights, cost_of(kind).products(kind, model.hidden_size, tp), rows), count
        )
        for kind, count in model.attentions
        if not cost_of(kind).with_projections(kind, kernels)
    ]
    return added(times) if times else nothing(rows.each)


def _total(model: ModelSpec, works: Iterable[tuple[LayerWork, int]], tp: Array) -> AttentionWork:
    listed = list(works)
    return AttentionWork(
        projection_macs=as_array(sum(count * work.projection_macs for work, count in listed)),
        expansion_macs=as_array(sum(count * work.expansion_macs for work, count in listed)),
        score_macs=as_array(sum(count * work.score_macs for work, count in listed)),
        weight_bytes=weights(model, tp) * model.weight_bytes,
        cache_bytes=as_array(sum(count * work.cache_bytes for work, count in listed)),
    )


def cache_bytes_per_sequence(model: ModelSpec, length: Array, tp: Array) -> Array:
    """Cache of one sequence of `length` tokens over all layers on one GPU of a group (bytes), with states of constant
    size."""
    return _cached(model, model.attentions, length, tp)


def _cached(model: ModelSpec, kinds: Iterable[tuple[Attention, int]], length: Array, tp: Array) -> Array:
    return as_array(sum(count * cost_of(kind).cached(kind, length, tp, model.kv_bytes) for kind, count in kinds))


def reserved_bytes(model: ModelSpec, length: Array, tp: Array, *, states: int | None = None) -> Array:
    """What an engine sets aside for a sequence of `length` tokens on one GPU of a group (bytes). `states`: None for
    those of a sequence that is worked on."""
    kept = model.kept_states if states is None else states
    stateful, plain = _parted(model)
    compressed = [(kind, count) for kind, count in plain if isinstance(kind, CompressedAttention)]
    if len(compressed) == len(plain) and not stateful and any(kind.ratio for kind, _ in compressed):
        return np.asarray(packed_bytes(compressed, length, model.kv_bytes) + 0 * tp)
    if not stateful:
        return cache_bytes_per_sequence(model, length, tp)
    if not plain:
        return kept * cache_bytes_per_sequence(model, length, tp)
    counts = [sum(count for _, count in kinds) for kinds in (stateful, plain)]
    group = min(counts)
    of_states, of_others = (-(-count // group) for count in counts)
    block = block_tokens(model, tp)
    page = block * _cached(model, plain, as_array(1.0), tp) / counts[1]
    return np.asarray(group * page * (ceil_divide(length, block) * of_others + kept * of_states))


def block_tokens(model: ModelSpec, tp: Array) -> Array:
    """Tokens of a block, at whose end a prefix can be found again; 1 of a model without states or of states alone,
    whose blocks are too small to matter."""
    stateful, plain = _parted(model)
    if not stateful or not plain:
        return as_array(1.0)
    alignment = lcm(*(cost_of(kind).alignment for kind, _ in model.attentions))
    state = reduce(np.maximum, (_cached(model, [(kind, 1)], as_array(0.0), tp) for kind, _ in stateful))
    token = _cached(model, plain, as_array(1.0), tp) / sum(count for _, count in plain)
    return alignment * ceil_divide(state, alignment * token)


def _parted(model: ModelSpec) -> tuple[list[tuple[Attention, int]], list[tuple[Attention, int]]]:
    """Layers that keep a state alone, and the others."""
    stateful: list[tuple[Attention, int]] = []
    plain: list[tuple[Attention, int]] = []
    for kind, count in model.attentions:
        alone = kind.held_bytes > 0 and not kind.cached_bytes_per_token(model.kv_bytes)
        (stateful if alone else plain).append((kind, count))
    return stateful, plain
