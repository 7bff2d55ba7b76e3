"""How far an estimate may be off: a band around a rate."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import Phase

_Ratio = Annotated[float, Bounds(above=0)]
_Count = Annotated[int, Bounds(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """P10 and P90 of a measured rate over the predicted one (low <= high, both positive).

    `basis` says in words which left-out measurements it comes from, `points` how many they are; 0: it is a prior.
    """

    low: Annotated[_Ratio, Key("P10 of measured over predicted rates")]
    high: Annotated[_Ratio, Key("P90 of measured over predicted rates")]
    basis: Annotated[str, Key("the left-out measurements that it comes from")] = ""
    points: Annotated[_Count, Key("how many measurements these are (0: a prior)")] = 0


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
