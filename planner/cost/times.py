"""The cost stage's public functions on single configurations: names or records in, breakdowns out."""

from dataclasses import replace

import numpy as np

from planner.cost import memory, reference
from planner.cost.arguments import require_at_least, require_fit, require_one_shape, require_share, require_whole
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.device import CostContext, require_figures
from planner.cost.parallelism import require_configuration, require_drafts
from planner.cost.parts import DecodeTime, PrefillTime, StepCost
from planner.cost.step import Steps, step_cost
from planner.domain import CostMode, CostSettings, GpuSpec, ModelSpec, ParallelConfig, Phase
from planner.errors import InputError
from planner.files import catalog

DEFAULT_MODEL = "deepseek-v3"


def prefill_time(
    gpu: GpuSpec | str,
    seq_len: Numbers,
    *,
    tp: Numbers,
    dp: Numbers,
    pp: Numbers = 1,
    kv_cache_rate: Numbers = 0.0,
    prompts_per_rank: Numbers = 1,
    model: ModelSpec | str = DEFAULT_MODEL,
    mode: CostMode | str = CostMode.DEFAULT,
    settings: CostSettings | None = None,
) -> PrefillTime:
    """Time in which `dp` ranks of `tp` GPUs take in prompts, `prompts_per_rank` of `seq_len` tokens each (ms).

    `kv_cache_rate` of a prompt is in the prefix cache; prompts beyond the settings' token budget are taken in chunks.
    Lengths and degrees may be arrays that broadcast. `gpu` and `model` are records or names; `settings` hold the other
    conditions; `mode` and `kv_cache_rate` stand here, not there.
    Raises InputError on unknown names and on values that the GPU or the model cannot have, InfeasibleError where
    weights, cache and activations do not fit (reference mode does not look).
    """
    chosen = _settings(settings, mode)
    spec, shape = _gpu(gpu), _model(model)
    require_at_least(seq_len, 1, "seq_len")
    for numbers, name in ((tp, "tp"), (dp, "dp"), (pp, "pp"), (prompts_per_rank, "prompts_per_rank")):
        require_whole(numbers, name)
    require_share(kv_cache_rate, "kv_cache_rate")
    require_one_shape(seq_len, tp, dp, pp, prompts_per_rank, kv_cache_rate)
    if chosen.mode is CostMode.REFERENCE:
        return reference.prefill_step(
            spec,
            shape,
            seq_len=seq_len,
            tp=tp,
            dp=dp,
            kv_cache_rate=kv_cache_rate,
            prompts_per_rank=prompts_per_rank,
        )
    steps = Steps.at(Phase.PREFILL, tp, dp, pp, length=seq_len, batch=prompts_per_rank, cached=kv_cache_rate)
    context = CostContext(gpu=spec, model=shape, settings=chosen)
    _require(context, steps)
    cost = step_cost(context, steps)
    return PrefillTime(**_per_layer(shape, cost), **_sums(cost), total_ms=cost.total_ms)


def decode_time(
    gpu: GpuSpec | str,
    seq_len: Numbers,
    *,
    tp: Numbers,
    batch_size: Numbers,
    devices: Numbers,
    pp: Numbers = 1,
    experts_per_device: Numbers | None = None,
    fp8_combine: bool = False,
    model: ModelSpec | str = DEFAULT_MODEL,
    mode: CostMode | str = CostMode.DEFAULT,
    settings: CostSettings | None = None,
) -> DecodeTime:
    """Time per output token (ms) on a replica of `pp` stages of `devices` GPUs in attention groups of `tp`.

    `seq_len` tokens are in the KV cache. `batch_size` sequences are on each attention group (default) or each GPU
    (reference), `batch_size / tp` of them fall to each GPU's experts and all-to-all. `experts_per_device` and
    `fp8_combine` belong to reference mode; by default experts are ceil((E + redundant) / devices).
    Arrays broadcast. Raises InputError as `prefill_time` does.
    """
    chosen = _settings(settings, mode)
    spec, shape = _gpu(gpu), _model(model)
    require_at_least(seq_len, 0, "seq_len")
    require_at_least(batch_size, 1, "batch_size")
    for numbers, name in ((tp, "tp"), (devices, "devices"), (pp, "pp")):
        require_whole(numbers, name)
    if experts_per_device is not None:
        require_whole(experts_per_device, "experts_per_device")
    require_one_shape(seq_len, tp, batch_size, devices, pp, 1 if experts_per_device is None else experts_per_device)
    if chosen.mode is CostMode.REFERENCE:
        return reference.decode_step(
            spec,
            shape,
            seq_len=seq_len,
            tp=tp,
            batch_size=batch_size,
            devices=devices,
            experts_per_device=experts_per_device,
            fp8_combine=fp8_combine,
        )
    if experts_per_device is not None or fp8_combine:
        raise InputError(
            "experts_per_device, fp8_combine: are of reference mode only.",
            hint="By default experts follow from devices and settings.redundant_experts.",
        )
    if not np.all(as_array(devices) % as_array(tp) == 0):
        raise InputError(f"tp: must divide devices, {devices!r}, got {tp!r}.", hint="Mend the call.")
    groups = as_array(devices) / as_array(tp)
    steps = Steps.at(Phase.DECODE, tp, groups, pp, length=seq_len, batch=batch_size)
    context = CostContext(gpu=spec, model=shape, settings=chosen)
    _require(context, steps)
    cost = step_cost(context, steps)
    # What communication adds that computation does not hide.
    exposed = cost.part("dispatch").ms + cost.part("combine").ms - cost.hidden_ms if shape.experts else as_array(0.0)
    return DecodeTime(
        **_per_layer(shape, cost), overlapped_ms=cost.total_ms - exposed * cost.scale, total_ms=cost.total_ms
    )


def max_batch_size(
    gpu: GpuSpec | str,
    seq_len: Numbers,
    decode_len: Numbers,
    *,
    tp: Numbers,
    experts_on_device: Numbers,
    pp: Numbers = 1,
    model: ModelSpec | str = DEFAULT_MODEL,
    mode: CostMode | str = CostMode.DEFAULT,
) -> Array:
    """Most sequences of `seq_len` + `decode_len` tokens whose KV fits beside `experts_on_device` experts (with shared).

    Not rounded; 0 where not even the weights fit (in reference mode negative, as the published simulator has it). Per
    attention group (default) or per GPU (reference).
    """
    require_at_least(seq_len, 0, "seq_len")
    require_at_least(decode_len, 0, "decode_len")
    require_at_least(as_array(seq_len) + as_array(decode_len), 1, "seq_len + decode_len")
    require_whole(tp, "tp")
    require_whole(pp, "pp")
    require_at_least(experts_on_device, 0, "experts_on_device")
    spec, shape = _gpu(gpu), _model(model)
    require_figures(spec)
    if _settings(None, mode).mode is CostMode.REFERENCE:
        return reference.max_batch(
            spec, shape, seq_len=seq_len, decode_len=decode_len, tp=tp, experts_on_device=experts_on_device
        )
    sequences = memory.max_batch(
        spec, shape, seq_len=seq_len, decode_len=decode_len, tp=tp, experts_on_device=experts_on_device, pp=pp
    )
    return np.maximum(sequences, 0.0)


def _gpu(gpu: GpuSpec | str) -> GpuSpec:
    if not isinstance(gpu, GpuSpec | str):
        raise InputError(f"gpu: must be a GpuSpec or a name, got {gpu!r}.", hint="Mend the call.")
    return catalog.gpu(gpu) if isinstance(gpu, str) else gpu


def _model(model: ModelSpec | str) -> ModelSpec:
    if not isinstance(model, ModelSpec | str):
        raise InputError(f"model: must be a ModelSpec or a name, got {model!r}.", hint="Mend the call.")
    return catalog.model(model) if isinstance(model, str) else model


def _settings(settings: CostSettings | None, mode: CostMode | str) -> CostSettings:
    try:
        chosen = CostMode(mode)
    except ValueError:
        raise InputError(
            f"cost mode: must be one of {', '.join(CostMode)}, got {mode!r}.", hint="Choose one of them."
        ) from None
    return replace(settings or CostSettings(), mode=chosen)


def _require(context: CostContext, steps: Steps) -> None:
    """Every asked-for configuration must suit the GPU and the model, every length the context, all of it the memory."""
    gpu, model, settings = context.gpu, context.model, context.settings
    require_figures(gpu)
    require_drafts(model, settings)
    longest = float(np.max(steps.length))
    if longest > model.max_context:
        raise InputError(
            f"seq_len: must be at most the {model.max_context} tokens of context of {model.name}, got {longest:g}.",
            hint="Shorten it, or choose a model with a longer context.",
        )
    # Each set of degrees once: arrays over lengths repeat them.
    for tp, dp, pp in {tuple(row) for row in _degrees(steps).tolist()}:
        require_configuration(context, ParallelConfig(tp=int(tp), dp=int(dp), pp=int(pp)))
    require_fit(context, steps)


def _degrees(steps: Steps) -> Array:
    columns = np.broadcast_arrays(steps.tp, steps.dp, steps.pp)
    return np.stack([np.ravel(column) for column in columns], axis=1)


def _per_layer(model: ModelSpec, cost: StepCost) -> dict[str, Array]:
    """A step's parts, per layer that has them."""
    every = sum(cost.part(name).ms for name in ("projections", "attention", "all-reduce", "small kernels"))
    moe, dense = max(model.moe_layers, 1), max(model.dense_layers, 1)
    experts = {
        key: as_array(cost.part(name).ms / moe) if model.experts else as_array(0.0)
        for key, name in (
            ("shared_ms", "shared experts"),
            ("routed_ms", "routed experts"),
            ("dispatch_ms", "dispatch"),
            ("combine_ms", "combine"),
        )
    }
    attention = as_array(every / model.layers)
    return {
        "attention_ms": attention,
        "dense_attention_ms": attention,
        "dense_ms": as_array(cost.part("dense").ms / dense),
        **experts,
    }


def _sums(cost: StepCost) -> dict[str, Array]:
    talking = ("dispatch", "combine")
    return {
        "compute_ms": as_array(sum(part.ms for part in cost.parts if part.name not in talking)),
        "comm_ms": as_array(sum((part.ms for part in cost.parts if part.name in talking), start=as_array(0.0))),
    }
