"""A replay as its folder keeps it: the figures that a plan's page shows beside the predicted ones."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.domain.layout import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTimes:
    """TTFT or TPOT (ms) of replayed prompts of `start` <= tokens < `end`, by statistic (`P50`, `mean`); None where
    there is no end."""

    phase: Phase
    start: int
    end: int
    times_ms: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplay:
    """`plan`: the scenario's name; `capacity_rps`: that plan's, by which a replay of another is known; `holds`: None
    where it is too short to tell."""

    plan: str
    capacity_rps: float
    rate_rps: float
    holds: bool | None
    policy: str
    summary: str
    buckets: tuple[StoredTimes, ...]

    def times(self, phase: Phase, start: int, end: int, statistic: str) -> tuple[float | None, float | None] | None:
        """P50 of a bucket and the time at a statistic; None where the replay has none of that bucket, or not that."""
        rows = [row for row in self.buckets if (row.phase, row.start, row.end) == (phase, start, end)]
        if not rows or statistic not in rows[0].times_ms:
            return None
        return rows[0].times_ms["P50"], rows[0].times_ms[statistic]
