"""A planning question, with every name already resolved to a record."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from planner.domain.changes import ChangePolicy
from planner.domain.cluster import Cluster
from planner.domain.engine import EngineProfile
from planner.domain.keys import INTERNAL, Bounds, Key, OneOf
from planner.domain.layout import Inventory, Layout
from planner.domain.model.spec import ModelSpec
from planner.domain.objective import ObjectiveSettings
from planner.domain.placement import PlacementSettings
from planner.domain.serving.caches.network import KvTraffic, NetworkSettings
from planner.domain.serving.caches.tiers import TierSettings
from planner.domain.serving.cost import CostMode, CostSettings, CostSource
from planner.domain.serving.deploy import DeploySettings
from planner.domain.serving.doubt import DoubtSettings
from planner.domain.serving.programs import PROGRAMS, Surroundings, router_of
from planner.domain.serving.promise import PromiseSettings
from planner.domain.serving.routers import RouterBehaviour, behaviour_of
from planner.domain.serving.routing import (
    DEFAULT_SERVING,
    SIMPLICITY,
    LengthMeasure,
    RouterPolicy,
    RoutingForm,
    RoutingSettings,
    ServingForm,
    SurvivalSettings,
)
from planner.domain.serving.targets import target_row
from planner.domain.slo import SloSettings
from planner.domain.stocks import Sizes, SizeSet, Stock, stocks_of
from planner.domain.workload import CachedPrefixes, CacheRate, LengthProfile, RequestTrace, Workload

FEWEST_FAILURES = 8  # fewer do not end a search
STEEPEST = 20.0  # of a skew, either way


class Formulation(StrEnum):
    """Inner problem: the rate of the whole mix, or the paper's throughput less weighted deviation."""

    MAX_RATE = "max_rate"
    DEVIATION = "deviation"


class SearchMethod(StrEnum):
    """How the outer loop comes by layouts.

    `divider`, `direct`, `graph`: Bayesian optimisation over that encoding. `random`, `sobol`, `grid`, `genetic`:
    baselines over `SearchSettings.encoding`. `exact`: the layout is solved for. `auto`: solved for where the programme
    sees all that the scenario asks; else Bayesian optimisation, seeded with the programme's answer.
    """

    DIVIDER = "divider"
    DIRECT = "direct"
    GRAPH = "graph"
    RANDOM = "random"
    SOBOL = "sobol"
    GRID = "grid"
    GENETIC = "genetic"
    EXACT = "exact"
    AUTO = "auto"

    @property
    def row(self) -> "MethodRow":
        """What the method says of itself."""
        return METHODS[self]


class Encoding(StrEnum):
    """What a search varies: island count and skew of a type, the sizes of K slots, or where the graph of a cluster's
    GPUs is cut, island count and skew."""

    DIVIDER = "divider"
    DIRECT = "direct"
    GRAPH = "graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRow:
    """A search method. `encoding`: its own, where it has one. `surrogate`: it fits a model to what it has seen.

    `solves`: the layout is solved for and never searched; `may_solve`: it is where that answers all that is asked, and
    otherwise a solved layout begins the search. `by_budget`: what it proposes depends on how many layouts it may judge.
    """

    encoding: Encoding | None = None
    surrogate: bool = False
    solves: bool = False
    may_solve: bool = False
    by_budget: bool = False


METHODS: Mapping[SearchMethod, MethodRow] = MappingProxyType(
    {
        SearchMethod.DIVIDER: MethodRow(encoding=Encoding.DIVIDER, surrogate=True),
        SearchMethod.DIRECT: MethodRow(encoding=Encoding.DIRECT, surrogate=True),
        SearchMethod.GRAPH: MethodRow(encoding=Encoding.GRAPH, surrogate=True),
        SearchMethod.RANDOM: MethodRow(),
        SearchMethod.SOBOL: MethodRow(),
        SearchMethod.GRID: MethodRow(by_budget=True),
        SearchMethod.GENETIC: MethodRow(),
        SearchMethod.EXACT: MethodRow(solves=True),
        SearchMethod.AUTO: MethodRow(surrogate=True, may_solve=True),
    }
)


class WarmStart(StrEnum):
    """Layouts to begin with: the layout programme's answer, or its relaxation, rounded."""

    EXACT = "exact"
    RELAXATION = "relaxation"


class Bound(StrEnum):
    """How a plan's bound is found: by the relaxation (milliseconds), or by solving the layout itself (seconds)."""

    FAST = "fast"
    TIGHT = "tight"


class Surrogate(StrEnum):
    """Model behind Bayesian optimisation: a Gaussian process; a sparse one, fully Bayesian (NUTS); its MAP variant."""

    GP = "gp"
    SAASBO = "saasbo"
    SAASBO_MAP = "saasbo_map"


class Candidates(StrEnum):
    """Where Bayesian optimisation seeks the layouts of a round: near good ones, but for a share, or all of them where
    its acquisition function is highest, as the thesis does."""

    NEIGHBOURS = "neighbours"
    ACQUISITION = "acquisition"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSettings:
    """How a workload is cut into length ranges."""

    width: Annotated[int, Bounds(low=1, high=1_000_000), Key("of a range; or `cells` of them", unit="tokens")] = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentSettings:
    """Inner problem and solver. `tau`, `deviation_weight` (M) and `idle` belong to the deviation formulation alone."""

    formulation: Annotated[Formulation, Key("the rate of the whole mix, or the paper's less weighted deviation")] = (
        Formulation.MAX_RATE
    )
    solver: Annotated[str, OneOf(("highs", "cbc")), Key("solver of the MILPs")] = "highs"
    work_limit: Annotated[float, Bounds(above=0), Key("of one solve")] = 20.0
    gap: Annotated[float, Bounds(low=0, below=1), Key("relative, to be proven")] = 1e-4
    tau: Annotated[float, Bounds(low=0, high=1e6), Key("weight of the paper's deviation in rates")] = 0.5
    deviation_weight: Annotated[float, Bounds(low=0, high=1e9), Key("weight of the deviation, M of the paper")] = 100.0
    idle: Annotated[bool, Key("an island that serves only some ranges may stand still", sparse=True)] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Outer search; the defaults are the paper's. Skews lie between `least_skew` (None: -`skew`) and `skew`. `earlier`:
    layouts of runs before, which are judged first, too."""

    method: Annotated[SearchMethod, Key("how layouts are come by")] = SearchMethod.DIVIDER
    encoding: Annotated[Encoding, Key("what random, sobol, grid, genetic and auto vary")] = Encoding.DIVIDER
    surrogate: Annotated[Surrogate, Key("model behind Bayesian optimisation")] = Surrogate.GP
    candidates: Annotated[Candidates, Key("where Bayesian optimisation seeks layouts")] = Candidates.NEIGHBOURS
    iterations: Annotated[int, Bounds(low=1, high=100_000), Key("rounds")] = 15
    batch_size: Annotated[int, Bounds(low=1, high=10_000), Key("layouts of a round")] = 16
    min_island_size: Annotated[int, Bounds(low=1), Key("of every island", unit="GPUs")] = 2
    skew: Annotated[
        float,
        Bounds(above=0, high=STEEPEST),
        Key("largest, or a list of the least and the largest; of divider"),
    ] = 5.0
    least_skew: Annotated[float | None, INTERNAL] = None
    slots: Annotated[int, Bounds(low=1, high=64), Key("of each GPU type (K), of the direct encoding")] = 8
    seed: Annotated[int, Bounds(low=0, high=2**32 - 1), Key("of all that is random")] = 0
    processes: Annotated[int, Bounds(low=1, high=1024), Key("that evaluate layouts")] = 1
    sizes: Annotated[Sizes, Key("of islands, or a list; searches know all and whole_nodes")] = SizeSet.ALL
    gap: Annotated[float, Bounds(low=0, below=1), Key("of the exact method and a tight bound, relative")] = 0.002
    work_limit: Annotated[float, Bounds(above=0, high=1e6), Key("of the exact method and a tight bound")] = 120.0
    bound: Annotated[Bound, Key("how a plan's bound is found")] = Bound.FAST
    warm_start: Annotated[
        tuple[WarmStart, ...], Key("layouts to begin with; also runs, and layouts as rows of GPU type, size, count")
    ] = ()
    earlier: Annotated[tuple[Layout, ...], INTERNAL] = ()
    failure_limit: Annotated[float, Bounds(low=0, high=1), Key("share of evaluations that may break off")] = 0.5
    timings: Annotated[bool, Key("whether a plan tells CPU-seconds")] = True

    @property
    def encoded(self) -> Encoding:
        """The encoding that the method searches."""
        return self.method.row.encoding or self.encoding

    @property
    def skews(self) -> tuple[float, float]:
        """The least and the largest skew."""
        return -self.skew if self.least_skew is None else self.least_skew, self.skew

    def too_many_failures(self, failed: int, judged: int) -> bool:
        """Whether a search ends for so many evaluations that broke off, of those made so far."""
        return failed >= FEWEST_FAILURES and failed > self.failure_limit * judged

    def stocks(self, inventory: Inventory) -> tuple[Stock, ...]:
        """The inventory in the units that islands are made of, too little for any island among it."""
        return tuple(stock for item in inventory.items for stock in stocks_of(item, self.sizes, self.min_island_size))

    def slots_too_few(self, inventory: Inventory) -> bool:
        """Whether more slots would give two islands, one a phase, where there can be only one."""
        by_stock = [stock.most_islands for stock in self.stocks(inventory)]
        direct = not self.method.row.solves and self.encoded is Encoding.DIRECT
        return direct and sum(by_stock) > 1 >= sum(min(self.slots, islands) for islands in by_stock)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputHash:
    """A file that the scenario was read from, by name and SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Model, workload, inventory and settings. `workload` keeps exact lengths; the pipeline cuts the ranges.

    `network` is None where KV transfer is taken to be free, `tiers` where KV caches lie in device memory alone;
    `cluster` is None where islands are not put on nodes. `engine`: whose rules a plan has to keep. `deploy`: how the
    plan is deployed; `changes`: what changing it takes. `trace`: the workload's own requests, where the objective
    replays them; a scenario that was read back from a run has lost them.
    """

    name: str
    model: ModelSpec
    workload: LengthProfile
    inventory: Inventory
    ranges: RangeSettings = field(default_factory=RangeSettings)
    cost: CostSettings = field(default_factory=CostSettings)
    slo: SloSettings = field(default_factory=SloSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    assignment: AssignmentSettings = field(default_factory=AssignmentSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    inputs: tuple[InputHash, ...] = ()
    network: NetworkSettings | None = None
    tiers: TierSettings | None = None
    cluster: Cluster | None = None
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    routing: RoutingSettings = field(default_factory=RoutingSettings)
    simplicity: float = SIMPLICITY
    serving: ServingForm | None = DEFAULT_SERVING
    survive: SurvivalSettings = field(default_factory=SurvivalSettings)
    doubt: DoubtSettings = field(default_factory=DoubtSettings)
    promise: PromiseSettings = field(default_factory=PromiseSettings)
    engine: EngineProfile = field(default_factory=EngineProfile)
    deploy: DeploySettings = field(default_factory=DeploySettings)
    changes: ChangePolicy = field(default_factory=ChangePolicy)
    trace: RequestTrace | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Tell the cost settings what their `auto` draws on, and each GPU type what its part of the tiers costs,
        whichever part of a scenario was replaced."""
        prefixes = self._prefixes
        if prefixes != self.cost.prefixes:
            object.__setattr__(self, "cost", replace(self.cost, prefixes=prefixes))
        tiers = self.tiers or TierSettings()
        rents = [tiers.usd_per_gpu_hour(item.gpu) for item in self.inventory.items]
        if rents != [item.tiers_usd_per_gpu_hour for item in self.inventory.items]:
            pairs = zip(self.inventory.items, rents, strict=True)
            items = tuple(replace(item, tiers_usd_per_gpu_hour=rent) for item, rent in pairs)
            object.__setattr__(self, "inventory", replace(self.inventory, items=items))

    @property
    def _prefixes(self) -> CachedPrefixes | None:
        workload = self.workload
        if self.cost.kv_cache_rate is not CacheRate.AUTO or workload.prefix is None:
            return None
        gpus = tuple((item.gpu.name, item.count) for item in self.inventory.items)
        mean = max(1.0, workload.mean_input_tokens)
        return CachedPrefixes(
            reuse=workload.prefix,
            mean_prompt=mean,
            arrival_rps=workload.arrival_rps,
            gpus=gpus,
            tiers=self.tiers,
            fleet_gpus=sum(item.count for item in self.inventory.items) if self.tiers is not None else 0,
            mean_answer=max(1.0, workload.mean_output_tokens),
            policy=(self.routing.policy or RouterPolicy.LEAST_WORK).value,
        )

    @property
    def router(self) -> RouterBehaviour:
        """The router that the plan is priced for: the one that it is to be deployed with, else that of its policy."""
        if not self.deployed_router:
            return behaviour_of(self.routing.policy or RouterPolicy.LEAST_WORK)
        return PROGRAMS[self.deployed_router](Surroundings.of(self.engine, self.deploy))

    @property
    def deployed_router(self) -> str:
        """The program that the plan is priced for; empty: it is priced for a policy, whose router is one's own."""
        if self.routing.policy is not None or not self.bucketed:
            return ""
        program = router_of(self.deploy)
        return program if program in PROGRAMS else ""

    @property
    def chosen_in_draws(self) -> bool:
        """Whether pools are chosen by what they serve in draws of how fast servers are."""
        row = self.objective.kind.row
        return row.robust or (row.plain and self.promise.sure is not None)

    @property
    def most_buckets(self) -> int:
        """Of a phase: one where the router tells lengths by bytes, as what goes astray at a cut point has no price."""
        return self.routing.most if self.router.measure is LengthMeasure.TOKENS else 1

    @property
    def routing_form(self) -> RoutingForm:
        """The form that was asked for; else buckets where their programme knows all that is asked."""
        return self.routing.form or (RoutingForm.TABLE if self.beyond_buckets else RoutingForm.BUCKETS)

    @property
    def bucketed(self) -> bool:
        """Whether the plan has buckets."""
        return self.routing_form is RoutingForm.BUCKETS

    @property
    def beyond_buckets(self) -> str:
        """What of the scenario the programme of buckets does not know, as its key and value; empty: nothing.

        Both are the paper's and stay as it has them: reference mode knows sizes of islands, not servers that an engine
        would start, nor their memory and queues; deviation weighs what each range gets against the mix, and a bucket
        has one rate for all of its ranges.
        """
        keys = (
            ("cost.mode: reference", self.cost.mode is CostMode.REFERENCE),
            ("assignment.formulation: deviation", self.assignment.formulation is Formulation.DEVIATION),
        )
        return next((key for key, is_asked in keys if is_asked), "")

    @property
    def serving_form(self) -> ServingForm:
        """The form of serving that was asked for; else the better of both where mixed pools know all that is asked."""
        return self.serving or (ServingForm.SPLIT if self.beyond_mixed else ServingForm.AUTO)

    @property
    def beyond_mixed(self) -> str:
        """What of the scenario pools that do both phases do not know, as its key and value; empty: nothing.

        Tables know islands of one phase; what running sequences leave of device memory for prefixes is not known, so
        hits are counted where tiers below it keep them; a profile
        has no passes of both phases; and sets of that target join prefill with decode.
        """
        keys = (
            (f"routing.form: {self.routing_form.value}", not self.bucketed),
            ("cost.kv_cache_rate: auto", self.cost.kv_cache_rate is CacheRate.AUTO and self.tiers is None),
            ("cost.source: tabulated", self.cost.source is CostSource.TABULATED),
            (f"deploy.target: {self.deploy.target}", target_row(self.deploy.target).joins),
        )
        return next((key for key, is_asked in keys if is_asked), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a layout is judged by: a scenario, and the ranges of its workload, which `workload.question_of` cuts."""

    scenario: Scenario
    workload: Workload

    @property
    def kv(self) -> KvTraffic | None:
        """What the network has to carry; None where KV transfer is taken to be free."""
        if self.scenario.network is None:
            return None
        return KvTraffic.of(self.scenario.model, self.scenario.inventory, self.workload.ranges)

    @property
    def demand_rps(self) -> float:
        """Requests/s at which headroom is measured: the objective's, else those that the workload has."""
        return self.scenario.objective.demand_rps or self.scenario.workload.arrival_rps or 0.0

    @property
    def of_rate(self) -> "Question":
        """The same, of the rate alone."""
        return replace(self, scenario=replace(self.scenario, objective=ObjectiveSettings()))

    @property
    def off_nodes(self) -> "Question":
        """The same without the cluster: megabytes, which a process that places nothing need not be sent."""
        return replace(self, scenario=replace(self.scenario, cluster=None))
