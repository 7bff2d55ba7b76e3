"""A step taken apart, and an island's configurations compared: the cost model shown.

The roofline is the rate at the step's limit (`limits`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from planner.cost import memory
from planner.cost.arguments import one_half, require_at_least, require_fit, require_whole
from planner.cost.arrays import as_array
from planner.cost.backend import open_backend
from planner.cost.device import CostContext, require_figures
from planner.cost.drafts import draft_of
from planner.cost.efficiency import FACTOR_NAMES, merged, vendor_family
from planner.cost.grid import Degrees
from planner.cost.kernels import Basis
from planner.cost.limits import limit_ms, step_limit
from planner.cost.parallelism import configurations, require_configuration, require_drafts
from planner.cost.parts import BOUNDS, Part, StepCost
from planner.cost.prefix_hits import shape_hits
from planner.cost.rates import LARGEST_BATCH, decode_rates, prefill_rates
from planner.cost.reference import reference_configurations, reference_rates
from planner.cost.residuals.bands import band_of, origin_of
from planner.cost.step import Steps, step_cost
from planner.domain import (
    ConfigurationRates,
    CostMode,
    CostSettings,
    Factor,
    GpuSpec,
    LengthRange,
    ModelSpec,
    ParallelConfig,
    PartOfStep,
    Phase,
    StepExplanation,
    Workload,
)
from planner.errors import InfeasibleError, InputError
from planner.files import catalog
from planner.units import MS_PER_S


def explain(
    gpu: GpuSpec | str,
    model: ModelSpec | str,
    phase: Phase | str,
    *,
    tp: int,
    devices: int,
    length: int,
    pp: int = 1,
    batch: int | None = None,
    settings: CostSettings | None = None,
) -> StepExplanation:
    """One step of a replica of `pp` stages of `devices` GPUs, part by part.

    `length`: a prompt's tokens, or tokens in the cache of a sequence. `batch`: prompts a rank, or sequences a group;
    by default what the token budget and the memory allow. Raises InputError on what the GPU or the model cannot have,
    InfeasibleError where weights and batch do not fit, with the memory that they need and there is.
    """
    half = one_half(phase)
    context, config = checked_step(gpu, model, tp=tp, devices=devices, pp=pp, length=length, settings=settings)
    batch_limit = _largest_batch(context, half, config, length)
    if batch_limit < 1 or (batch is not None and batch > batch_limit):
        require_fit(context, _steps_of(context, half, config, length, batch or 1))
    if batch is not None and batch > batch_limit:
        raise InfeasibleError(
            f"batch: must be at most {batch_limit}, what the step's token budget allows, got {batch}.",
            hint="Lower it, or raise cost.max_tokens_per_step.",
        )
    if half is Phase.DECODE and batch is not None and batch < pp:
        raise InputError(f"batch: must be at least pp, {pp}, or stages idle, got {batch}.", hint="Raise it.")
    return _explained(context, half, config, length, min(batch_limit, LARGEST_BATCH) if batch is None else batch)


def checked_step(
    gpu: GpuSpec | str,
    model: ModelSpec | str,
    *,
    tp: int,
    devices: int,
    pp: int,
    length: int,
    settings: CostSettings | None,
) -> tuple[CostContext, ParallelConfig]:
    """Model, GPU type and configuration of a step. Raises InputError on what they cannot have."""
    spec = catalog.gpu(gpu) if isinstance(gpu, str) else gpu
    shape = catalog.model(model) if isinstance(model, str) else model
    chosen = settings or CostSettings()
    for number, name in ((tp, "tp"), (devices, "devices"), (pp, "pp")):
        require_whole(number, name)
    require_length(shape, length, "length")
    if devices % tp:
        raise InputError(f"tp: must divide devices, {devices}, got {tp}.", hint="Choose a divisor.")
    config = ParallelConfig(tp=tp, dp=devices // tp, pp=pp)
    require_figures(spec)
    require_drafts(shape, chosen)
    context = CostContext(gpu=spec, model=shape, settings=chosen)
    require_configuration(context, config)
    return context, config


def require_length(model: ModelSpec, length: int, name: str) -> None:
    """Raises InputError on tokens that are not a sequence of the model; `name` is the argument's."""
    require_at_least(length, 1, name)
    if length > model.max_context:
        raise InputError(
            f"{name}: must be at most the {model.max_context} tokens of context of {model.name}, got {length}.",
            hint="Shorten it.",
        )


def _largest_batch(context: CostContext, phase: Phase, config: ParallelConfig, length: int) -> int:
    gpu, model, settings = context.gpu, context.model, context.settings
    experts = memory.experts_on_device(model, settings, config.stage_devices)
    if phase is Phase.DECODE:
        sequences = memory.max_batch(
            gpu,
            model,
            seq_len=length,
            decode_len=0,
            tp=config.tp,
            experts_on_device=experts,
            pp=config.pp,
            draft=draft_of(model, settings),
        )
        return max(0, int(np.floor(sequences)))
    fits = memory.max_prompts(context, longest=length, tp=config.tp, experts_on_device=experts, pp=config.pp)
    fresh = length * (1 - float(as_array(shape_hits(context, length, config))))
    # A prompt longer than the budget goes in chunks, by itself.
    budget = max(1, settings.max_tokens_per_step // max(1.0, fresh))
    return int(np.clip(np.floor(fits), 0, budget))


def _explained(
    context: CostContext,
    phase: Phase,
    config: ParallelConfig,
    length: int,
    batch: int,
) -> StepExplanation:
    gpu, model, settings = context.gpu, context.model, context.settings
    steps = _steps_of(context, phase, config, length, batch)
    # Of a pipeline as many steps are under way at once as it has stages.
    tokens = batch * (length if phase is Phase.PREFILL else 1) * (config.pp if phase is Phase.PREFILL else 1)
    cache = memory.cache_gb(model, length=length, batch=batch, tp=config.tp, pp=config.pp)
    explained = explained_pass(
        context,
        config,
        step_cost(context, steps),
        step_limit(context, steps),
        phase=phase,
        length=length,
        batch=batch,
        tokens=tokens,
        cache_gb=float(cache),
    )
    return replace(explained, band=band_of(gpu, model, phase, settings))


def explained_pass(
    context: CostContext,
    config: ParallelConfig,
    cost: StepCost,
    limits: StepCost,
    *,
    phase: Phase,
    length: int,
    batch: int,
    tokens: float,
    cache_gb: float,
) -> StepExplanation:
    """The explanation of a pass that does so many `tokens` of a group, beside that at its limits, without a band."""
    gpu, model, settings = context.gpu, context.model, context.settings
    parts, total = _parts(cost, limits), float(cost.total_ms)
    origin, source = origin_of(gpu, model, phase, settings)
    per_gpu = tokens * config.dp * MS_PER_S / config.devices
    experts = memory.experts_on_device(model, settings, config.stage_devices)
    return StepExplanation(
        gpu=gpu.name,
        model=model.name,
        phase=phase,
        parallel=config,
        length=length,
        batch=batch,
        parts=parts,
        step_ms=sum(part.ms for part in parts) - float(cost.hidden_ms),
        hidden_ms=float(cost.hidden_ms),
        waiting=float(cost.waiting),
        pace=float(cost.pace),
        total_ms=total,
        tokens_per_s_per_gpu=per_gpu / total,
        roofline_tokens_per_s_per_gpu=per_gpu / float(limits.total_ms),
        bound=_bound(parts),
        weights_gb=float(
            memory.weights_gb(
                model, tp=config.tp, experts_on_device=experts, pp=config.pp, draft=draft_of(model, settings)
            )
        ),
        cache_gb=cache_gb,
        usable_gb=memory.usable_gb(gpu),
        peak_tflops=_peaks(gpu),
        memory_gb_s=gpu.memory_gb_s,
        origin=origin,
        origin_source=source,
        factors=tuple(_factor(name, context) for name in FACTOR_NAMES),
    )


def _steps_of(context: CostContext, phase: Phase, config: ParallelConfig, length: int, batch: int) -> Steps:
    cached = shape_hits(context, length, config)
    return Steps.at(phase, config.tp, config.dp, config.pp, length=length, batch=batch, cached=cached)


def _factor(name: str, context: CostContext) -> Factor:
    """The factor, with the origin that it has here."""
    factor = merged(context.settings.calibration).factor(name, context.gpu.family, vendor_family(context.gpu))
    return replace(factor, origin=factor.origin_for(context.gpu.name, context.model.name), source=factor.provenance)


def _parts(cost: StepCost, limits: StepCost) -> tuple[PartOfStep, ...]:
    return tuple(
        PartOfStep(
            name=part.name,
            ms=float(part.ms),
            formula_ms=float(part.formula_ms),
            limit_ms=float(limit_ms(limit)),
            compute_ms=float(part.compute_ms),
            memory_ms=float(part.memory_ms),
            network_ms=float(part.network_ms),
            latency_ms=float(part.latency_ms),
            bound=part.bound,
            flops=float(part.flops),
            bytes=float(part.bytes),
            **_measured(part),
        )
        for part, limit in zip(cost.parts, limits.parts, strict=True)
        if float(part.ms) > 0
    )


def _measured(part: Part) -> dict[str, Any]:
    """What measured kernels say of it; nothing where they have no answer."""
    if part.kernel is None or not np.isfinite(part.kernel.ms):
        return {}
    return {"measured_ms": float(part.kernel.ms), "basis": Basis(int(part.kernel.basis)).name.lower()}


def _bound(parts: Sequence[PartOfStep]) -> str:
    """What takes the largest share of the step."""
    shares = dict.fromkeys(BOUNDS, 0.0)
    for part in parts:
        # Both run side by side, so the longer one is what the part takes.
        shares["compute" if part.compute_ms >= part.memory_ms else "memory"] += max(part.compute_ms, part.memory_ms)
        shares["network"] += part.network_ms
        shares["latency"] += part.latency_ms
    return max(shares, key=lambda bound: shares[bound])


def _peaks(gpu: GpuSpec) -> tuple[tuple[str, float], ...]:
    listed = (("FP16", gpu.fp16_tflops), ("FP8", gpu.fp8_tflops), ("FP4", gpu.fp4_tflops))
    return tuple((name, rate) for name, rate in listed if rate > 0)


def compare_configurations(
    gpu: GpuSpec | str,
    model: ModelSpec | str,
    phase: Phase | str,
    *,
    size: int,
    lengths: Sequence[int],
    mean_output_tokens: float = 100,
    max_output_tokens: int = 1000,
    settings: CostSettings | None = None,
) -> tuple[ConfigurationRates, ...]:
    """Every parallel configuration of an island of `size` GPUs over prompt `lengths` (the paper's figures 4.3, 4.4)."""
    spec = catalog.gpu(gpu) if isinstance(gpu, str) else gpu
    shape = catalog.model(model) if isinstance(model, str) else model
    chosen, half = settings or CostSettings(), one_half(phase)
    require_figures(spec)
    if lengths and max(lengths) > shape.max_context:
        raise InputError(
            f"lengths: must be at most the {shape.max_context} tokens of context of {shape.name}, got {max(lengths)}.",
            hint="Leave it out.",
        )
    if chosen.mode is CostMode.REFERENCE and chosen.calibration:
        raise InputError("calibration: is of no use in reference mode.", hint="Leave it out, or use mode default.")
    workload = _workload(lengths, mean_output_tokens, max_output_tokens)
    if chosen.mode is CostMode.REFERENCE:
        configs = reference_configurations(half, size)
        grid = reference_rates(half, spec, shape, chosen, workload, configs)
        copies = np.ones(len(configs))
    else:
        context = CostContext(gpu=spec, model=shape, settings=chosen)
        configs = configurations(context, size)
        of_phase = prefill_rates if half is Phase.PREFILL else decode_rates
        backend = open_backend(context)
        grid = of_phase(backend, context, workload, Degrees.of(configs))
        copies = np.array([config.replicas for config in configs])
    return tuple(
        ConfigurationRates(
            gpu=spec.name,
            phase=half,
            parallel=config,
            lengths=tuple(int(length) for length in lengths),
            rates_rps=tuple((grid.rates_rps[k] * copies[k]).tolist()),
            batch_sizes=tuple(grid.batch_sizes[k].astype(int).tolist()),
        )
        for k, config in enumerate(configs)
    )


def _workload(lengths: Sequence[int], mean_output_tokens: float, max_output_tokens: int) -> Workload:
    if len(lengths) == 0:
        raise InputError("lengths: must name at least one prompt length, got none.", hint="Give some.")
    require_at_least(list(lengths), 1, "lengths")
    ranges = tuple(
        LengthRange(
            start=int(n) - 1,
            end=int(n) + 1,
            midpoint=int(n),
            probability=1 / len(lengths),
            mean_input_tokens=float(n),
            longest_input_tokens=int(n),
        )
        for n in lengths
    )
    return Workload(
        name="lengths",
        ranges=ranges,
        mean_input_tokens=float(np.mean(lengths)),
        mean_output_tokens=mean_output_tokens,
        max_output_tokens=max_output_tokens,
    )
