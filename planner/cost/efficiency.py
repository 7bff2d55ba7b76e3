"""Derating factors, kept apart from data-sheet figures.

| symbol | meaning | unit | source |
|---|---|---|---|
| DERATING | share of a data-sheet rate that kernels see | 1 | Shallowsim `discount` |
| KERNEL | attention kernels' share of the derated rate | 1 | Shallowsim |
| eta(m) | expert GEMM's share of the derated rate at m tokens per expert | 1 | Shallowsim's table |
| MEMORY_SHARE | share of device memory given to weights, KV and activations | 1 | Shallowsim |
"""

import numpy as np

from planner.cost.arrays import Array, Numbers
from planner.cost.rules import Rules
from planner.domain import GpuSpec

DERATING = 0.85
KERNEL = 0.7
MEMORY_SHARE = 0.9

LAYER_OVERHEAD_MS = 0.05
ALL_REDUCE_LATENCY_MS = 0.015
PREFILL_ALL_TO_ALL_LATENCY_MS = 0.05
DECODE_ALL_TO_ALL_LATENCY_MS = 0.005
MICRO_BATCHES = 2

_TOKENS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], dtype=float)
_CURVES = {
    "general": np.array([0.05, 0.05, 0.05, 0.05, 0.08, 0.1, 0.2, 0.35, 0.4, 0.6, 0.7]),
    "h20": np.array([0.06, 0.06, 0.06, 0.12, 0.25, 0.45, 0.8, 0.9, 1.0, 1.0, 1.0]),
}
CURVES = tuple(_CURVES)


def _curve(gpu: GpuSpec, rules: Rules) -> Array:
    if rules.h20_by_substring:
        return _CURVES["h20" if "H20" in gpu.name else "general"]
    return _CURVES[gpu.expert_efficiency]


def expert_efficiency(gpu: GpuSpec, rules: Rules, tokens_per_expert: Numbers) -> Array:
    """Share of the derated rate that an expert GEMM reaches at m = `tokens_per_expert` (any shape, m >= 0).

    Shallowsim takes the table at the next power of two strictly above int(m). The mended form takes it at m itself
    and interpolates the time, m / eta, not letting it fall (the H20's would, by 4 %, from 8 to 16 tokens).
    """
    curve, m = _curve(gpu, rules), np.asarray(tokens_per_expert, dtype=float)
    if rules.stepped_efficiency:
        whole = np.maximum(np.floor(m), 0.0)
        above = np.where(whole < 1, 0, np.floor(np.log2(np.maximum(whole, 1.0))) + 1)
        return np.asarray(curve[np.minimum(above, len(curve) - 1).astype(int)])
    within = np.clip(m, _TOKENS[0], _TOKENS[-1])
    time = np.maximum.accumulate(_TOKENS / curve)
    return np.asarray(within / np.interp(within, _TOKENS, time))
