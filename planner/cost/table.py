"""The performance table: one row an island class, computed once per class."""

import numpy as np

from planner.cost import memory
from planner.cost.arrays import ceil_divide
from planner.cost.efficiency import MEMORY_SHARE
from planner.cost.parallelism import choose, configurations
from planner.cost.rates import Degrees, RateGrid, decode_rates, prefill_rates
from planner.cost.rules import Rules, rules_of
from planner.domain import (
    ClassPerformance,
    CostSettings,
    GpuSpec,
    IslandClass,
    ModelSpec,
    ParallelConfig,
    Phase,
    PhasePerformance,
    Workload,
)

LARGEST_SOUGHT_ISLAND = 512


def tabulate(
    gpu: GpuSpec, size: int, *, model: ModelSpec, workload: Workload, settings: CostSettings
) -> ClassPerformance:
    """What an island of `size` GPUs does in each phase and range, at its one best configuration per phase."""
    return ClassPerformance(
        island=IslandClass(gpu=gpu.name, size=size),
        prefill=_phase(gpu, size, Phase.PREFILL, model, workload, settings),
        decode=_phase(gpu, size, Phase.DECODE, model, workload, settings),
    )


def smallest_island(
    gpu: GpuSpec, phase: Phase, *, model: ModelSpec, workload: Workload, settings: CostSettings
) -> int | None:
    """Fewest GPUs of this type that serve every range of `phase` in one island; None beyond 512 GPUs."""
    for size in range(1, LARGEST_SOUGHT_ISLAND + 1):
        if all(rate > 0 for rate in _phase(gpu, size, phase, model, workload, settings).rates_rps):
            return size
    return None


def _phase(
    gpu: GpuSpec, size: int, phase: Phase, model: ModelSpec, workload: Workload, settings: CostSettings
) -> PhasePerformance:
    rules = rules_of(settings.mode)
    configs = configurations(gpu, model, rules, phase, size)
    if not configs:
        return _idle(workload, f"no parallel configuration of {size} GPUs suits {model.name}")
    if phase is Phase.PREFILL:
        grid = prefill_rates(gpu, model, rules, settings, workload, configs)
    else:
        grid = decode_rates(gpu, model, rules, workload, configs)
    chosen = choose(grid.rates_rps, np.array([r.probability for r in workload.ranges]))
    if chosen is None:
        return _idle(workload, _shortage(gpu, model, rules, configs))
    return _row(grid, chosen, configs[chosen])


def _row(grid: RateGrid, chosen: int, config: ParallelConfig) -> PhasePerformance:
    return PhasePerformance(
        parallel=config,
        rates_rps=tuple(float(v) for v in grid.rates_rps[chosen]),
        batch_sizes=tuple(int(v) for v in grid.batch_sizes[chosen]),
        step_ms=tuple(float(v) for v in grid.step_ms[chosen]),
    )


def _idle(workload: Workload, reason: str) -> PhasePerformance:
    none = len(workload.ranges)
    return PhasePerformance(
        parallel=None, rates_rps=(0.0,) * none, batch_sizes=(0,) * none, step_ms=(0.0,) * none, reason=reason
    )


def _shortage(gpu: GpuSpec, model: ModelSpec, rules: Rules, configs: list[ParallelConfig]) -> str:
    """Why nothing fits, with the least that one GPU would have to hold."""
    degrees = Degrees.of(configs)
    held = ceil_divide(model.experts.routed, degrees.devices) + model.experts.shared
    least = float(memory.weights_gb(model, tp=degrees.tp, experts_on_device=held).min())
    usable = gpu.memory_gb * MEMORY_SHARE
    said = "" if not rules.literal_memory_sizes else " (by the simulator's literals)"
    return (
        f"{model.name} puts at least {least:.0f} GB of weights on each GPU{said}; "
        f"one {gpu.name} offers {usable:.0f} GB for weights and KV cache"
    )
