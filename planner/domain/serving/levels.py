"""Whether service levels hold: one record of a bound, whoever looks at it, and one verdict over all of them.

| symbol | meaning | unit |
|---|---|---|
| q | share of the requests that must keep a bound (`needed`) | 1 |
| n, p | requests that were seen, share of them that kept it | 1 |
| z | quantile of the normal distribution for an interval of 99 %, 2.576 | 1 |

Of n requests that all keep the bound the interval of p (Wilson) begins at n / (n + z^2): with fewer than
z^2 q / (1 - q) nothing proves q. Where p lies below q, the interval leaves q out from about z^2 p (1 - p) / (q - p)^2
requests on.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from planner.domain.layout import PHASES, Phase
from planner.domain.plan import Plan
from planner.domain.serving.server import BucketLatency, LoadPoint
from planner.domain.slo import SloSettings

TIMES = {Phase.PREFILL: "TTFT", Phase.DECODE: "TPOT"}
"""What a bound is on, by phase."""
JUDGED_LOADS = (LoadPoint.DEMAND, LoadPoint.PROMISE)
"""Loads at which a plan's levels are judged; its capacity is where they end."""
GOODPUT = "goodput"
"""The load of a plan whose times are known at its capacity alone: what it serves within its levels."""
CERTAIN = 2.5758
"""z."""
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over the seeds: their mean, and its confidence interval of 95 % (None with one seed)."""

    mean: float
    low: float | None = None
    high: float | None = None


class Standing(StrEnum):
    """What is known of levels: they hold, they break, or too little was seen."""

    HOLDS = "holds"
    BREAKS = "breaks"
    UNTOLD = "too short to tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """A bound on TTFT (prefill) or TPOT (decode) of the prompts of `start` <= tokens < `end` (`end` 0: of all).

    `part`: share of all requests that they are. `needed`: share of them that must keep the bound; 0: their mean must.
    `bound_ms`: the mean of them where bounds differ by prompt (None: nothing is bounded). `share`: who keeps it, with
    the interval of 99 % that so many `requests` leave (None: only the time is known; no interval: it was calculated).
    `value_ms`: the time at the share that must, or the mean; None where a queue has no end, or it is not worked out.
    `decides`: whether the verdict hangs on it; under a percentile of all requests a bucket's TTFT does not.
    """

    phase: Phase
    start: int = 0
    end: int = 0
    part: float = 1.0
    bound_ms: float | None
    needed: float
    share: Spread | None
    value_ms: Spread | None
    p50_ms: float | None = None
    requests: int = 0
    decides: bool = True

    @property
    def name(self) -> str:
        """`TTFT of 0-2047 tokens`."""
        return TIMES[self.phase] + (f" of {self.start}-{self.end - 1} tokens" if self.end else "")

    @property
    def late_ms(self) -> float | None:
        """The time that the bound is on; None where a queue has no end."""
        return self.time_ms if math.isfinite(self.time_ms) else None

    @property
    def time_ms(self) -> float:
        """The time that the bound is on; inf where a queue has no end."""
        return math.inf if self.value_ms is None else self.value_ms.mean

    @property
    def keeping(self) -> float:
        """The share of requests that keep the bound; nan where only the time is known."""
        return math.nan if self.share is None else self.share.mean

    @property
    def seems_kept(self) -> bool | None:
        """Whether the bound is kept by what was seen, were it by chance; None without a bound."""
        if self.bound_ms is None:
            return None
        if self._of_times:
            return self.time_ms <= self.bound_ms * (1 + _ROUNDING)
        return self.keeping >= self.needed - _ROUNDING

    @property
    def standing(self) -> Standing | None:
        """What is known of the bound; None without one. It breaks where chance does not explain it."""
        if self.bound_ms is None:
            return None
        if self.seems_kept:
            few = self.share is not None and self.share.low is not None and self.requests < fewest_requests(self.needed)
            return Standing.UNTOLD if few else Standing.HOLDS
        if self._of_times:
            low = None if self.value_ms is None else self.value_ms.low
            return Standing.UNTOLD if low is not None and low <= self.bound_ms else Standing.BREAKS
        high = self.keeping if self.share is None or self.share.high is None else self.share.high
        return Standing.UNTOLD if high >= self.needed else Standing.BREAKS

    @property
    def requests_to_tell(self) -> int:
        """Requests of these lengths that would tell, at the share that kept the bound so far; 0 where all is known."""
        if self.standing is not Standing.UNTOLD:
            return 0
        if self.seems_kept or self._of_times:
            return fewest_requests(self.needed)
        kept_share = self.keeping
        return max(
            self.requests + 1, math.ceil(CERTAIN**2 * kept_share * (1 - kept_share) / (self.needed - kept_share) ** 2)
        )

    @property
    def _of_times(self) -> bool:
        """Whether the time itself is held against the bound: that of the mean, or where no share is known."""
        return not self.needed or self.share is None

    @property
    def pressure(self) -> tuple[float, float]:
        """How near to its bound the time is, or how far beyond; the longer time where nothing is bounded."""
        return (self.time_ms / self.bound_ms if self.bound_ms else 0.0, self.time_ms)


def fewest_requests(needed: float) -> int:
    """Requests below which not even a bound that all of them keep shows that the share `needed` does."""
    return math.ceil(CERTAIN**2 * needed / (1 - needed)) if 0 < needed < 1 else 1


def standing_of(checks: Iterable[LevelCheck]) -> Standing | None:
    """The verdict over bounds: of those that decide, one that breaks breaks all; None where nothing is bounded."""
    standings = {check.standing for check in checks if check.decides} - {None}
    if not standings:
        return None
    return next(standing for standing in (Standing.BREAKS, Standing.UNTOLD, Standing.HOLDS) if standing in standings)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLevels:
    """The levels of a plan at one load, `rate_rps` of the whole mix; without bounds the times alone."""

    load: str
    rate_rps: float
    checks: tuple[LevelCheck, ...]

    @property
    def standing(self) -> Standing | None:
        """Whether the levels hold at this load; None where none are set."""
        return standing_of(self.checks)

    @property
    def given_up(self) -> tuple[LevelCheck, ...]:
        """Prompts that miss the bounds while the whole keeps them, as a percentile of all requests allows."""
        return tuple(check for check in self.checks if not check.decides and check.standing is Standing.BREAKS)

    def of(self, phase: Phase) -> tuple[LevelCheck, ...]:
        """The checks of one phase that are on prompts of some lengths, or on all where there are no others."""
        phase_checks = [check for check in self.checks if check.phase is phase]
        return tuple([check for check in phase_checks if check.end] or phase_checks)

    def tightest(self, phase: Phase) -> LevelCheck | None:
        """The check of the phase that is nearest to its bound, or beyond it by most; without bounds the slowest."""
        return max(self.of(phase), key=lambda check: check.pressure, default=None)


def judged_levels(plan: Plan) -> tuple[JudgedLevels, ...]:
    """The levels at demand and promise where times are known by load, else at the goodput; none without times."""
    rows = plan.outlook.latencies
    if not rows:
        return _of_ranges(plan)
    judged = (levels_at(plan.scenario.slo, [row for row in rows if row.load is load]) for load in JUDGED_LOADS)
    return tuple(levels for levels in judged if levels is not None)


def levels_at(slo: SloSettings, rows: Sequence[BucketLatency]) -> JudgedLevels | None:
    """The levels at one load by its rows; None without rows."""
    if not rows:
        return None
    checks = [_of_bucket(slo, row) for row in rows]
    if slo.over_all:
        checks += _of_all(slo, rows)
    return JudgedLevels(load=rows[0].load.value, rate_rps=rows[0].rate_rps, checks=tuple(checks))


def _of_bucket(slo: SloSettings, row: BucketLatency) -> LevelCheck:
    return LevelCheck(
        phase=row.phase,
        start=row.start,
        end=row.end,
        part=row.part,
        bound_ms=row.bound_ms,
        needed=slo.needed,
        share=_calculated(row.kept_share),
        value_ms=_calculated(row.late_ms),
        p50_ms=row.p50_ms,
        decides=not (slo.over_all and row.phase is Phase.PREFILL),
    )


def _of_all(slo: SloSettings, rows: Sequence[BucketLatency]) -> list[LevelCheck]:
    """The TTFT of all requests with a bound together, by the shares of the buckets."""
    bounded = [row for row in rows if row.phase is Phase.PREFILL and row.bound_ms is not None]
    part = sum(row.part for row in bounded)
    if not part:
        return []
    kept_share = sum(row.part * (row.kept_share or 0.0) for row in bounded) / part
    mean_ms = sum(row.part * _endless(row.late_ms) for row in bounded) / part
    return [
        LevelCheck(
            phase=Phase.PREFILL,
            part=part,
            bound_ms=sum(row.part * (row.bound_ms or 0.0) for row in bounded) / part,
            needed=slo.needed,
            share=Spread(mean=kept_share) if slo.needed else None,
            value_ms=None if slo.needed or math.isinf(mean_ms) else Spread(mean=mean_ms),
        )
    ]


def _of_ranges(plan: Plan) -> tuple[JudgedLevels, ...]:
    service = plan.service
    if service is None:
        return ()
    checks = tuple(
        LevelCheck(
            phase=phase,
            start=row.start,
            end=row.end,
            bound_ms=row.bound_ms,
            needed=plan.scenario.slo.needed,
            share=None,
            value_ms=_calculated(row.mean_ms if service.percentile is None else row.percentile_ms),
        )
        for phase in PHASES
        for row in service.ranges
        if row.phase is phase
    )
    return (JudgedLevels(load=GOODPUT, rate_rps=service.goodput_rps, checks=checks),)


def _calculated(figure: float | None) -> Spread | None:
    return None if figure is None else Spread(mean=figure)


def _endless(time_ms: float | None) -> float:
    return math.inf if time_ms is None else time_ms
