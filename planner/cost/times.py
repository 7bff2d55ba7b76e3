"""The cost stage's public functions on single configurations: names or records in, breakdowns out."""

import numpy as np

from planner import catalog
from planner.cost import memory
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.decode import DecodeTime, decode_step
from planner.cost.prefill import PrefillTime, prefill_step
from planner.cost.rules import Rules, rules_of
from planner.domain import CostMode, GpuSpec, ModelSpec
from planner.errors import InputError

DEFAULT_MODEL = "deepseek-v3"


def prefill_time(
    gpu: GpuSpec | str,
    seq_len: Numbers,
    *,
    tp: Numbers,
    dp: Numbers,
    kv_cache_rate: Numbers = 0.0,
    prompts_per_rank: Numbers = 1,
    model: ModelSpec | str = DEFAULT_MODEL,
    mode: CostMode | str = CostMode.DEFAULT,
) -> PrefillTime:
    """Time of one prefill step (ms) on tp*dp GPUs.

    Each of `dp` ranks carries `prompts_per_rank` prompts of `seq_len` tokens, of which the share `kv_cache_rate` is
    in the prefix cache. Lengths, degrees and rates may be arrays that broadcast. `gpu` and `model` are records or
    names. Raises InputError on unknown names and on values outside their domain.
    """
    rules = _rules(mode)
    _at_least(seq_len, 1, "seq_len")
    _whole(tp, "tp")
    _whole(dp, "dp")
    _whole(prompts_per_rank, "prompts_per_rank")
    _share(kv_cache_rate, "kv_cache_rate")
    _one_shape(seq_len, tp, dp, prompts_per_rank, kv_cache_rate)
    return prefill_step(
        _gpu(gpu),
        _model(model),
        rules,
        seq_len=seq_len,
        tp=tp,
        dp=dp,
        kv_cache_rate=kv_cache_rate,
        prompts_per_rank=prompts_per_rank,
    )


def decode_time(
    gpu: GpuSpec | str,
    seq_len: Numbers,
    *,
    tp: Numbers,
    batch_size: Numbers,
    devices: Numbers,
    experts_per_device: Numbers | None = None,
    fp8_combine: bool = False,
    model: ModelSpec | str = DEFAULT_MODEL,
    mode: CostMode | str = CostMode.DEFAULT,
) -> DecodeTime:
    """Time per output token (ms) on a replica of `devices` GPUs in attention groups of `tp`.

    `seq_len` tokens are in the KV cache. `batch_size` is per attention group (default) or per GPU (reference).
    `experts_per_device` defaults to ceil(E/devices). Arrays broadcast. Raises InputError as `prefill_time` does.
    """
    rules = _rules(mode)
    _at_least(seq_len, 0, "seq_len")
    _whole(tp, "tp")
    _at_least(batch_size, 1, "batch_size")
    _whole(devices, "devices")
    if experts_per_device is not None:
        _whole(experts_per_device, "experts_per_device")
    _one_shape(seq_len, tp, batch_size, devices, experts_per_device if experts_per_device is not None else 1)
    if not rules.batch_per_gpu and not np.all(as_array(devices) % as_array(tp) == 0):
        raise InputError(f"tp: must divide devices, {devices!r}, got {tp!r}.", hint="Mend the call.")
    return decode_step(
        _gpu(gpu),
        _model(model),
        rules,
        seq_len=seq_len,
        tp=tp,
        batch_size=batch_size,
        devices=devices,
        experts_per_device=experts_per_device,
        fp8_combine=fp8_combine,
    )


def max_batch_size(
    gpu: GpuSpec | str,
    seq_len: Numbers,
    decode_len: Numbers,
    *,
    tp: Numbers,
    experts_on_device: Numbers,
    model: ModelSpec | str = DEFAULT_MODEL,
    mode: CostMode | str = CostMode.DEFAULT,
) -> Array:
    """Most sequences of `seq_len` + `decode_len` tokens whose KV fits beside `experts_on_device` experts (with shared).

    Not rounded; negative where not even the weights fit. Per attention group (default) or per GPU (reference).
    """
    rules = _rules(mode)
    _at_least(seq_len, 0, "seq_len")
    _at_least(decode_len, 0, "decode_len")
    _at_least(as_array(seq_len) + as_array(decode_len), 1, "seq_len + decode_len")
    _whole(tp, "tp")
    _at_least(experts_on_device, 0, "experts_on_device")
    return memory.max_batch(
        _gpu(gpu),
        _model(model),
        rules,
        seq_len=seq_len,
        decode_len=decode_len,
        tp=tp,
        experts_on_device=experts_on_device,
    )


def _gpu(gpu: GpuSpec | str) -> GpuSpec:
    if not isinstance(gpu, GpuSpec | str):
        raise InputError(f"gpu: must be a GpuSpec or a name, got {gpu!r}.", hint="Mend the call.")
    return catalog.gpu(gpu) if isinstance(gpu, str) else gpu


def _model(model: ModelSpec | str) -> ModelSpec:
    if not isinstance(model, ModelSpec | str):
        raise InputError(f"model: must be a ModelSpec or a name, got {model!r}.", hint="Mend the call.")
    return catalog.model(model) if isinstance(model, str) else model


def _rules(mode: CostMode | str) -> Rules:
    try:
        return rules_of(CostMode(mode))
    except ValueError:
        raise InputError(
            f"cost mode: must be one of {', '.join(CostMode)}, got {mode!r}.", hint="Choose one of them."
        ) from None


def _at_least(numbers: Numbers, least: float, name: str) -> None:
    values = _numeric(numbers, name)
    if values.size == 0 or not np.all(np.isfinite(values) & (values >= least)):
        raise InputError(f"{name}: must be finite and at least {least:g}, got {numbers!r}.", hint="Mend the call.")


def _whole(numbers: Numbers, name: str) -> None:
    """At least 1, and no fraction of a GPU."""
    _at_least(numbers, 1, name)
    if not np.all(as_array(numbers) % 1 == 0):
        raise InputError(f"{name}: must be a whole number, got {numbers!r}.", hint="Mend the call.")


def _numeric(numbers: Numbers, name: str) -> Array:
    try:
        if isinstance(numbers, str | bytes | bool):
            raise TypeError
        return as_array(numbers)
    except (TypeError, ValueError):
        raise InputError(
            f"{name}: must be a number or an array of numbers, got {numbers!r}.", hint="Mend the call."
        ) from None


def _one_shape(*arguments: Numbers) -> None:
    shapes = [as_array(argument).shape for argument in arguments]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise InputError(f"arguments: arrays must broadcast, got shapes {shapes}.", hint="Mend the call.") from None


def _share(numbers: Numbers, name: str) -> None:
    values = _numeric(numbers, name)
    if not np.all(np.isfinite(values) & (values >= 0) & (values < 1)):
        raise InputError(f"{name}: must lie in [0, 1), got {numbers!r}.", hint="Give the share of cached tokens.")
