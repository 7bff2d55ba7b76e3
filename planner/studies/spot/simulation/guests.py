"""Jobs while they are simulated: where their pods lie, and their own clocks."""

from dataclasses import dataclass, field
from math import nan

from planner.studies.spot.records import SpotJob


@dataclass(slots=True)
class SpotGuest:
    """A spot job. `run`: how often it has been started or told to end, so that a stale end is known as one."""

    number: int
    job: SpotJob
    left_s: float
    places: list[int] = field(default_factory=list)
    started_s: float = nan
    first_s: float | None = None
    finished_s: float | None = None
    run: int = 0
    evictions: int = 0

    @property
    def runs(self) -> bool:
        """Whether it is at work now."""
        return bool(self.places)


@dataclass(slots=True)
class HpGuest:
    """A guaranteed job. `offset_s`: simulation time minus the job's clock, which stands while it waits for what it had
    lent. `window`: the next or present one."""

    number: int
    job: SpotJob
    places: list[int] = field(default_factory=list)
    started_s: float | None = None
    finished_s: float | None = None
    offset_s: float = nan
    window: int = 0
    lent: bool = False
    claimed_s: float = nan
    resume_s: float = 0.0

    def next_s(self) -> float:
        """When its state changes next: a window begins or ends, or the job does."""
        windows = self.job.standby
        if self.window < len(windows):
            window = windows[self.window]
            return self.offset_s + (window.end_s if self.lent else window.start_s)
        return self.offset_s + self.job.duration_s
