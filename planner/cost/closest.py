"""The nearest that a GPU type comes to a bound that it misses, for the verdict on what cannot be had."""

from dataclasses import dataclass, replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.backend import open_backend
from planner.cost.device import CostContext
from planner.cost.grid import Degrees, longest_prompts, mean_prompts
from planner.cost.parallelism import replica_shapes
from planner.cost.prefix_hits import hit_shares, with_points
from planner.cost.rates import decode_rates, judged_lengths, prefill_rates
from planner.cost.service_levels import ServiceBounds, transfer_ms
from planner.cost.step import Steps
from planner.domain import CostSettings, GpuSpec, ModelSpec, ParallelConfig, Phase, SloSettings, Workload
from planner.units import MS_PER_S

LARGEST_SOUGHT_ISLAND = 512
_BATCHES = tuple(2**k for k in range(11))  # the smallest is fastest; a profile may answer for larger ones only


@dataclass(frozen=True, slots=True, kw_only=True)
class Closest:
    """The fastest that one range can be served on one GPU type, alone on an idle replica.

    `ms`: TPOT, or prefill and KV transfer with `transfer_ms` of it. `rate_rps`: of the replica with such batches.
    """

    gpu: str
    parallel: ParallelConfig
    batch: int
    ms: float
    transfer_ms: float
    rate_rps: float


def closest(
    gpu: GpuSpec,
    count: int,
    phase: Phase,
    *,
    model: ModelSpec,
    workload: Workload,
    settings: CostSettings,
    slo: SloSettings,
) -> list[Closest | None]:
    """Per range the replica of at most `count` GPUs with the least time, as `slo` judges it; None where none serves."""
    bounds = ServiceBounds.of(slo, workload)
    largest = min(count, LARGEST_SOUGHT_ISLAND)
    context = CostContext(gpu=gpu, model=model, settings=settings)
    configs = [shape for devices in range(1, largest + 1) for shape in replica_shapes(context, devices)]
    if bounds is None or not configs:
        return [None] * len(workload.ranges)
    degrees = Degrees.of(configs)
    backend, of_phase = open_backend(context), _FITTING[phase]
    fits = of_phase(backend, context, workload, degrees).batch_sizes
    judged = judged_lengths(workload, bounds) if phase is Phase.DECODE else _judged_prompts(workload, bounds)[..., None]
    sent = transfer_ms(context, _judged_prompts(workload, bounds), degrees)
    # Only a prefill hands its cache on.
    sent = np.broadcast_to(sent if phase is Phase.PREFILL else np.zeros(1), fits.shape)
    best, batches = np.full(fits.shape, np.inf), np.zeros(fits.shape)
    steps = Steps(
        phase=phase,
        tp=degrees.tp[..., None],
        dp=degrees.dp[..., None],
        pp=degrees.pp[..., None],
        length=judged,
        batch=np.ones(1),
        cached=with_points(hit_shares(context, judged[..., 0], degrees)) if phase is Phase.PREFILL else 0.0,
    )
    for size in _BATCHES:
        # A pipeline needs a sequence in every stage.
        batch = size * (degrees.pp if phase is Phase.DECODE else np.ones(degrees.pp.shape))
        ms = backend.step_ms(replace(steps, batch=batch[..., None])).mean(axis=-1)
        faster = (batch <= fits) & (ms + sent < best)
        best, batches = np.where(faster, ms + sent, best), np.where(faster, batch, batches)
        if np.isfinite(best[fits >= batch]).all():
            break  # larger batches are slower
    return [
        _closest(gpu, phase, configs, workload, best[:, j], batches[:, j], sent[:, j]) for j in range(fits.shape[1])
    ]


def _judged_prompts(workload: Workload, bounds: ServiceBounds) -> Array:
    return mean_prompts(workload) if bounds.misses is None else longest_prompts(workload)


def _closest(
    gpu: GpuSpec,
    phase: Phase,
    configs: list[ParallelConfig],
    workload: Workload,
    ms: Array,
    batches: Array,
    sent_ms: Array,
) -> Closest | None:
    row = int(np.argmin(ms))
    if not np.isfinite(ms[row]):
        return None
    config, batch = configs[row], float(batches[row])
    step = float(ms[row] - sent_ms[row])
    answer = max(1.0, workload.mean_output_tokens)
    in_flight = config.dp * batch * (config.pp if phase is Phase.PREFILL else 1)
    return Closest(
        gpu=gpu.name,
        parallel=config,
        batch=int(batch),
        ms=float(ms[row]),
        transfer_ms=float(sent_ms[row]),
        rate_rps=in_flight * MS_PER_S / (step if phase is Phase.PREFILL else answer * step),
    )


_FITTING = {Phase.PREFILL: prefill_rates, Phase.DECODE: decode_rates}
