"""A plan as its manifests carry it: what a cluster is asked to run, without how the planner came to it."""

from dataclasses import dataclass, field

from planner.domain.layout import ParallelConfig, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PodField:
    """A field of what a controller makes pods of: its path there, and its words (one where it is no list)."""

    path: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedIsland:
    """One island that serves. `longest_prompt` in tokens; `batch_size`, `utilisation` as in `PlannedIsland`.

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
