"""Plans beside each other: figures of each, how likely each is better, what differs in what was asked."""

from dataclasses import dataclass

from planner.domain.band import RateBand
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
