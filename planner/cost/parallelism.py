"""Which parallel configurations an island may take, and which one it gets.

| symbol | meaning | unit |
|---|---|---|
| G | GPUs of the island | 1 |
| r, tp, dp | replicas, GPUs of an attention group, groups of a replica: r tp dp = G | 1 |
| R[c, j] | rate of configuration c on range j | requests/s |
| p[j] | probability of range j | 1 |

An island runs one configuration: the one with the smallest sum_j p[j] (best_j - R[c, j]) / best_j.
Source: Rignall 2025, sections 4.6.1-2.
"""

from math import isqrt

import numpy as np

from planner.cost.arrays import Array
from planner.cost.rules import Rules
from planner.domain import GpuSpec, ModelSpec, ParallelConfig, Phase


def divisors(number: int) -> list[int]:
    """Divisors, ascending."""
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def configurations(gpu: GpuSpec, model: ModelSpec, rules: Rules, phase: Phase, size: int) -> list[ParallelConfig]:
    """Every configuration of `size` GPUs that the mode allows.

    Prefill has one replica: several are what several islands are. Reference: any divisors. Default: a tensor-parallel
    group divides the heads and stays on one host, and a decode replica has no more GPUs than experts.
    """
    replicas = [1] if phase is Phase.PREFILL else divisors(size)
    if rules.batch_per_gpu:
        return [_config(size, r, tp) for r in replicas for tp in divisors(size // r)]
    return [
        _config(size, r, tp)
        for r in replicas
        if phase is Phase.PREFILL or size // r <= model.experts.routed
        for tp in divisors(size // r)
        if tp <= gpu.gpus_per_host and model.attention.heads % tp == 0
    ]


def _config(size: int, replicas: int, tp: int) -> ParallelConfig:
    return ParallelConfig(tp=tp, dp=size // replicas // tp, replicas=replicas)


def choose(rates_rps: Array, probabilities: Array) -> int | None:
    """Index of the configuration with the least weighted deviation from the best; None where all rates are zero.

    `rates_rps` has shape (configurations, ranges). Ties go to the first.
    """
    best = rates_rps.max(axis=0)
    reachable = best > 0
    if not reachable.any():
        return None
    deviation = (best[reachable] - rates_rps[:, reachable]) / best[reachable]
    return int(np.argmin(deviation @ probabilities[reachable]))
