"""Efficiency factors: what kernels and links reach of data sheets; measured step times, and how far off both are."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key, OneOf
from planner.domain.layout import Phase

_Ratio = Annotated[float, Bounds(above=0)]
_Count = Annotated[int, Bounds(low=0)]


class Relation(StrEnum):
    """How near the measurements behind a band are to what is estimated, from the firmest to the weakest.

    `own`: the user's own runs. `same`: this model on this GPU type with this engine. Of the others one thing was never
    measured: `engine`, this model on this type with this engine; `gpu`, this model on this type; `model`, this model on
    any; `formulas`, neither the model nor the type, or nothing of the type's family, or no model with such layers.
    """

    OWN = "own"
    SAME = "same"
    ENGINE = "engine"
    GPU = "gpu"
    MODEL = "model"
    FORMULAS = "formulas"

    @property
    def words(self) -> str:
        """What was never measured: `no measurement of this model`; nothing of own and same."""
        return _NEVER_MEASURED.get(self.value, "")


_NEVER_MEASURED = {
    "engine": "no measurement of this model with this engine",
    "gpu": "no measurement of this model on this GPU type",
    "model": "no measurement of this model",
    "formulas": "no measurement of this model or of its like on such GPUs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """P10 and P90 of a measured rate over the predicted one (low <= high, both positive); of times likewise.

    `basis` says in words which left-out measurements it comes from, `points` how many they are; 0: it is a prior.
    `relation`: how near these are (None: a plan of before does not say).
    """

    low: Annotated[_Ratio, Key("P10 of measured over predicted rates")]
    high: Annotated[_Ratio, Key("P90 of measured over predicted rates")]
    basis: Annotated[str, Key("the left-out measurements that it comes from")] = ""
    points: Annotated[_Count, Key("how many measurements these are (0: a prior)")] = 0
    relation: Annotated[Relation | None, Key("how near these are to what is estimated", sparse=True)] = None

    @property
    def inverse(self) -> "Band":
        """Of a rate's band that of its time, and the other way about."""
        return replace(self, low=1 / self.high, high=1 / self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateBand:
    """P10 and P90 of the rate that a plan will reach (requests/s). `basis`: which measurements the errors come from."""

    low_rps: Annotated[float, Bounds(low=0), Key("requests/s, P10")]
    high_rps: Annotated[float, Bounds(low=0), Key("requests/s, P90")]
    basis: Annotated[str, Key("the left-out measurements that it comes from")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBand:
    """P10 and P90 of measured over predicted rates of one GPU type, model and phase, by somebody's own measurements,
    each left out of the fit that predicts it; `points`: how many."""

    gpu: str
    model: str
    phase: Phase
    low: _Ratio
    high: _Ratio
    points: Annotated[int, Bounds(low=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateComparison:
    """Rates of two plans (requests/s), each with its band (None: none is known).

    `probability_faster`: that the new plan serves more in truth, the errors of estimates that both rest on being the
    same; None where a plan has no bands, so that nothing but the predicted rates can be compared.
    """

    old_rps: float
    new_rps: float
    old_band: RateBand | None = None
    new_band: RateBand | None = None
    probability_faster: float | None = None

    @property
    def change(self) -> float:
        """By which share of the old rate the new one is higher."""
        return self.new_rps / self.old_rps - 1


ANY_FAMILY = "any"

# factors by name, with the values that they may have
_SHARE = (0.001, 1.0)
_TIME = (0.0, 1e6)
BOUNDS = {
    "gemm": _SHARE,
    "gemm_half": (0.0, 1e5),
    "expert": _SHARE,
    "expert_half": (0.0, 1e5),
    "expert_power": (0.05, 2.0),
    "expert_reads": (1.0, 1000.0),
    "expert_fp4": (0.01, 10.0),
    "attention_prefill": _SHARE,
    "attention_decode": _SHARE,
    "memory": _SHARE,
    "cache": _SHARE,
    "weight_only": _SHARE,
    "nvlink": _SHARE,
    "nic_prefill": _SHARE,
    "nic_decode": _SHARE,
    "all_to_all_us": _TIME,
    "all_to_all_node_us": _TIME,
    "all_reduce_us": _TIME,
    "all_reduce_node_us": _TIME,
    "transfer_us": _TIME,
    "layer_us": _TIME,
    "indexer_us": _TIME,
    "step_prefill_ms": _TIME,
    "step_decode_ms": _TIME,
    "passes": (0.0, 1e3),
    "overlap": (0.0, 1.0),
    "imbalance": (1.0, 100.0),
    "rank_imbalance": (1.0, 100.0),
    "prefill_pool": _SHARE,
    "kernels_prefill": _SHARE,
    "kernels_decode": _SHARE,
    "engine_prefill": (0.05, 20.0),
    "engine_decode": (0.05, 20.0),
    "pace_prefill": (0.05, 20.0),
    "pace_decode": (0.05, 20.0),
    "mtp_gain": (1.0, 9.0),
    "ttft_fixed_ms": _TIME,
    "ttft_steps": (0.0, 100.0),
    "ttft_answers": (0.0, 100.0),
    "ttft_waves": (0.0, 1.0),
}


_MOST_MODELS = 3  # that a provenance names


class Origin(StrEnum):
    """Where a number comes from, from the firmest to the weakest for the machine at hand."""

    USER = "user's measurement"
    PUBLISHED = "published measurement"
    CARRIED = "carried over"
    DATA_SHEET = "data sheet"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One factor of one GPU family, of a vendor (for families that have none of their own), or of any.

    `gpus` are the GPU types that it was measured on, `measured` these with the model: for another type or model it is
    carried over. Kernels measured apart from a model, and calibration files of before, have `gpus` alone.
    """

    name: Annotated[str, OneOf(tuple(BOUNDS))]
    family: str
    value: float
    unit: str
    origin: Origin
    source: str
    gpus: tuple[str, ...] = ()
    measured: tuple[tuple[str, str], ...] = ()

    def origin_for(self, gpu: str, model: str) -> Origin:
        """The factor's origin where `model` on `gpu` uses it."""
        if self.origin not in (Origin.USER, Origin.PUBLISHED):
            return self.origin
        vouched = (gpu, model) in self.measured if self.measured else gpu in self.gpus
        return self.origin if vouched else Origin.CARRIED

    @property
    def provenance(self) -> str:
        """On which model and GPUs it was measured, and its source; the source alone where it was not measured."""
        if self.origin not in (Origin.USER, Origin.PUBLISHED):
            return self.source
        models = dict.fromkeys(model for _, model in self.measured)
        if len(models) > _MOST_MODELS:
            return f"measured with {len(models)} models on {', '.join(self.gpus)}: {self.source}"
        places = [f"{name} on {', '.join(gpu for gpu, model in self.measured if model == name)}" for name in models]
        return f"measured on {' and '.join(places) or ', '.join(self.gpus)}: {self.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Factors under one name; later factors stand in for earlier ones of the same name and family.

    `bands`: how far rates by these factors are off what was measured, each measurement left out of its own fit.
    """

    name: str
    factors: tuple[Factor, ...]
    bands: tuple[MeasuredBand, ...] = ()

    def factor(self, name: str, *families: str) -> Factor:
        """The factor of the first of `families` that has one, or else of any. Raises KeyError where none has."""
        for family in (*families, ANY_FAMILY):
            for factor in reversed(self.factors):
                if (factor.name, factor.family) == (name, family):
                    return factor
        raise KeyError(f"{name} ({', '.join(families)})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured step of one replica.

    `ms`: in prefill the time in which each of `dp` ranks takes in `batch` prompts of `length` tokens; in decode that of
    one output token for `batch` sequences on each attention group with `length` tokens in the cache.
    `ep` = tp * dp where experts are spread, 1 in a dense model. None leaves a condition as the settings have it:
    `two_micro_batches` (overlap), `balanced` (every expert the same number of tokens), `kv_bytes` (per element).
    `engine`: whose measured kernels it is held against (empty: formulas alone). One not `fitted` is only compared
    with.
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
    engine: str = ""
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
