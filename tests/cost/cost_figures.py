"""Figures of the facts and both models' rates, written down a second time: the tests' arithmetic stands alone.

DeepSeek-V3's shape; Shallowsim's published formulas (`derated` to `message_ms`); what the default model makes of a data
sheet (`compute` to `gemm_ms`). Only the efficiency factors are the package's: they are fitted, not derived.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from planner.cost import CostContext
from planner.cost.efficiency import Efficiency, efficiency_of
from planner.cost.parts import StepCost
from planner.cost.step import Steps, step_cost
from planner.domain import CostSettings, GpuSpec, ModelSpec, Phase
from planner.files import load_gpu_spec, load_gpu_specs, load_model

HIDDEN, HEADS, LAYERS, DENSE_LAYERS = 7168, 128, 61, 3
MOE_LAYERS = LAYERS - DENSE_LAYERS
QUERY_RANK, KV_RANK, NOPE, ROPE, VALUE = 1536, 512, 128, 64, 128
EXPERTS, ACTIVE, EXPERT_FFN, DENSE_FFN = 256, 8, 2048, 18432
KV_WIDTH = KV_RANK + ROPE
MI = 1024**2

ATTENTION_PARAMETERS = (
    HIDDEN * QUERY_RANK
    + QUERY_RANK * HEADS * (NOPE + ROPE)
    + KV_RANK * HEADS * NOPE
    + HIDDEN * (KV_RANK + ROPE)
    + KV_RANK * HEADS * VALUE
    + HEADS * VALUE * HIDDEN
)
EXPERT_PARAMETERS = 3 * HIDDEN * EXPERT_FFN
DENSE_PARAMETERS = 3 * HIDDEN * DENSE_FFN
HEAD_PARAMETERS = 129280 * HIDDEN

GPU_NAMES = tuple(sorted(load_gpu_specs()))
PLAIN = CostSettings(two_micro_batches=False, balanced_experts=True)  # every SM computes, nothing is hidden


@cache
def gpu(name: str) -> GpuSpec:
    """A shipped GPU type, read once: properties ask for it thousands of times."""
    return load_gpu_spec(name)


def model(name: str = "deepseek-v3") -> ModelSpec:
    """A shipped model."""
    return load_model(name)


def derated(rate: float) -> float:
    """What Shallowsim sees of a data-sheet rate."""
    return 0.85 * rate


def prefill_rate(tflops: float, spec: GpuSpec) -> float:
    """Shallowsim's arithmetic rate in prefill, when some SMs communicate."""
    return derated(tflops) * (spec.sms - spec.sms_for_communication) / spec.sms


def projection_macs(s: float, *, queries: float, fresh: float) -> float:
    """Prefill GEMMs of one layer: `queries` tokens ask, `fresh` tokens are written to the cache, `s` are expanded."""
    return (
        queries * HIDDEN * QUERY_RANK
        + queries * QUERY_RANK * HEADS * (NOPE + ROPE)
        + fresh * HIDDEN * KV_WIDTH
        + s * KV_RANK * HEADS * (NOPE + VALUE)
    )


def score_macs(pairs: float, *, queries: float) -> float:
    """Prefill attention over `pairs` of query and key, and the output projection."""
    return HEADS * pairs * (ROPE + NOPE + VALUE) + queries * HEADS * VALUE * HIDDEN


def expert_gflop(tokens: float) -> float:
    """`tokens` through one expert."""
    return 2 * tokens * EXPERT_PARAMETERS / 1e9


def expert_load_ms(memory_gb_s: float, *, weight_bytes: float = 1) -> float:
    """One expert out of Shallowsim's memory."""
    return EXPERT_PARAMETERS * weight_bytes / MI / derated(memory_gb_s)


def message_ms(tokens: float, copies: float, gb_s: float) -> float:
    """`copies` of each token's activations, one byte an element, over one of Shallowsim's links."""
    return tokens * HIDDEN * copies / MI / derated(gb_s)


def factors(spec: GpuSpec) -> Efficiency:
    """The built-in efficiency factors of a GPU type."""
    return efficiency_of(spec, None)


def step(
    spec: GpuSpec | str,
    phase: Phase,
    *,
    length: Any,
    batch: Any = 1,
    tp: Any = 1,
    dp: Any = 1,
    pp: Any = 1,
    cached: Any = 0.0,
    shape: ModelSpec | str = "deepseek-v3",
    settings: CostSettings = PLAIN,
    overlap: bool | None = None,
    **changed: Any,
) -> StepCost:
    """One step of the default model, with its parts; `changed` are settings."""
    tp, dp, pp, length, batch = (np.asarray(value, dtype=float) for value in (tp, dp, pp, length, batch))
    steps = Steps(phase=phase, tp=tp, dp=dp, pp=pp, length=length, batch=batch, cached=cached)
    device = gpu(spec) if isinstance(spec, str) else spec
    return step_cost(
        CostContext(
            gpu=device,
            model=model(shape) if isinstance(shape, str) else shape,
            settings=replace(settings, **changed) if changed else settings,
        ),
        steps,
        overlap=overlap,
    )


def waiting(spec: GpuSpec, phase: Phase, dp: float, *, settings: CostSettings) -> float:
    """How much longer a step takes as attention ranks wait for the one with the most prompt tokens.

    The factor is that of 32 ranks, five doublings of one; of fewer or more the excess goes with the doublings.
    """
    if phase is Phase.DECODE or settings.balanced_experts:
        return 1.0
    return float(1 + (factors(spec).rank_imbalance - 1) * np.log2(dp) / 5)


def compute(tflops: float, spec: GpuSpec, phase: Phase, *, overlapped: bool = False) -> float:
    """FLOP/ms before a kernel's own share; where work is `overlapped`, prefill leaves some SMs to communication."""
    computing = spec.sms - spec.sms_for_communication if overlapped and phase is Phase.PREFILL else spec.sms
    return tflops * 1e9 * factors(spec).kernels(phase) * computing / spec.sms


def read_ms(gigabytes: float, spec: GpuSpec) -> float:
    """So many GB of weights or activations out of memory."""
    return gigabytes / (spec.memory_gb_s * factors(spec).memory) * 1000


def cache_ms(gigabytes: float, spec: GpuSpec) -> float:
    """So many GB of keys and values out of memory: scattered, they come at a share of their own."""
    return gigabytes / (spec.memory_gb_s * factors(spec).cache) * 1000


def slower_of_both(compute_ms: float, memory_ms: float) -> float:
    """The time of a part that both bound: their fourth powers add up."""
    return float((compute_ms**4 + memory_ms**4) ** 0.25)


def gemm_ms(
    flops: float, tflops: float, spec: GpuSpec, phase: Phase, *, rows: float, overlapped: bool = False
) -> float:
    """A GEMM over `rows` tokens: its rate saturates with them."""
    f = factors(spec)
    return flops / (compute(tflops, spec, phase, overlapped=overlapped) * f.gemm * rows / (rows + f.gemm_half))


def expert_rate(each: float, tflops: float, spec: GpuSpec, phase: Phase) -> float:
    """FLOP/ms of grouped GEMMs with `each` tokens an expert, in FP8 or 16 bits."""
    f = factors(spec)
    return compute(tflops, spec, phase) * f.expert * (each / (each + f.expert_half)) ** f.expert_power


def experts_ms(visits: float, experts: float, tflops: float, spec: GpuSpec, phase: Phase) -> float:
    """DeepSeek-V3's routed experts of one layer: `visits` tokens shared evenly by so many experts."""
    return 2 * visits * EXPERT_PARAMETERS / expert_rate(visits / experts, tflops, spec, phase)
