"""Where step times come from: one small seam, two sources, the formulas and a user's profile.

A profile answers by linear interpolation between measured (length, batch), never beyond them. For each phase and
parallel configuration the measured points span an area of length and batch; within it the time is interpolated on a
triangulation, outside it is NaN. Points that differ in length only, or in batch only, span a line.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from planner.cost.arrays import Array
from planner.cost.device import CostContext
from planner.cost.step import Steps, step_cost, step_ms
from planner.domain import CostSettings, CostSource, Measurement, ModelSpec, Phase
from planner.errors import InputError

_Degrees = tuple[Phase, int, int, int]
_BETWEEN = 33  # batches tried between the smallest and the largest that were measured
_SAME = 1e-9  # relative distance at which a coordinate counts as measured


class TabulatedBackend:
    """The measurements of one GPU type and model, ready to be looked up."""

    def __init__(self, gpu: str, model: str, profile: Sequence[Measurement]) -> None:
        rows = [m for m in profile if (m.gpu, m.model) == (gpu, model)]
        if not rows:
            profiled = sorted({f"{m.model} on {m.gpu}" for m in profile})
            raise InputError(
                f"cost.profile: must have measurements of {model} on {gpu} under the scenario's conditions, got "
                f"{', '.join(profiled) or 'none'}.",
                hint="Add rows for it, leave the GPU out of the inventory, or use cost.source analytic.",
            )
        points: dict[_Degrees, list[Measurement]] = defaultdict(list)
        for row in rows:
            points[row.phase, row.tp, row.dp, row.pp].append(row)
        self._about = f"{model} on {gpu}"
        self._curves = {degrees: _Curve(measurements) for degrees, measurements in points.items()}

    def require_coverage(self, phase: Phase, lengths: Array) -> None:
        """Raises InputError where no measured configuration of `phase` answers for any of `lengths` at any batch."""
        curves = [curve for (of, *_), curve in self._curves.items() if of is phase]
        if not any(bool((curve.largest_batch(lengths) > 0).any()) for curve in curves):
            raise InputError(
                f"cost.profile: must cover some length of {float(lengths.min()):g} to {float(lengths.max()):g} tokens "
                f"in {phase} of {self._about}; it covers none.",
                hint="Measure at the workload's lengths, leave the GPU out, or use cost.source analytic.",
            )

    def step_ms(self, steps: Steps, /) -> Array:
        """Interpolated times; NaN outside of what was measured. See CostBackend."""
        shape = np.broadcast_shapes(*(a.shape for a in (steps.tp, steps.dp, steps.pp, steps.length, steps.batch)))
        length, batch = np.broadcast_to(steps.length, shape), np.broadcast_to(steps.batch, shape)
        ms = np.full(shape, np.nan)
        for here, curve in self._matches(steps, shape):
            ms[here] = curve.ms(length[here], batch[here])
        return ms

    def largest_batch(self, steps: Steps, /) -> Array:
        """The largest batch that has an answer at each length; 0 where there is none."""
        shape = np.broadcast_shapes(steps.tp.shape, steps.dp.shape, steps.pp.shape, steps.length.shape)
        length = np.broadcast_to(steps.length, shape)
        largest = np.zeros(shape)
        for here, curve in self._matches(steps, shape):
            largest[here] = curve.largest_batch(length[here])
        return largest

    def server_ms(self, steps: Steps, /) -> Array:
        """Times that no step of a server passes: inf where a length or batch is beyond what was measured.

        A step of fewer sequences or shorter ones takes no longer than the least that was measured; of more prompts than
        were measured at once, no longer than so many steps of the most. Decode has no such way out.
        """
        shape = np.broadcast_shapes(*(a.shape for a in (steps.tp, steps.dp, steps.pp, steps.length, steps.batch)))
        length, batch = np.broadcast_to(steps.length, shape), np.broadcast_to(steps.batch, shape)
        ms = np.full(shape, np.inf)
        for here, curve in self._matches(steps, shape):
            ms[here] = curve.most_ms(length[here], batch[here], in_turn=steps.phase is Phase.PREFILL)
        return ms

    def _matches(self, steps: Steps, shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, "_Curve"]]:
        """Where in `shape` each measured configuration is asked for."""
        tp, dp, pp = (np.broadcast_to(a, shape) for a in (steps.tp, steps.dp, steps.pp))
        for (phase, *degrees), curve in self._curves.items():
            here = (tp == degrees[0]) & (dp == degrees[1]) & (pp == degrees[2])
            if phase is steps.phase and here.any():
                yield here, curve


class _Curve:
    """Time over (length, batch) of one configuration."""

    def __init__(self, rows: Sequence[Measurement]) -> None:
        mean: dict[tuple[float, float], list[float]] = defaultdict(list)
        for row in rows:
            mean[float(row.length), float(row.batch)].append(row.ms)  # repeated measurements count by their mean
        self._points = np.array(sorted(mean))
        self._ms = np.array([np.mean(mean[tuple(point)]) for point in self._points.tolist()])
        self._interpolate = _interpolation(self._points, self._ms)

    def ms(self, length: Array, batch: Array) -> Array:
        """Interpolated time; NaN outside."""
        return self._interpolate(np.asarray(length, dtype=float), np.asarray(batch, dtype=float))

    def most_ms(self, length: Array, batch: Array, *, in_turn: bool) -> Array:
        """As `TabulatedBackend.server_ms`; `in_turn`: a larger batch is taken in by several steps."""
        lengths, place = np.unique(np.maximum(length, self._points[:, 0].min()), return_inverse=True)
        smallest, largest = (bound[place] for bound in self._batches(lengths))
        ms = self.ms(lengths[place], np.clip(batch, smallest, np.maximum(smallest, largest)))
        steps = np.maximum(1.0, batch / np.maximum(largest, 1.0))
        answered = np.isfinite(ms) & (largest > 0) & (in_turn | (batch <= largest))
        return np.where(answered, ms * steps, np.inf)

    def largest_batch(self, length: Array) -> Array:
        """The largest batch with an answer at each length, measured ones and some between; 0 where there is none."""
        return self._batches(length)[1]

    def _batches(self, length: Array) -> tuple[Array, Array]:
        """The least and the largest batch with an answer at each length; 0 where there is none."""
        smallest, largest = np.zeros(length.shape), np.zeros(length.shape)
        measured = self._points[:, 1]
        between = np.floor(np.geomspace(measured.min(), measured.max(), _BETWEEN))
        # Ascending, so that the largest with an answer stays.
        for batch in np.union1d(measured, between):
            answered = np.isfinite(self.ms(length, np.full(length.shape, batch)))
            smallest = np.where(answered & (smallest == 0), batch, smallest)
            largest[answered] = batch
        return smallest, largest


def _interpolation(points: Array, ms: Array) -> Callable[[Array, Array], Array]:
    """The interpolation that the points allow: over an area, along a line, or of one point alone."""
    spread = np.ptp(points, axis=0)
    if np.count_nonzero(spread) < 2:
        return _along_a_line(points, ms, int(np.argmax(spread)))
    # Points on one slope span no triangle.
    if np.linalg.matrix_rank((points - points[0]) / spread) < 2:
        return _along_a_slope(points, ms)
    from scipy.interpolate import LinearNDInterpolator  # noqa: PLC0415  (slow to load, seldom needed)

    # Tokens are thousands and batches tens: as they are, triangles would be slivers.
    surface = LinearNDInterpolator(points, ms, rescale=True)
    return lambda length, batch: np.asarray(surface(length, batch))


def _along_a_line(points: Array, ms: Array, axis: int) -> Callable[[Array, Array], Array]:
    """Points that differ in one coordinate only."""
    fixed = points[0, 1 - axis]

    def time(length: Array, batch: Array) -> Array:
        moving, still = (length, batch) if axis == 0 else (batch, length)
        times = np.interp(moving, points[:, axis], ms, left=np.nan, right=np.nan)
        return np.where(np.abs(still - fixed) <= _SAME * fixed, times, np.nan)

    return time


def _along_a_slope(points: Array, ms: Array) -> Callable[[Array, Array], Array]:
    """Points on one straight line that follows neither axis."""

    def time(length: Array, batch: Array) -> Array:
        times = np.interp(length, points[:, 0], ms, left=np.nan, right=np.nan)
        expected = np.interp(length, points[:, 0], points[:, 1])
        return np.where(np.abs(batch - expected) <= _SAME * expected, times, np.nan)

    return time


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
