"""A replay as its folder keeps it: the figures that a plan's page shows beside the predicted ones."""

from dataclasses import dataclass

from planner.domain.layout import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTimes:
    """P50 and P99 of TTFT or TPOT (ms) of replayed prompts of `start` <= tokens < `end`; None where there is no end."""

    phase: Phase
    start: int
    end: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplay:
    """`plan`: the scenario's name; `capacity_rps`: that plan's, by which a replay of another one is known."""

    plan: str
    capacity_rps: float
    rate_rps: float
    holds: bool
    policy: str
    summary: str
    buckets: tuple[StoredTimes, ...]

    def times(self, phase: Phase, start: int, end: int) -> tuple[float | None, float | None] | None:
        """P50 and P99 of a bucket; None where the replay has none of that bucket."""
        rows = (row for row in self.buckets if (row.phase, row.start, row.end) == (phase, start, end))
        return next(((row.p50_ms, row.p99_ms) for row in rows), None)
