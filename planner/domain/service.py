"""What a plan promises about waiting: bounds, predictions, and the goodput that keeps them."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import IslandClass, Phase
from planner.domain.slo import SloSettings
from planner.domain.workload import LengthRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeService:
    """One phase of one range at the plan's goodput, on the island class that is slowest in it.

    Prefill: time to first token; decode: time per output token (ms). `bound_ms` is None where nothing is bounded,
    `percentile_ms` where the bounds hold for the mean; a prefill's times are None where its island is busy all the
    time, so that its queue has no end. `low_ms`, `high_ms`: P10 and P90 of what the percentile will be, or the mean
    where bounds hold for that, by measurements of such times (None: no band).
    """

    phase: Phase
    start: int
    end: int
    bound_ms: float | None
    mean_ms: float | None
    percentile_ms: float | None
    island: IslandClass
    low_ms: Annotated[float | None, Bounds(low=0), Key("P10 of the time, by measurements", sparse=True)] = None
    high_ms: Annotated[float | None, Bounds(low=0), Key("P90 of the time, by measurements", sparse=True)] = None

    @property
    def told_ms(self) -> float | None:
        """The time that the levels count."""
        return self.mean_ms if self.percentile_ms is None else self.percentile_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """`goodput_rps` = `factor` times what the assignment could serve; `binding` is whose queue sets a factor < 1."""

    goodput_rps: Annotated[float, Bounds(low=0)]
    factor: Annotated[float, Bounds(low=0, high=1)]
    percentile: float | None
    binding: IslandClass | None
    binding_phase: Phase | None
    ranges: tuple[RangeService, ...]


def range_bounds(slo: SloSettings, span: LengthRange) -> tuple[float | None, float | None]:
    """(TTFT, TPOT) bounds of a range: the tightest of any prompt in it, where `slo.ranges` cut through it (ms)."""
    edges = [span.start, *(edge for limits in slo.ranges for edge in (limits.start, limits.end))]
    pairs = [slo.bounds(edge) for edge in edges if span.start <= edge <= span.longest_input_tokens]
    pairs = pairs or [slo.bounds(span.longest_input_tokens)]
    ttft = [pair[0] for pair in pairs if pair[0] is not None]
    tpot = [pair[1] for pair in pairs if pair[1] is not None]
    return min(ttft, default=None), min(tpot, default=None)
