"""What the single-configuration functions return: a step's time with its parts (ms)."""

from dataclasses import dataclass

from planner.cost.arrays import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillTime:
    """One prefill step (ms). All but the totals are per layer; `attention_ms` is that of a MoE layer.

    `compute_ms` + `comm_ms` sum all layers without overlap; `total_ms` hides communication behind computation.
    """

    attention_ms: Array
    dense_attention_ms: Array
    dense_ms: Array
    shared_ms: Array
    routed_ms: Array
    dispatch_ms: Array
    combine_ms: Array
    compute_ms: Array
    comm_ms: Array
    total_ms: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTime:
    """One decode step (ms). All but the last two are per layer; `attention_ms` is that of a MoE layer, with KV read.

    `total_ms` is the time per output token; `overlapped_ms` is it with all communication hidden.
    """

    attention_ms: Array
    dense_attention_ms: Array
    dense_ms: Array
    shared_ms: Array
    routed_ms: Array
    dispatch_ms: Array
    combine_ms: Array
    overlapped_ms: Array
    total_ms: Array
