"""The performance table: what each island class can do, as the cost stage saw it."""

from dataclasses import dataclass

from planner.domain.efficiency import Origin
from planner.domain.layout import IslandClass, ParallelConfig, Phase
from planner.domain.workload import LengthRange


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePerformance:
    """One island class in one phase. All tuples run over the table's ranges.

    `rates_rps[j]`: requests/s if the island did nothing but range j (0: cannot). `batch_sizes[j]`: prompts per rank
    and step (prefill) or sequences per attention group (decode). `step_ms[j]`: one prefill step, or one output token.
    Under service levels `rates_rps` keep to them: `utilisation_limits[j]` is the busy share that they stop at (empty:
    1), `service_ms[j]` what a bound is held against: prefill and KV transfer, or TPOT as bounded (empty: no bound).
    `parallel` is None, and `reason` says why, where the class cannot serve the phase at all. `origin` and
    `origin_source` say how firm the rates are.
    """

    parallel: ParallelConfig | None
    rates_rps: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    step_ms: tuple[float, ...]
    reason: str = ""
    origin: Origin = Origin.DEFAULT
    origin_source: str = ""
    utilisation_limits: tuple[float, ...] = ()
    service_ms: tuple[float, ...] = ()

    @property
    def serves(self) -> bool:
        """Whether any range can be served."""
        return any(rate > 0 for rate in self.rates_rps)

    def utilisation_limit(self, j: int) -> float:
        """Busy share at which the rate of range j stops."""
        return self.utilisation_limits[j] if self.utilisation_limits else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPerformance:
    """One island class in both phases."""

    island: IslandClass
    prefill: PhasePerformance
    decode: PhasePerformance

    def phase(self, phase: Phase) -> PhasePerformance:
        """The half of `phase`."""
        return self.prefill if phase is Phase.PREFILL else self.decode


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceTable:
    """Rates per (island class, phase, range): the assignment's input."""

    ranges: tuple[LengthRange, ...]
    classes: tuple[ClassPerformance, ...]

    def row(self, island: IslandClass) -> ClassPerformance:
        """The row of one class."""
        return next(c for c in self.classes if c.island == island)
