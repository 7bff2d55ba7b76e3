"""Measured step times: what a cost model is fitted to, or looks up."""

from dataclasses import dataclass

from planner.domain.efficiency import Calibration
from planner.domain.layout import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured step of one replica.

    `ms`: in prefill the time in which each of `dp` ranks takes in `batch` prompts of `length` tokens; in decode that of
    one output token for `batch` sequences on each attention group with `length` tokens in the cache.
    `ep` = tp * dp where experts are spread, 1 in a dense model. None leaves a condition as the settings have it:
    `two_micro_batches` (overlap), `balanced` (every expert the same number of tokens), `kv_bytes` (per element).
    One that is not `fitted` is only compared with.
    """

    gpu: str
    model: str
    phase: Phase
    tp: int
    dp: int
    ep: int
    length: int
    batch: float
    ms: float
    pp: int = 1
    kv_cache_rate: float | None = None
    two_micro_batches: bool | None = None
    balanced: bool | None = None
    kv_bytes: float | None = None
    fitted: bool = True
    source: str = ""
    row: int = 0

    @property
    def label(self) -> str:
        """The measurement in words."""
        degrees = f"tp {self.tp} dp {self.dp}" + (f" pp {self.pp}" if self.pp > 1 else "")
        even = ", balanced experts" if self.balanced else ""
        return f"{self.gpu} {self.model} {self.phase} {degrees}, {self.length} tokens, batch {self.batch:g}{even}"

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Throughput that `ms` amounts to: prompt tokens in prefill, output tokens in decode."""
        tokens = self.batch * (self.length if self.phase is Phase.PREFILL else 1)
        return tokens / self.tp / self.pp / self.ms * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMeasurement:
    """A measurement beside what the model says: before a fit, after it, and after a fit without this measurement.

    Times in ms; `left_out_ms` is NaN for a measurement that the fit did not use.
    """

    measurement: Measurement
    before_ms: float
    after_ms: float
    left_out_ms: float

    @property
    def before_error(self) -> float:
        """Throughput predicted before the fit over the measured one, less 1."""
        return self.measurement.ms / self.before_ms - 1

    @property
    def after_error(self) -> float:
        """Throughput predicted after the fit over the measured one, less 1."""
        return self.measurement.ms / self.after_ms - 1

    @property
    def left_out_error(self) -> float:
        """Throughput predicted without this measurement over the measured one, less 1."""
        return self.measurement.ms / self.left_out_ms - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFit:
    """Fitted factors, and every measurement judged by them."""

    calibration: Calibration
    points: tuple[JudgedMeasurement, ...]

    @property
    def fitted(self) -> tuple[JudgedMeasurement, ...]:
        """The points that the fit used."""
        return tuple(p for p in self.points if p.measurement.fitted)

    def mean_error(self, which: str) -> float:
        """Mean absolute relative error of the fitted points: `before`, `after` or `left_out`."""
        errors: list[float] = [abs(getattr(p, f"{which}_error")) for p in self.fitted]
        return sum(errors) / len(errors)
