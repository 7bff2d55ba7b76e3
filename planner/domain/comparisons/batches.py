"""A batch: many jobs, each a scenario with what is set in it, planned once and held beside each other."""

from dataclasses import dataclass

from planner.domain.comparisons.plans import PlanFigures
from planner.domain.comparisons.sweeps import PointState


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """A job as the index has it. `settings`: `KEY=VALUE` each; `run`: name of its run folder; `content`: digest of what
    decides its plan. Jobs of equal content share a run."""

    name: str
    scenario: str
    settings: tuple[str, ...]
    seed: int | None
    engine: str
    run: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIndex:
    """What was asked for: the jobs file or folder, and every job in its order."""

    source: str
    entries: tuple[BatchEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """What stays of a job's end beside its run. `status`: the exit status that it would have alone; `plan_sha256` and
    `files`: of a run, by which it is known to be still there and untouched."""

    content: str
    state: PointState
    status: int
    message: str = ""
    plan_sha256: str = ""
    files: tuple[str, ...] = ()
    figures: PlanFigures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A job and what came of it. `message`: why there is no plan. `same_as`: the first job that asks the same."""

    entry: BatchEntry
    state: PointState
    status: int
    message: str = ""
    figures: PlanFigures | None = None
    same_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """All jobs of a batch, in the order of its index."""

    index: BatchIndex
    jobs: tuple[BatchJob, ...]

    def count(self, state: PointState) -> int:
        """How many jobs are in a state."""
        return sum(job.state is state for job in self.jobs)

    @property
    def distinct(self) -> int:
        """How many of the jobs ask something of their own."""
        return sum(not job.same_as for job in self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEffort:
    """What a job took where it was executed."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEffort:
    """What a call took: `began`, UTC; `executor`, its name; `runs`, by name of the run folder; `quarantined`, what was
    moved aside, with the reason."""

    began: str
    executor: str
    wall_s: float
    runs: tuple[tuple[str, JobEffort], ...]
    quarantined: tuple[tuple[str, str], ...] = ()
