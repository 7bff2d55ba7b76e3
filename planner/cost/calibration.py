"""Fitting the few free factors to measured step times.

| symbol | meaning | unit |
|---|---|---|
| t[i], m[i] | predicted and measured time of measurement i | ms |
| x[k], c[k] | logarithm of free factor k, and of its value before the fit | 1 |
| sigma[k] | how far factor k may be expected to move | 1 |
| TRUST | how far a measurement may be expected to be off | 1 |

minimise sum_i (log(t[i]/m[i]) / TRUST)^2 + sum_k ((x[k] - c[k]) / sigma[k])^2
A factor of one family moves around that of all families where both are free, so that what is not measured of a family
follows the others. Leave-one-out: the fit without the point, asked for the point.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array
from planner.cost.device import CostContext, require_figures
from planner.cost.efficiency import merged, vendor_family
from planner.cost.limits import step_limit
from planner.cost.parallelism import require_configuration
from planner.cost.step import Steps, step_cost
from planner.domain import (
    PHASES,
    Calibration,
    CalibrationFit,
    CostSettings,
    Factor,
    GpuSpec,
    JudgedMeasurement,
    Measurement,
    ModelSpec,
    Origin,
    ParallelConfig,
    Phase,
)
from planner.domain.efficiency import ANY_FAMILY, BOUNDS
from planner.errors import InputError

TRUST = 0.05
ENOUGH_FOR_OVERHEAD = 4
LARGE_ERROR = 0.3
AT_BOUND = 1e-3
_SMALLEST_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeFactor:
    """A factor that a fit may move: its name, whose it is, how far, and between which values."""

    name: str
    family: str
    sigma: float
    low: float
    high: float


def predict_ms(
    measurement: Measurement, gpu: GpuSpec, model: ModelSpec, calibration: Calibration | None = None
) -> float:
    """The formulas' time for a measured step, under the measurement's own conditions."""
    m = measurement
    settings = CostSettings(
        calibration=calibration,
        balanced_experts=bool(m.balanced),
    )
    shape = model if m.kv_bytes is None else replace(model, kv_bytes=m.kv_bytes)
    context = CostContext(gpu=gpu, model=shape, settings=settings)
    return float(step_cost(context, _steps(m), overlap=m.two_micro_batches).total_ms)


def _steps(m: Measurement) -> Steps:
    return Steps.at(m.phase, m.tp, m.dp, m.pp, length=m.length, batch=m.batch, cached=m.kv_cache_rate or 0.0)


def free_factors(measurements: Sequence[Measurement], gpus: Mapping[str, GpuSpec]) -> tuple[FreeFactor, ...]:
    """What a user's measurements can tell: per family and phase the kernels' share, with some more the fixed time."""
    counts: dict[tuple[str, Phase], int] = {}
    for m in measurements:
        if m.fitted:
            key = (gpus[m.gpu].family, m.phase)
            counts[key] = counts.get(key, 0) + 1
    free = []
    for (family, phase), count in sorted(counts.items()):
        free.append(FreeFactor(name=f"kernels_{phase.value}", family=family, sigma=0.5, low=_SMALLEST_SHARE, high=1))
        if count >= ENOUGH_FOR_OVERHEAD:
            free.append(FreeFactor(name=f"step_{phase.value}_ms", family=family, sigma=2.0, low=0.01, high=1000))
    return tuple(free)


def fit_calibration(
    measurements: Sequence[Measurement],
    gpus: Mapping[str, GpuSpec],
    models: Mapping[str, ModelSpec],
    *,
    name: str,
    origin: Origin = Origin.USER,
    base: Calibration | None = None,
    free: Sequence[FreeFactor] | None = None,
) -> CalibrationFit:
    """Fit the free factors; judge every measurement before, after, and left out.

    `base` is the calibration before the fit (default: the built-in one). Raises InputError where nothing is to fit.
    """
    used = [m for m in measurements if m.fitted]
    if not used:
        raise InputError(
            "measurements: must have at least one that is to be fitted, got none.", hint="Add measured steps."
        )
    chosen = tuple(free if free is not None else free_factors(used, gpus))
    for gpu in gpus.values():
        require_figures(gpu)
    # Before the fit, which would bend factors to explain what cannot be.
    for m in measurements:
        require_possible(m, gpus[m.gpu], models[m.model])
    problem = _Problem(gpus=gpus, models=models, base=merged(base), free=chosen)
    fitted = problem.fit(used)
    calibration = problem.calibration(fitted, used, name=name, origin=origin)
    points = tuple(
        JudgedMeasurement(
            measurement=m,
            before_ms=predict_ms(m, gpus[m.gpu], models[m.model], problem.base),
            after_ms=predict_ms(m, gpus[m.gpu], models[m.model], calibration),
            left_out_ms=problem.left_out_ms(m, used) if m.fitted else float("nan"),
        )
        for m in measurements
    )
    return CalibrationFit(calibration=calibration, points=points)


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


def doubts(fit: CalibrationFit) -> list[str]:
    """What a reader of the fit should be told: factors at their bounds, measurements that it does not explain."""
    remarks = []
    for factor in fit.calibration.factors:
        low, high = BOUNDS[factor.name]
        if factor.value >= high * (1 - AT_BOUND) or factor.value <= max(low, _SMALLEST_SHARE) * (1 + AT_BOUND):
            remarks.append(
                f"{factor.name} ({factor.family}) ended at its bound, {factor.value:.4g}: {factor.provenance}."
            )
    for point in fit.fitted:
        if abs(point.after_error) > LARGE_ERROR:
            remarks.append(f"row {point.measurement.row} is {point.after_error:+.0%} off after the fit: is it right?")
    return remarks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    gpus: Mapping[str, GpuSpec]
    models: Mapping[str, ModelSpec]
    base: Calibration
    free: tuple[FreeFactor, ...]

    def fit(self, measurements: Sequence[Measurement]) -> Array:
        """Logarithms of the free factors that suit `measurements` best."""
        from scipy.optimize import least_squares  # noqa: PLC0415  (slow to load, seldom needed)

        def residuals(x: Array) -> Array:
            calibration = self._plain(x)
            off = [
                np.log(predict_ms(m, self.gpus[m.gpu], self.models[m.model], calibration) / m.ms) / TRUST
                for m in measurements
            ]
            return np.array([*off, *self._strain(x)])

        low, high = (np.log([getattr(f, end) for f in self.free]) for end in ("low", "high"))
        # Strictly inside, as the solver asks.
        start = np.clip(self._centres(), low + 1e-6, high - 1e-6)
        return np.asarray(least_squares(residuals, start, bounds=(low, high)).x)

    def left_out_ms(self, measurement: Measurement, measurements: Sequence[Measurement]) -> float:
        """The time of `measurement` after a fit to the others; without others, before any fit."""
        # By identity: equal rows are measurements made twice.
        others = [m for m in measurements if m is not measurement]
        calibration = self._plain(self.fit(others)) if others else self.base
        return predict_ms(measurement, self.gpus[measurement.gpu], self.models[measurement.model], calibration)

    def calibration(self, x: Array, measurements: Sequence[Measurement], *, name: str, origin: Origin) -> Calibration:
        """The fitted factors with their origin, for whom something was measured."""
        factors = []
        for free, value in zip(self.free, np.exp(x).tolist(), strict=True):
            behind = [m for m in measurements if self._bears_on(m, free)]
            if behind:
                measured = tuple(sorted({(m.gpu, self.models[m.model].name) for m in behind}))
                source = f"fitted to {len(behind)} step time{'s' * (len(behind) > 1)}"
                unit = self._before(free).unit
                factors.append(
                    Factor(
                        name=free.name,
                        family=free.family,
                        value=value,
                        unit=unit,
                        origin=origin,
                        source=source,
                        gpus=tuple(dict.fromkeys(gpu for gpu, _ in measured)),
                        measured=measured,
                    )
                )
        return Calibration(name=name, factors=tuple(factors))

    def _bears_on(self, measurement: Measurement, free: FreeFactor) -> bool:
        """Whether a measurement's prediction depends on a free factor."""
        if free.name == "imbalance":
            return not measurement.balanced and measurement.ep > 1
        of_a_phase = any(phase.value in free.name for phase in PHASES)
        if of_a_phase and measurement.phase.value not in free.name:
            return False
        family = self.gpus[measurement.gpu].family
        has_own = any((other.name, other.family) == (free.name, family) for other in self.free)
        return free.family == family or (free.family == ANY_FAMILY and not has_own)

    def _plain(self, x: Array) -> Calibration:
        factors = tuple(
            replace(self._before(free), family=free.family, value=value)
            for free, value in zip(self.free, np.exp(x).tolist(), strict=True)
        )
        return Calibration(name="candidate", factors=self.base.factors + factors)

    def _centres(self) -> Array:
        return np.log([self._before(free).value for free in self.free])

    def _before(self, free: FreeFactor) -> Factor:
        """The base's factor that holds for the family: its own, its vendor's, or that of any."""
        vendors = {vendor_family(gpu) for gpu in self.gpus.values() if gpu.family == free.family}
        return self.base.factor(free.name, free.family, *vendors)

    def _strain(self, x: Array) -> list[float]:
        """How far each factor has moved, a family's from that of all families where this is free, too."""
        centres = self._centres()
        at = {(free.name, free.family): k for k, free in enumerate(self.free)}
        strain = []
        for k, free in enumerate(self.free):
            parent = at.get((free.name, ANY_FAMILY)) if free.family != ANY_FAMILY else None
            centre = x[parent] if parent is not None else centres[k]
            strain.append(float((x[k] - centre) / free.sigma))
        return strain
