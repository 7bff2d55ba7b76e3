"""What a GPU type is good for before anything is planned: on how few a model can be served, by memory and by the
engine's rules, and the nearest that it comes to a bound that it misses."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.backend import open_backend
from planner.cost.device import CostContext
from planner.cost.engine_rules import refusals
from planner.cost.grid import Degrees, longest_prompts, mean_prompts
from planner.cost.memory import experts_on_device, free_gb, max_batch
from planner.cost.parallelism import replica_shapes
from planner.cost.prefix_hits import hit_shares, with_points
from planner.cost.rates import decode_rates, judged_lengths, prefill_rates
from planner.cost.service_levels import ServiceBounds, transfer_ms
from planner.cost.step import Steps
from planner.domain import (
    CostSettings,
    EngineProfile,
    GpuSpec,
    ModelSpec,
    ParallelConfig,
    Phase,
    SloSettings,
    Workload,
)
from planner.domain.model.fits import ModelFit
from planner.units import MS_PER_S

LARGEST_SOUGHT_ISLAND = 512
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_TOKENS = 32_768
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


def model_fits(model: ModelSpec, gpus: Iterable[GpuSpec], profile: EngineProfile) -> tuple[ModelFit, ...]:
    """A fit a GPU type, for sequences of 32K tokens, or as many as the model takes."""
    return tuple(_fit(CostContext(gpu=gpu, model=model, settings=CostSettings()), profile) for gpu in gpus)


def _fit(context: CostContext, profile: EngineProfile) -> ModelFit:
    tokens, refusal = min(_TOKENS, context.model.max_context), ""
    for size in _SIZES:
        degrees = [(shape, _sequences(context, shape, tokens)) for shape in replica_shapes(context, size)]
        fitting = [(shape, sequences) for shape, sequences in degrees if sequences > 0]
        refused = [refusals(context, Phase.DECODE, shape, profile) for shape, _ in fitting]
        accepted = tuple(pair for pair, sentences in zip(fitting, refused, strict=True) if not sentences)
        if accepted:
            return ModelFit(gpu=context.gpu.name, gpus=size, tokens=tokens, degrees=accepted)
        refusal = next((sentences[0] for sentences in refused), refusal)
    least = f"not on {_SIZES[-1]} GPUs of {context.gpu.memory_gb:g} GB"
    return ModelFit(gpu=context.gpu.name, gpus=0, tokens=tokens, refusal=refusal or least)


def _sequences(context: CostContext, shape: ParallelConfig, tokens: int) -> int:
    """Sequences that one copy holds, all its attention groups together; at most 0 where the weights do not fit."""
    gpu, model = context.gpu, context.model
    experts = experts_on_device(model, context.settings, shape.stage_devices)
    if free_gb(gpu, model, tp=shape.tp, experts_on_device=experts, pp=shape.pp) <= 0:
        return 0
    batch = max_batch(gpu, model, seq_len=tokens, decode_len=0, tp=shape.tp, experts_on_device=experts, pp=shape.pp)
    return int(batch) * shape.dp
