"""Spot GPU-seconds by what became of them: work that was kept, work that was lost, time in which pods were ending.

Only what falls between the end of the warm-up and the end of the run counts, so that the three add up to what spot jobs
held in that time. Work of a run that is still going on at the end counts as kept.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Accounts:
    """`from_s`, `to_s`: the time that counts. Sums in GPU-seconds; single times (s) of evictions and resumes."""

    from_s: float
    to_s: float
    kept: float = 0.0
    lost: float = 0.0
    ending: float = 0.0
    eviction_s: list[float] = field(default_factory=list)
    resume_s: list[float] = field(default_factory=list)

    def _within(self, start_s: float, end_s: float) -> float:
        return max(0.0, min(end_s, self.to_s) - max(start_s, self.from_s))

    def ran(self, gpus: int, start_s: float, kept_s: float, end_s: float) -> None:
        """A run from `start_s` to `end_s` of which the first `kept_s` count."""
        edge = min(start_s + kept_s, end_s)
        self.kept += gpus * self._within(start_s, edge)
        self.lost += gpus * self._within(edge, end_s)

    def evicted(self, gpus: int, now_s: float, lasts_s: float) -> None:
        """Pods were told to end and take so long."""
        self.ending += gpus * self._within(now_s, now_s + lasts_s)
        if now_s >= self.from_s:
            self.eviction_s.append(lasts_s)

    def resumed(self, now_s: float, lasted_s: float) -> None:
        """A guaranteed job has back what it lent, so long after it asked."""
        if now_s >= self.from_s:
            self.resume_s.append(lasted_s)
