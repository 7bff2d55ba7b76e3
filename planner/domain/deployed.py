"""A plan as its manifests carry it, and what changes in a cluster when another takes its place."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.comparisons import PlanFigures
from planner.domain.efficiency import RateComparison
from planner.domain.layout import ParallelConfig, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PodField:
    """A field of what a controller makes pods of: its path there, and its words (one where it is no list)."""

    path: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedIsland:
    """One island that serves. `longest_prompt` in tokens; `batch_size`, `utilisation` as in `PlannedIsland`;
    `host_cache_gb`, `disk_cache_gb`: of each of its GPUs' caches, in host memory and on local disk.

    `pods`: what manifests make its pods of; empty where no manifests are known. `nodes`: where the plan places it;
    empty where it tells nothing of that. Neither is part of what the plan is: islands that differ in them are equal.
    """

    id: str
    phase: Phase
    gpu: str
    parallel: ParallelConfig
    batch_size: int
    longest_prompt: int
    rate_rps: float
    utilisation: float
    price_usd_per_hour: float
    host_cache_gb: float = 0.0
    disk_cache_gb: float = 0.0
    pods: tuple[PodField, ...] = field(default=(), compare=False)
    nodes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def size(self) -> int:
        """GPUs of the island."""
        return self.parallel.size


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedRoute:
    """`share` of the requests of `range_start` <= tokens < `range_end` go to `island` in `phase`; `probability` of all
    requests are in that range (None: not told)."""

    phase: Phase
    range_start: int
    range_end: int
    island: str
    share: float
    probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPlan:
    """What manifests say of their plan. `name` and `model` are the scenario's; `inventory`: GPUs there are, by type."""

    name: str
    model: str
    engine: str
    target: str
    islands: tuple[DeployedIsland, ...]
    routes: tuple[DeployedRoute, ...]
    inventory: tuple[tuple[str, int], ...]

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs that serve, by type."""
        counts: dict[str, int] = {}
        for island in self.islands:
            counts[island.gpu] = counts.get(island.gpu, 0) + island.size
        return counts


class IslandFate(StrEnum):
    """What happens to an island. A scaled one keeps the copies that both plans have."""

    UNCHANGED = "unchanged"
    RENAMED = "renamed"
    SCALED = "scaled"
    RESTARTED = "restarted"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedValue:
    """A field that differs, `old` and `new` as text."""

    field: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandChange:
    """An island of the old plan and the one that it becomes (None: added or removed). `changes`: fields that differ,
    but for its id. `pods`: fields of its pods that do, or its nodes, where nothing else would restart it."""

    fate: IslandFate
    old: DeployedIsland | None
    new: DeployedIsland | None
    changes: tuple[ChangedValue, ...] = ()
    pods: tuple[ChangedValue, ...] = ()

    @property
    def id(self) -> str:
        """Its id, the new one where there is one."""
        island = self.new or self.old
        assert island is not None
        return island.id

    @property
    def renamed(self) -> bool:
        """Whether the plans call it differently."""
        return self.old is not None and self.new is not None and self.old.id != self.new.id


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChange:
    """GPUs of one type: what serves in either plan, what is started and stopped, and how many there are.

    `inventory` is the new plan's (the old one's where that tells none), None where neither tells.
    """

    gpu: str
    old: int
    new: int
    started: int
    stopped: int
    inventory: int | None

    @property
    def peak_surging(self) -> int:
        """GPUs at most in use where all that is new starts before anything stops."""
        return self.old + self.started

    @property
    def peak_stopping_first(self) -> int:
        """GPUs at most in use where all that has to go stops first."""
        return max(self.old, self.new)

    @property
    def missing_to_surge(self) -> int | None:
        """GPUs that the inventory lacks to start before stopping; None where the inventory is not told."""
        return None if self.inventory is None else max(0, self.peak_surging - self.inventory)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """Requests of `range_start` <= tokens < `range_end` that change island in `phase`: `moved` is their share of that
    range's requests (0 to 1), `probability` that range's share of all (None: not told). `lost` and `gained`: island (by
    its new id where it has one) and share. A range that one plan alone routes has nothing on the other side."""

    phase: Phase
    range_start: int
    range_end: int
    moved: float
    probability: float | None
    lost: tuple[tuple[str, float], ...]
    gained: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketComparison:
    """Of two plans of buckets, what differs: `deployed` in what runs and how requests are routed, `figures` in what is
    promised."""

    deployed: tuple[ChangedValue, ...]
    figures: tuple[ChangedValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDiff:
    """Old against new. `head`: name, model, engine, target and inventory where they differ; `restart_reasons`: those of
    them that restart every island. `pods_compared`: both sides tell the pods of every island that they share; runs tell
    none, as nobody has chosen images, cores, queues or pins. `rates`: of both, where two runs of one model and workload
    are compared. `buckets`: where a run that is compared has some. `figures`: of both, where both are runs."""

    old: str
    new: str
    head: tuple[ChangedValue, ...]
    restart_reasons: tuple[str, ...]
    islands: tuple[IslandChange, ...]
    gpus: tuple[GpuChange, ...]
    routes: tuple[RouteChange, ...]
    pods_compared: bool = True
    rates: RateComparison | None = None
    buckets: BucketComparison | None = None
    figures: tuple[PlanFigures, PlanFigures] | None = None

    def moved_of_all(self, phase: Phase) -> float | None:
        """Share of all requests that change island in `phase`; None where the plans tell no probabilities."""
        moves = [(change.moved, change.probability) for change in self.routes if change.phase is phase]
        shares = [moved * share for moved, share in moves if share is not None]
        return math.fsum(shares) if len(shares) == len(moves) else None

    @property
    def differs(self) -> bool:
        """Whether anything is told; rates, prices and utilisation are not looked at."""
        deployed = self.buckets.deployed if self.buckets is not None else ()
        changed = any(i.fate is not IslandFate.UNCHANGED for i in self.islands)
        return bool(self.head or self.routes or deployed or changed)
