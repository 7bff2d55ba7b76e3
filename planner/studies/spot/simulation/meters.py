"""What is measured in a run: GPUs over time, jobs' accounts, and what becomes of each job.

Only what falls between the end of the warm-up and the end of the run counts, so that the three add up to what spot jobs
held in that time. Work of a run that is still going on at the end counts as kept.

| symbol | meaning | unit | source |
|---|---|---|---|
| S | GPUs of a node | GPUs | - |
| H | GPUs held by guaranteed jobs at work or with a claim | GPUs | - |
| B | GPUs lent out by guaranteed jobs on standby | GPUs | ASI paper, 4.2 |
| L | GPUs of spot jobs, evicted pods until they are gone | GPUs | - |
| HP | (min(H, S) + max(B - L, 0)) / S, mean over nodes | - | facts on spot scheduling, 1 |
| HP+LP | (min(H + L, S) + max(B - L, 0)) / S, at most 1, mean over nodes | - | facts on spot scheduling, 1 |
| harvest | sum of min(B, L) / sum of B | - | ours: of lent GPU-hours |
| published harvest | mean over nodes with B > 0 of L / B, at most 1 in each hour | - | scripts of figure 16 (90 %) |

Spot jobs on idle GPUs of a lending node count in the published harvest: its L / B may exceed 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

from planner.studies.spot.records import SpotJob, SpotNode, SpotSample


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


Quantities = list[float]
HP, ALL, HELD, STANDBY, SPOT, ENDING, BUSY, HARVESTED, LENDERS, USED_OF_LENT = range(10)
"""Places in the sums: the two allocation ratios (summed over nodes), GPUs, then nodes with B > 0 and their L / B."""

WIDTH = 10


@dataclass(slots=True)
class _Edge:
    """The series: where the next sample ends, what the integrals were at the last one."""

    every_s: float
    next_s: float
    before: Quantities
    evictions: int = 0


class Meters:
    """Sums over nodes as they are, integrals over time since the warm-up ended, and a sample every so often."""

    def __init__(self, nodes: Sequence[SpotNode], *, warm_up_s: float, sample_s: float) -> None:
        self.gpus = [node.gpus for node in nodes]
        self.total = sum(self.gpus)
        self.now_s, self._warm_s = 0.0, warm_up_s
        self.sums: Quantities = [0.0] * WIDTH
        self._parts: list[tuple[float, ...]] = [(0.0,) * WIDTH for _ in nodes]
        self._all: Quantities = [0.0] * WIDTH
        self._at_warm: Quantities | None = None
        self._edge = _Edge(every_s=sample_s, next_s=sample_s, before=[0.0] * WIDTH)
        self.series: list[SpotSample] = []
        self.waiting_jobs, self.waiting_gpus, self.evictions = 0, 0, 0

    def note(self, place: int, hp_gpus: int, standby: int, spot: int, ending: int) -> None:
        """A node's GPUs by who has them, from now on."""
        gpus = self.gpus[place]
        used, busy = spot + ending, min(hp_gpus + spot + ending, gpus)
        idle_standby = max(standby - used, 0)
        now = (
            (min(hp_gpus, gpus) + idle_standby) / gpus,
            min(busy + idle_standby, gpus) / gpus,
            float(min(hp_gpus, gpus)),
            float(standby),
            float(spot),
            float(ending),
            float(busy),
            float(min(standby, used)),
            float(standby > 0),
            used / standby if standby else 0.0,
        )
        before = self._parts[place]
        if now != before:
            sums = self.sums
            for at in range(WIDTH):
                sums[at] += now[at] - before[at]
            self._parts[place] = now

    def advance(self, to_s: float) -> None:
        """Time passes; samples and the end of the warm-up fall where they belong."""
        while self._edge.next_s <= to_s:
            self._pass(self._edge.next_s)
            self._sample()
        self._pass(to_s)

    def finish(self) -> None:
        """The last stretch, where it is shorter than the others: a sample of its own."""
        lasted_s = self.now_s - (self._edge.next_s - self._edge.every_s)
        if lasted_s > 1e-6 * self._edge.every_s:
            self._edge.every_s, self._edge.next_s = lasted_s, self.now_s
            self._sample()

    def _pass(self, to_s: float) -> None:
        if self._at_warm is None and to_s >= self._warm_s:
            self._add(self._warm_s - self.now_s)
            self.now_s, self._at_warm = self._warm_s, list(self._all)
        self._add(to_s - self.now_s)
        self.now_s = to_s

    def _add(self, seconds: float) -> None:
        if seconds > 0:
            self._all = [value + seconds * now for value, now in zip(self._all, self.sums, strict=True)]

    def _sample(self) -> None:
        edge = self._edge
        mean = [(now - then) / edge.every_s for now, then in zip(self._all, edge.before, strict=True)]
        self.series.append(
            SpotSample(
                time_s=edge.next_s,
                hp_gpus=mean[HELD],
                standby_gpus=mean[STANDBY],
                spot_gpus=mean[SPOT] + mean[ENDING],
                idle_gpus=max(0.0, self.total - mean[BUSY]),
                waiting_jobs=self.waiting_jobs,
                waiting_gpus=self.waiting_gpus,
                evictions=self.evictions - edge.evictions,
                harvested_gpus=mean[HARVESTED],
                lending_nodes=mean[LENDERS],
                published_harvest=min(1.0, mean[USED_OF_LENT] / mean[LENDERS]) if mean[LENDERS] > 0 else None,
            )
        )
        edge.before, edge.evictions, edge.next_s = list(self._all), self.evictions, edge.next_s + edge.every_s

    def integrals(self) -> Quantities:
        """The sums over time (s) since the warm-up ended."""
        then = self._at_warm or [0.0] * WIDTH
        return [now - before for now, before in zip(self._all, then, strict=True)]

    @property
    def measured_s(self) -> float:
        """Seconds since the warm-up ended."""
        return max(0.0, self.now_s - self._warm_s)
