"""Plans beside each other: figures, what differs, sweeps over keys of a scenario, batches; and runs computed anew."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Generic, TypeVar

from planner.domain.efficiency import RateBand
from planner.domain.keys import Key
from planner.domain.layout import Phase
from planner.domain.serving.levels import JudgedLevels, Standing, standing_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """What is compared of one plan.

    `form`: of routing. `rate_rps`: capacity; `burst_rps`: the promise where requests bunch as in the trace, where that
    is less. `watts`: of the GPUs that
    are paid for, at full load (W). `gap`: to `bound`, both of the objective in `unit`; `unrestricted_rps`: what no
    layout exceeds. `fleet`: GPUs that are paid for, by type; `idle_gpus`: of them, those in no island that serves.
    `kinds`: different servers, or classes of islands. `remaining_rps`: after the worst loss of `lost_nodes` nodes
    (None: not worked out); `survive_share`: what was asked for (0: nothing). Prices are None where a type of the fleet
    has none.
    """

    name: str
    form: str
    rate_rps: float
    promise_rps: float
    burst_rps: float | None
    band: RateBand | None
    price_usd_per_hour: float | None
    price_usd_per_million_tokens: float | None
    watts: float
    unit: str
    value: float | None
    bound: float | None
    gap: float | None
    unrestricted_rps: float | None
    levels: tuple[JudgedLevels, ...]
    fleet: tuple[tuple[str, int], ...]
    idle_gpus: int
    pools: int
    kinds: int
    lost_nodes: int
    remaining_rps: float | None
    survive_share: float

    @property
    def gpus(self) -> int:
        """GPUs that are paid for."""
        return sum(count for _, count in self.fleet)

    @property
    def levels_hold(self) -> bool | None:
        """Whether every level is kept that is set; None where none is."""
        standing = standing_of(check for levels in self.levels for check in levels.checks)
        return None if standing is None else standing is Standing.HOLDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """A pool of equal servers, or an island: `gpus` of one server, `start` <= tokens < `end` of its prompts."""

    island: str
    phase: Phase
    gpu: str
    servers: int
    gpus: int
    tp: int
    dp: int
    pp: int
    tokens_per_step: int
    batch_size: int
    start: int
    end: int
    share: float
    utilisation: float

    @property
    def words(self) -> str:
        """`8 × 8 H200 TP1 DP8`."""
        stages = f" PP{self.pp}" if self.pp > 1 else ""
        return f"{self.servers} × {self.gpus} {self.gpu} TP{self.tp} DP{self.dp}{stages}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigures:
    """TTFT (prefill) or TPOT (decode) of prompts of `start` <= tokens < `end` at `rate_rps` of the mix (ms); `late_ms`:
    as `statistic` says, which is a percentile or the mean."""

    load: str
    rate_rps: float
    phase: Phase
    start: int
    end: int
    p50_ms: float | None
    statistic: str
    late_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPlan:
    """One of the plans. `better_than_first`: how likely it serves more than the first (None: not comparable, or no
    bands); `best_probability`: how likely it serves most of all."""

    figures: PlanFigures
    pools: tuple[PoolFigures, ...]
    latencies: tuple[LatencyFigures, ...]
    better_than_first: float | None = None
    best_probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """A key of the scenario that is not the same in all plans, with its value in each, as text."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanComparison:
    """Plans beside each other, in the order in which they are shown; probabilities are against the first. `same_work`:
    whether all serve the same mix with the same model, so that their requests/s mean the same."""

    plans: tuple[ComparedPlan, ...]
    same_work: bool
    differences: tuple[KeyDifference, ...]
    warnings: tuple[str, ...]

    @property
    def best(self) -> ComparedPlan:
        """The plan of the highest rate; the first of equals."""
        return max(self.plans, key=lambda plan: plan.figures.rate_rps)


class PointState(StrEnum):
    """`planned`: there is a run. `infeasible`: nothing serves there. `failed`: an error that another try may not have.
    `missing`: not planned yet."""

    PLANNED = "planned"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEntry:
    """A point as the index has it: `labels`, the value of each key; `name` of its run folder; `content`: digest of what
    decides its plan. Points of equal content share a run."""

    labels: Annotated[tuple[str, ...], Key(name="values")]
    name: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepIndex:
    """What was asked for: the scenario's file, the keys, every point of the grid."""

    scenario: str
    keys: tuple[str, ...]
    entries: Annotated[tuple[SweepEntry, ...], Key(name="points")]


Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob(Generic[Entry]):
    """A job of a batch, or a point of a sweep, and what came of it. `status`: the exit status that it would have alone;
    `message`: why there is no plan; `same_as`: the first that asks the same."""

    entry: Entry
    state: PointState
    status: int
    message: str = ""
    figures: PlanFigures | None = None
    same_as: str = ""

    @property
    def repeats(self) -> bool:
        """Whether an earlier one asks the same."""
        return bool(self.same_as)


SweepPoint = EndedJob[SweepEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All points of a sweep, in the order of the grid: the last key changes first."""

    index: SweepIndex
    points: tuple[SweepPoint, ...]

    @property
    def varying(self) -> tuple[int, ...]:
        """Positions of the keys that have more than one value."""
        every = range(len(self.index.keys))
        return tuple(k for k in every if len({entry.labels[k] for entry in self.index.entries}) > 1)

    def values(self, position: int) -> tuple[str, ...]:
        """The values of a key, in their order."""
        return tuple(dict.fromkeys(entry.labels[position] for entry in self.index.entries))

    def count(self, state: PointState) -> int:
        """How many points are in a state."""
        return sum(point.state is state for point in self.points)


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


BatchJob = EndedJob[BatchEntry]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a file of a run says, and what comes out of its question. `file`: relative to the folder that was verified.
    `key`: of a document, or a line, a row and a column; empty where it is the file as a whole."""

    file: str
    key: str
    written: str
    due: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """`files`: those that were looked at; `unchecked`: what was taken as it is, and why, a sentence each."""

    files: tuple[str, ...]
    differences: tuple[Difference, ...]
    unchecked: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether all that could be computed anew is as it is written."""
        return not self.differences
