"""Attention of all layers of a model on one GPU of a group: each kind by its own formulas (`layers/`), added up."""

from collections.abc import Iterable
from dataclasses import dataclass

from planner.cost.arrays import Array, as_array
from planner.cost.layers import Decoded, Intake, LayerWork, cost_of
from planner.domain import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWork:
    """All layers on one GPU: multiply-adds of projections, expansion (over the expanded tokens) and scores; weights and
    cache read (bytes)."""

    projection_macs: Array
    expansion_macs: Array
    score_macs: Array
    weight_bytes: Array
    cache_bytes: Array


def weights(model: ModelSpec, tp: Array) -> Array:
    """Attention weights of all layers on one GPU (elements)."""
    each = (count * cost_of(kind).weights(kind, model.hidden_size, tp) for kind, count in model.attentions)
    return as_array(sum(each))


def prefill_work(model: ModelSpec, intake: Intake, tp: Array) -> AttentionWork:
    """What all layers do with the tokens that a step takes in."""
    works = (
        (cost_of(kind).prefill(kind, model.hidden_size, intake, tp, model.kv_bytes), count)
        for kind, count in model.attentions
    )
    return _total(model, works, tp)


def decode_work(model: ModelSpec, *, sequences: Array, tokens: Array, cached: Array, tp: Array) -> AttentionWork:
    """`sequences` with `cached` tokens each, `tokens` new ones of each."""
    decoded = Decoded(sequences=sequences, tokens=tokens, cached=cached)
    works = (
        (cost_of(kind).decode(kind, model.hidden_size, decoded, tp, model.kv_bytes), count)
        for kind, count in model.attentions
    )
    return _total(model, works, tp)


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
    each = (count * cost_of(kind).cached(kind, length, tp, model.kv_bytes) for kind, count in model.attentions)
    return as_array(sum(each))
