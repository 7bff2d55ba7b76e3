"""The performance table: what each island class can do, as the cost stage saw it; and a step taken apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.domain.efficiency import Band, Factor, Origin
from planner.domain.layout import IslandClass, ParallelConfig, Phase, Role
from planner.domain.workload import LengthRange


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePerformance:
    """One island class in one phase. All tuples run over the table's ranges.

    `rates_rps[j]`: requests/s if the island did nothing but range j (0: cannot). `batch_sizes[j]`: prompts per rank
    and step (prefill) or sequences per attention group (decode). `step_ms[j]`: one prefill step, or one output token.
    Under service levels `rates_rps` keep to them: `utilisation_limits[j]` is the busy share that they stop at (empty:
    1), `service_ms[j]` what a bound is held against: prefill and KV transfer, or TPOT as bounded (empty: no bound).
    `parallel` is None, and `reason` says why, where the class cannot serve the phase at all. `origin` and
    `origin_source` say how firm the rates are, `band` how far off they may be (None: a profile's, or the paper's).
    """

    parallel: ParallelConfig | None
    rates_rps: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    step_ms: tuple[float, ...]
    reason: str = ""
    origin: Origin = Origin.DEFAULT
    origin_source: str = ""
    band: Band | None = None
    utilisation_limits: tuple[float, ...] = ()
    service_ms: tuple[float, ...] = ()

    @property
    def serves(self) -> bool:
        """Whether any range can be served."""
        return any(rate > 0 for rate in self.rates_rps)

    def utilisation_limit(self, j: int) -> float:
        """Busy share at which the rate of range j stops."""
        return self.utilisation_limits[j] if self.utilisation_limits else 1.0

    def among(self, chosen: Sequence[bool]) -> "PhasePerformance":
        """The same islands where they serve the chosen ranges alone."""
        return replace(
            self, rates_rps=tuple(rate if c else 0.0 for rate, c in zip(self.rates_rps, chosen, strict=True))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPerformance:
    """One island class in both phases, each at the configuration that suits all ranges best.

    `further`: other configurations, for prefill, that do better on some ranges; under bounds on TTFT alone.
    """

    island: IslandClass
    prefill: PhasePerformance
    decode: PhasePerformance
    further: tuple[tuple[Phase, PhasePerformance], ...] = ()

    def phase(self, phase: Phase) -> PhasePerformance:
        """The half of `phase`."""
        return self.prefill if phase is Phase.PREFILL else self.decode

    def choices(self, phase: Phase) -> tuple[PhasePerformance, ...]:
        """What an island may do in `phase`, the half of the class first; nothing where it cannot serve."""
        further = (performance for of, performance in self.further if of is phase)
        return tuple(performance for performance in (self.phase(phase), *further) if performance.serves)

    def in_role(self, role: Role, ranges: Sequence[LengthRange]) -> "ClassPerformance":
        """Islands of the class in a role: they serve its phase and its ranges alone."""
        chosen = next(performance for performance in self.choices(role.phase) if performance.parallel == role.parallel)
        served = chosen.among([role.covers(span) for span in ranges])
        none = (False,) * len(ranges)
        prefills = role.phase is Phase.PREFILL
        return ClassPerformance(
            island=replace(self.island, role=(role,)),
            prefill=served if prefills else self.prefill.among(none),
            decode=self.decode.among(none) if prefills else served,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceTable:
    """Rates per (island class, phase, range): the assignment's input."""

    ranges: tuple[LengthRange, ...]
    classes: tuple[ClassPerformance, ...]

    def row(self, island: IslandClass) -> ClassPerformance:
        """The row of one class; of one in a role that has no row of its own, what the class does in that role."""
        row = next((c for c in self.classes if c.island == island), None)
        if row is None and island.role:
            return self.row(island.plain).in_role(island.role[0], self.ranges)
        if row is None:
            raise KeyError(f"no row of {island}")
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfStep:
    """One part over all layers (ms), what bounds it, its operations and bytes on one GPU.

    `ms` is `measured_ms`, or where nothing was measured (None) `formula_ms`, about max(compute, memory) + network +
    latency.
    `basis`: whether measured, interpolated or scaled. `bound` is compute, memory, network or latency. `limit_ms` is
    what the data sheet leaves it at least.
    """

    name: str
    ms: float
    formula_ms: float
    limit_ms: float
    compute_ms: float
    memory_ms: float
    network_ms: float
    latency_ms: float
    bound: str
    flops: float
    bytes: float
    measured_ms: float | None = None
    basis: str = "formula"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExplanation:
    """One step of one replica. `parts` add up to `step_ms` + `hidden_ms`.

    `step_ms` is one pass over the model; `total_ms` is what it stands for: prompts taken in, or the time per output
    token (pipelined steps and drafted tokens counted, and the `waiting` of attention ranks for the fullest, a factor of
    at least 1; `pace`: by how much runs of its kind are faster than their kernels). `roofline_tokens_per_s_per_gpu` is
    what data-sheet rates, those of links among them, would give without any loss. `origin` says how firm the estimate
    is, `factors` what went into it, `band` how far the rate may be off.

    A mixed pass decodes `batch` sequences with `length` tokens in the cache, and takes in `chunk` tokens of prompts of
    `prompt` tokens (both 0 of other steps); its rate is of the tokens of both.
    """

    gpu: str
    model: str
    phase: Phase
    parallel: ParallelConfig
    length: int
    batch: int
    parts: tuple[PartOfStep, ...]
    step_ms: float
    hidden_ms: float
    waiting: float
    total_ms: float
    tokens_per_s_per_gpu: float
    roofline_tokens_per_s_per_gpu: float
    bound: str
    weights_gb: float
    cache_gb: float
    usable_gb: float
    peak_tflops: tuple[tuple[str, float], ...]
    memory_gb_s: float
    origin: Origin
    origin_source: str
    factors: tuple[Factor, ...]
    band: Band | None = None
    chunk: int = 0
    prompt: int = 0
    pace: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRates:
    """One parallel configuration of one island over lengths: requests/s, 0 where it cannot serve."""

    gpu: str
    phase: Phase
    parallel: ParallelConfig
    lengths: tuple[int, ...]
    rates_rps: tuple[float, ...]
    batch_sizes: tuple[int, ...]
