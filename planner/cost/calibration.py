"""Measured step times: predicted, and refused where nothing could have made them."""

from dataclasses import replace

from planner.cost import memory
from planner.cost.device import CostContext
from planner.cost.limits import step_limit
from planner.cost.parallelism import require_configuration
from planner.cost.step import Steps, step_cost
from planner.domain import (
    Calibration,
    CostSettings,
    GpuSpec,
    Measurement,
    ModelSpec,
    ParallelConfig,
    Phase,
)
from planner.errors import InputError


def predict_ms(
    measurement: Measurement, gpu: GpuSpec, model: ModelSpec, calibration: Calibration | None = None
) -> float:
    """The time of a measured step under its own conditions: by kernels of its engine, without one by formulas alone."""
    m = measurement
    settings = CostSettings(calibration=calibration, balanced_experts=bool(m.balanced), engine=m.engine)
    shape = model if m.kv_bytes is None else replace(model, kv_bytes=m.kv_bytes)
    context = CostContext(gpu=gpu, model=shape, settings=settings)
    return float(step_cost(context, _steps(m), overlap=m.two_micro_batches).total_ms)


def _steps(m: Measurement) -> Steps:
    return Steps.at(m.phase, m.tp, m.dp, m.pp, length=m.length, batch=m.batch, cached=m.kv_cache_rate or 0.0)


def require_possible(m: Measurement, gpu: GpuSpec, model: ModelSpec) -> None:
    """Raises InputError, with the row, where a measurement cannot have been made: degrees, length, memory, roofline."""
    context = CostContext(gpu=gpu, model=model, settings=CostSettings())
    try:
        require_configuration(context, ParallelConfig(tp=m.tp, dp=m.dp, pp=m.pp))
    except InputError as error:
        raise InputError(f"measurements: row {m.row}: {error.message}", hint=error.hint) from None
    if m.length > model.max_context:
        raise _impossible(
            m, f"length must be at most the {model.max_context} tokens of context of {model.name}", m.length
        )
    experts = memory.experts_on_device(model, CostSettings(), m.tp * m.dp)
    if float(memory.weights_gb(model, tp=m.tp, experts_on_device=experts, pp=m.pp)) > gpu.device_gb:
        raise _impossible(m, f"the weights of {model.name} must fit on {m.tp * m.dp * m.pp} {gpu.name}", "too few GPUs")
    shape = model if m.kv_bytes is None else replace(model, kv_bytes=m.kv_bytes)
    cache = float(memory.cache_gb(shape, length=m.length, batch=m.batch, tp=m.tp, pp=m.pp))
    if m.phase is Phase.DECODE and cache > gpu.device_gb:
        raise _impossible(
            m, f"the cache of the batch must fit on one {gpu.name}, {gpu.device_gb:.0f} GB", f"{cache:.0f} GB"
        )
    # Under the kindest conditions: faster than that it cannot have been.
    context = CostContext(gpu=gpu, model=shape, settings=CostSettings(balanced_experts=True))
    least_ms = float(step_limit(context, _steps(m)).total_ms)
    if m.ms < least_ms:
        raise _impossible(m, f"ms must be at least what the data sheet allows, {least_ms:.4g}", m.ms)


def _impossible(m: Measurement, rule: str, value: object) -> InputError:
    return InputError(f"measurements: row {m.row}: {rule}, got {value}.", hint="Mend or remove the row.")
