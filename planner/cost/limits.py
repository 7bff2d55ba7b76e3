"""Speed of light: the least time that a data sheet leaves a step, and each of its parts.

| symbol | meaning | unit |
|---|---|---|
| c, m | FLOPs / data-sheet peak of their format, bytes / data-sheet bandwidth | ms |
| w | bytes on the wire / rate of NVLink or NIC | ms |
| f, K, E | share of the experts that some token visits, experts a token visits, all experts | 1 |

limit of a part = max(c, m, w), of a step = max(sum c, sum m, sum w): what is bound by one may run beside the other.
The work is that of the same walk over the model's layers, on a GPU that loses nothing: all shares 1, all latencies 0,
tokens spread evenly, weights read once. Less than that is asked for where less will do:

- scores may run in the format of the cache, those of an indexer in FP8, and activations stay within fused kernels;
- switches that reduce have each GPU send its data once, where a ring sends 2 (tp - 1)/tp times as much;
- a group that is alone may split its shared experts as it does its other products;
- popular experts leave fewer to be visited, as many as half of the tokens would, evenly: max(1 - sqrt(1 - f), K/E).
  Of 17,010 measured grouped GEMMs with tokens by a power law (aiconfigurator-core 0.12.0, GPUs whose caches hold no
  layer) 14 take less than 0.9 of that, all of one series (Mixtral in NVFP4 by TensorRT-LLM); of f itself 190 do.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from planner.cost.arrays import Array, as_array, ceil_divide
from planner.cost.device import CostContext, arithmetic_tflops
from planner.cost.efficiency import FACTOR_NAMES
from planner.cost.parts import Part, StepCost
from planner.cost.step import Steps, step_cost
from planner.domain import Calibration, Factor, Origin
from planner.domain.efficiency import ANY_FAMILY, BOUNDS


def step_limit(context: CostContext, steps: Steps) -> StepCost:
    """The limits of one step and its parts; see `limits`."""
    return limits(context, step_cost(lossless(context), steps, overlap=False), steps.tp, steps.dp)


def limit_ms(part: Part) -> Array:
    """The least time of a part of limits (ms)."""
    return np.maximum(np.maximum(as_array(part.compute_ms), part.memory_ms), part.network_ms)


def limits(context: CostContext, cost: StepCost, tp: Array, dp: Array) -> StepCost:
    """Of a step on a GPU that loses nothing: its parts with what physics asks of them, and `total_ms` its limit."""
    parts = tuple(_limit_of(context, part, tp, dp) for part in cost.parts)
    resources = [
        sum((as_array(getattr(part, name)) for part in parts), start=as_array(0.0))
        for name in ("compute_ms", "memory_ms", "network_ms")
    ]
    unscaled_ms = np.maximum(np.maximum(*resources[:2]), resources[2])
    return replace(cost, parts=parts, total_ms=unscaled_ms * cost.scale)


def _limit_of(context: CostContext, part: Part, tp: Array, dp: Array) -> Part:
    if part.name == "small kernels":
        return Part(name=part.name)
    if part.name == "all-reduce":
        return replace(part, network_ms=part.network_ms / np.maximum(1.0, 2 * (tp - 1) / tp))
    if part.name == "shared experts":
        return _fewer_bytes(part, np.where(dp > 1, 1.0, 1 / tp))
    experts = context.model.experts
    if part.name == "routed experts" and experts is not None:
        held = ceil_divide(experts.routed + context.settings.redundant_experts, tp * dp)
        every = held * context.model.moe_layers * context.model.expert_parameters * context.model.expert_bytes
        unvisited = np.maximum(1 - part.bytes / every, 0)
        fewest = every * np.maximum(1 - np.sqrt(unvisited), experts.active / experts.routed)
        # Passes over a long prompt visit all of them, each time anew.
        return _fewer_bytes(part, np.where(unvisited > 0, np.minimum(fewest / part.bytes, 1.0), 1.0))
    return part


def _fewer_bytes(part: Part, share: Array) -> Part:
    return replace(part, bytes=part.bytes * share, memory_ms=part.memory_ms * share)


def lossless(context: CostContext) -> CostContext:
    """The context on a GPU that reaches its data sheet."""
    gpu, model = context.gpu, context.model
    # Scores of an indexer are FP8's, and not told apart from the others.
    cached = min(model.kv_bytes, 1.0) if model.choosing_layers else model.kv_bytes
    scores = max(1.0, arithmetic_tflops(gpu, cached, alone=False) / gpu.fp16_tflops)
    return replace(context, settings=replace(context.settings, calibration=_data_sheet(scores), engine=""))


@lru_cache(maxsize=16)
def _data_sheet(scores: float) -> Calibration:
    """Factors of a GPU without losses, its attention scores at so many times the 16-bit rate."""
    best = {name: 0.0 if BOUNDS[name][0] == 0 else 1.0 for name in FACTOR_NAMES}
    best |= dict.fromkeys(("attention_prefill", "attention_decode"), scores)
    factors = (
        Factor(name=name, family=ANY_FAMILY, value=value, unit="1", origin=Origin.DATA_SHEET, source="data sheet")
        for name, value in best.items()
    )
    return Calibration(name="data sheet", factors=tuple(factors))
