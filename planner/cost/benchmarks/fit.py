"""The fit of factors to step times and benchmark runs together.

| symbol | meaning | unit |
|---|---|---|
| r[i] | log of the predicted over the measured rate of figure i | 1 |
| trust[i] | how far figure i may be expected to be off, by its kind | 1 |
| x[k], c[k] | logarithm of factor k, and of the one that it follows: its vendor's, that of any, its value before | 1 |
| sigma[k] | how far it may be expected to stray | 1 |

minimise sum_i rho((r[i] / trust[i])^2) + sum_k rho(((x[k] - c[k]) / sigma[k])^2), rho(z) = 2 (sqrt(1 + z) - 1): a
figure that nothing explains pulls no harder the farther it lies.

The built-in fit may move the factors of `BENCHMARK_FREE`. A factor of a family follows that of its vendor, a vendor's
that of all; one of an engine follows that of any engine. `sigma` is the expected distance of its logarithm from the one
that it follows, or from the value before the fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.benchmarks.prediction import Predictions, asked_figures
from planner.cost.calibration import predict_ms
from planner.domain import Calibration, Factor, GpuSpec, Measurement, Metric, ModelSpec, NamedRun
from planner.domain.efficiency import ANY_FAMILY


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeFactor:
    """A factor that a fit may move: its name, whose it is, how far, and between which values."""

    name: str
    family: str
    sigma: float
    low: float
    high: float


VENDOR_OF_FAMILY = {
    "hopper": "nvidia",
    "h20": "nvidia",
    "blackwell": "nvidia",
    "ampere": "nvidia",
    "cdna3": "amd",
    "cdna4": "amd",
}


def _any(name: str, sigma: float, low: float, high: float) -> FreeFactor:
    return FreeFactor(name=name, family=ANY_FAMILY, sigma=sigma, low=low, high=high)


def _of(name: str, families: tuple[str, ...], sigma: float, low: float, high: float) -> tuple[FreeFactor, ...]:
    return tuple(FreeFactor(name=name, family=family, sigma=sigma, low=low, high=high) for family in families)


_VENDORS = ("nvidia", "amd")
_FAMILIES = tuple(VENDOR_OF_FAMILY)
_SERVED = ("hopper", "blackwell", "cdna3", "cdna4")  # MoE runs under load

BENCHMARK_FREE: tuple[FreeFactor, ...] = (
    _any("kernels_decode", 0.5, 0.05, 1),
    *_of("kernels_decode", _VENDORS, 0.3, 0.05, 1),
    *_of("kernels_decode", _FAMILIES, 0.4, 0.05, 1),
    _any("kernels_prefill", 0.5, 0.05, 1),
    *_of("kernels_prefill", _VENDORS, 0.2, 0.05, 1),
    *_of("kernels_prefill", _FAMILIES, 0.3, 0.05, 1),
    _any("expert", 0.7, 0.05, 1),
    *_of("expert", _SERVED, 0.3, 0.05, 1),
    _any("expert_half", 1.0, 10, 30_000),
    _any("expert_power", 0.3, 0.2, 1),
    *_of("expert_fp4", ("blackwell", "cdna4"), 0.5, 0.2, 5),
    _any("weight_only", 0.5, 0.05, 1),
    _any("cache", 0.5, 0.05, 1),
    _any("imbalance", 0.1, 1, 3),
    _any("rank_imbalance", 0.3, 1, 4),
    _any("all_reduce_us", 0.7, 1, 200),
    _any("all_reduce_node_us", 1.0, 1, 1000),
    _any("all_to_all_us", 0.7, 1, 300),
    _any("all_to_all_node_us", 1.0, 1, 1000),
    _any("prefill_pool", 0.3, 0.2, 1),
    *_of("prefill_pool", ("trt",), 0.3, 0.2, 1),
    *_of("engine_prefill", ("trt",), 0.2, 0.3, 3),
    *_of("engine_decode", ("trt", "atom"), 0.2, 0.3, 3),
    *_of("mtp_gain", ("trt", "sglang", "atom"), 0.2, 1.2, 3.9),
)

# by kind of figure; step times are the best documented. The rate of disaggregated pools follows from figures of each
TRUST: Mapping[str, float] = {
    "step time": 0.10,
    "aggregated rate": 0.15,
    "aggregated TPOT": 0.15,
    "aggregated TTFT": 0.45,
    "disaggregated decode TPOT": 0.15,
    "saturated prefill": 0.30,
    "saturated throughput": 0.10,
    "static batch": 0.12,
    "first token": 0.30,
    "prefill steps": 0.10,
    "decode steps": 0.10,
}
OLD_ENGINES = 2025  # figures of engines before this year count little
OLD_TRUST = 2.5
_LOST = 3.0  # log of a figure that is not to be predicted, or that far off
_STEP = 0.01  # of a logarithm: above what closed loops leave unsettled, which a relative step at 1 is not


Key = tuple[str, int] | tuple[str, int, Metric]
"""A step time by its place among them, or a figure by file, row and metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a fit is to explain: step times with their records, and benchmark runs."""

    measurements: tuple[Measurement, ...]
    gpus: Mapping[str, GpuSpec]
    models: Mapping[str, ModelSpec]
    runs: tuple[NamedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFit:
    """Fitted factors, with how well each is known: the covariance of their logarithms."""

    calibration: Calibration
    free: tuple[FreeFactor, ...]
    values: tuple[float, ...]
    covariance: Array = field(compare=False)


def fit_benchmarks(
    evidence: Evidence,
    free: Sequence[FreeFactor],
    *,
    name: str,
    base: Calibration,
    begin: Sequence[float] | None = None,
    rounds: int = 12,
) -> BenchmarkFit:
    """Fit `free` to the evidence, from `begin` (values) or the base's own. The base must have every factor."""
    from scipy.optimize import least_squares  # noqa: PLC0415  (slow to load, seldom needed)

    problem = Problem.of(evidence, tuple(free), base)
    low, high = problem.bounds
    start = np.log(begin) if begin is not None else problem.centres
    # Strictly inside, as the solver asks.
    start = np.clip(start, low + 1e-6, high - 1e-6)
    # Closed loops begin where they last settled: once beforehand, so that slopes are of settled ones.
    problem.residuals(start)
    # Steps in units of how far a factor may be expected to stray.
    scale = np.maximum([f.sigma for f in free], 0.05)
    solution = least_squares(
        problem.residuals,
        start,
        jac=problem.slopes,
        bounds=(low, high),
        loss="soft_l1",
        max_nfev=rounds,
        x_scale=scale,
    )
    covariance = np.linalg.pinv(solution.jac.T @ solution.jac)
    values = tuple(np.exp(solution.x).tolist())
    return BenchmarkFit(
        calibration=Calibration(name=name, factors=problem.factors(solution.x)),
        free=tuple(free),
        values=values,
        covariance=covariance,
    )


def log_ratios(evidence: Evidence, calibration: Calibration | None, predictions: Predictions) -> dict[Key, float]:
    """log(predicted / measured rate) by figure: ("step", place) or (file, row, metric)."""
    ratios: dict[Key, float] = {}
    for place, m in enumerate(evidence.measurements):
        predicted = predict_ms(m, evidence.gpus[m.gpu], evidence.models[m.model], calibration)
        ratios["step", place] = float(np.log(m.ms / predicted))
    answers = predictions.of(calibration)
    for entry, metric, _ in asked_figures(evidence.runs):
        figure = (entry.run.file, entry.run.row, metric)
        answer = answers.get(figure)
        ratios[figure] = _LOST if answer is None else _log_ratio(metric, answer, dict(entry.run.measured)[metric])
    return ratios


def _log_ratio(metric: Metric, predicted: float, measured: float) -> float:
    log = float(np.log(predicted / measured))
    return float(np.clip(-log if metric.is_time else log, -_LOST, _LOST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The residuals of a fit: figures by key, then factors."""

    evidence: Evidence
    free: tuple[FreeFactor, ...]
    base: Calibration
    trust: dict[Key, float]
    predictions: Predictions
    followed: tuple[int | None, ...]

    @classmethod
    def of(cls, evidence: Evidence, free: tuple[FreeFactor, ...], base: Calibration) -> "Problem":
        """The problem with the trust of every figure that can be predicted."""
        trust: dict[Key, float] = {
            ("step", place): TRUST["step time"] for place, m in enumerate(evidence.measurements) if m.fitted
        }
        predictions = Predictions(evidence.runs, exact=False)
        answered = predictions.of(base)
        for entry, metric, kind in asked_figures(evidence.runs):
            key = (entry.run.file, entry.run.row, metric)
            # What has no answer at the base has none at any factors: it would only add a constant.
            if key in answered and kind in TRUST:
                old = entry.run.year is not None and entry.run.year < OLD_ENGINES
                trust[key] = TRUST[kind] * (OLD_TRUST if old else 1.0)
        return cls(
            evidence=evidence,
            free=free,
            base=base,
            trust=trust,
            predictions=predictions,
            followed=_followed(free),
        )

    @property
    def centres(self) -> Array:
        """Logarithms of the values before the fit."""
        return np.log([self._before(f).value for f in self.free])

    def _before(self, free: FreeFactor) -> Factor:
        return self.base.factor(free.name, free.family, VENDOR_OF_FAMILY.get(free.family, ANY_FAMILY))

    def factors(self, x: Array) -> tuple[Factor, ...]:
        """The base's factors with the free ones over them."""
        moved = tuple(
            replace(self._before(f), family=f.family, value=value)
            for f, value in zip(self.free, np.exp(x).tolist(), strict=True)
        )
        replaced = {(f.name, f.family) for f in self.free}
        return tuple(f for f in self.base.factors if (f.name, f.family) not in replaced) + moved

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Logarithms that the factors may have at least and at most."""
        low, high = (np.log([getattr(f, end) for f in self.free]) for end in ("low", "high"))
        return low, high

    def slopes(self, x: Array) -> Array:
        """Derivatives of the residuals by the factors' logarithms, shape (residuals, factors).

        Each is taken towards the middle of the factor's bounds, as many values lie at one.
        """
        here = self.residuals(x)
        low, high = self.bounds
        steps = np.where(x > (low + high) / 2, -_STEP, _STEP)
        columns = []
        for k, step in enumerate(steps.tolist()):
            beside = np.array(x)
            beside[k] += step
            columns.append((self.residuals(beside) - here) / step)
        return np.stack(columns, axis=1)

    def residuals(self, x: Array) -> Array:
        """Of the figures, then of the factors."""
        calibration = Calibration(name="candidate", factors=self.factors(x))
        ratios = log_ratios(self.evidence, calibration, self.predictions)
        off = [ratios[key] / trust for key, trust in self.trust.items()]
        centres = self.centres
        strain = [
            (x[k] - (centres[k] if parent is None else x[parent])) / self.free[k].sigma
            for k, parent in enumerate(self.followed)
        ]
        return np.array([*off, *strain])


def _followed(free: Sequence[FreeFactor]) -> tuple[int | None, ...]:
    """Position of the factor that each follows: its vendor's or that of any, where this is free."""
    at = {(f.name, f.family): k for k, f in enumerate(free)}

    def parent(f: FreeFactor) -> int | None:
        if f.family == ANY_FAMILY:
            return None
        vendor = at.get((f.name, VENDOR_OF_FAMILY.get(f.family, "")))
        return vendor if vendor is not None else at.get((f.name, ANY_FAMILY))

    return tuple(parent(f) for f in free)
