"""Where step times come from: one small seam, two sources."""

from typing import Protocol

import numpy as np

from planner.cost.arrays import Array
from planner.cost.device import CostContext
from planner.cost.step import Steps, step_cost, step_ms
from planner.cost.tabulated import TabulatedBackend
from planner.domain import CostSettings, CostSource, Measurement, ModelSpec


class CostBackend(Protocol):
    """Times of steps of one model on one GPU type."""

    def step_ms(self, steps: Steps, /) -> Array:
        """Prefill: time in which each rank takes in its prompts. Decode: time per output token. Shape: `steps`' own.

        NaN where the source has no answer; never a guess. (ms)
        """
        ...

    def largest_batch(self, steps: Steps, /) -> Array:
        """Largest batch that the source answers for at these degrees and lengths; inf where it knows no limit."""
        ...


class AnalyticBackend:
    """The formulas, with the settings' calibration."""

    def __init__(self, context: CostContext) -> None:
        self._context = context

    def step_ms(self, steps: Steps, /) -> Array:
        """Times by formula; see CostBackend."""
        return step_ms(self._context, steps)

    def largest_batch(self, steps: Steps, /) -> Array:
        """No limit of its own: memory sets it."""
        return np.full(np.broadcast_shapes(steps.tp.shape, steps.dp.shape, steps.pp.shape, steps.length.shape), np.inf)


def open_backend(context: CostContext) -> CostBackend:
    """The source that the settings name. Raises InputError where a profile has nothing on this GPU and model."""
    gpu, model, settings = context.gpu, context.model, context.settings
    if settings.source is CostSource.TABULATED:
        return TabulatedBackend(gpu.name, model.name, [m for m in settings.profile if _suits(m, model, settings)])
    return AnalyticBackend(context)


def server_step_ms(context: CostContext, steps: Steps, *, overlapped: bool) -> Array:
    """Times of steps of a server, by formula or no longer than a profile's; inf where that has no answer. A profile was
    measured as the servers run, so its times are those of either way of communicating."""
    backend = open_backend(context)
    if isinstance(backend, TabulatedBackend):
        return backend.server_ms(steps)
    return np.asarray(step_cost(context, steps, overlap=overlapped).total_ms)


def _suits(m: Measurement, model: ModelSpec, settings: CostSettings) -> bool:
    """Whether a measurement was made under the conditions asked for; one that states none is taken at its word."""
    stated = (
        (m.kv_cache_rate, settings.kv_cache_rate),
        (m.two_micro_batches, settings.two_micro_batches),
        (m.balanced, settings.balanced_experts),
        (m.kv_bytes, model.kv_bytes),
    )
    return all(value is None or value == setting for value, setting in stated)
