"""Several services on one inventory: what is asked, who serves whom, and the plan of all.

A *service* is a stream of requests for one model with levels of its own. A *deployment* serves one or several of them:
it is an ordinary scenario, planned on the GPUs that it gets. A service has one deployment for each checkpoint of its
model that it may run, and one more where it may share pools with others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from planner.domain.arrivals import ArrivalProcess
from planner.domain.cluster import Cluster
from planner.domain.keys import Bounds, Key, Mapped
from planner.domain.layout import Inventory
from planner.domain.placement import PlacementSettings
from planner.domain.plan import Plan
from planner.domain.scenario import InputHash, Scenario
from planner.domain.schedules import RateSeries


class FleetAim(StrEnum):
    """What the division of a fleet is to be best at.

    `multiple`: the largest common multiple of all demands that is promised. `target`: the least rent at which all
    demands are. `weighted`: the most promised requests, each counted by its service's weight, none beyond its demand.
    `priority`: first the share of the demands that go first, then of those that follow.
    """

    MULTIPLE = "multiple"
    TARGET = "target"
    WEIGHTED = "weighted"
    PRIORITY = "priority"

    @property
    def row(self) -> "AimRow":
        """What the aim says of itself."""
        return AIMS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class AimRow:
    """An aim: the unit of its value, in words what it is of, and whether less is better."""

    unit: str
    words: str
    minimises: bool = False


AIMS: Mapping[FleetAim, AimRow] = MappingProxyType(
    {
        FleetAim.MULTIPLE: AimRow(unit="times the demands", words="the largest common multiple of all demands"),
        FleetAim.TARGET: AimRow(unit="USD/hour", words="the least rent that meets all demands", minimises=True),
        FleetAim.WEIGHTED: AimRow(unit="weighted requests/s", words="the most of what is asked for, by weight"),
        FleetAim.PRIORITY: AimRow(
            unit="places of the order served", words="first the demands that go first, then those that follow"
        ),
    }
)


class FleetJudge(StrEnum):
    """By what a division is judged. `formula`: what its plans promise, which a programme divides for. `placed`: what
    they promise once all lie on the nodes of one cluster. `replayed`: the highest rates at which replays hold the
    levels. The last two are searched for, from the programme's division on."""

    FORMULA = "formula"
    PLACED = "placed"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetObjective:
    """What a fleet is divided for. `floor`: the share of its demand below which no service falls, of weighted and
    priority. `demand_rps`: the fleet's rate, where services ask for shares of it."""

    kind: Annotated[FleetAim, Key("what the division is to be best at")] = FleetAim.MULTIPLE
    floor: Annotated[float, Bounds(low=0, high=1), Key("of weighted and priority: share of every demand")] = 0.0
    demand_rps: Annotated[float, Bounds(above=0), Key("the fleet's rate, of which services have shares")] = 1.0
    judged: Annotated[FleetJudge, Key("by what a division is judged")] = FleetJudge.FORMULA
    rounds: Annotated[int, Bounds(low=1, high=1000), Key("of placed and replayed: of the search")] = 5
    divisions: Annotated[int, Bounds(low=2, high=1000), Key("of placed and replayed: judged in a round")] = 8
    arrivals: Annotated[ArrivalProcess, Key("of replayed: poisson or gamma")] = ArrivalProcess.POISSON
    requests: Annotated[int, Bounds(low=1000, high=1_000_000), Key("of replayed: of one replay, at least")] = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTerms:
    """Work that waits: it takes what others leave, whole nodes of it. `tokens_a_day`: of prompts and answers that are
    asked for (0: as many as there are)."""

    tokens_a_day: Annotated[float, Bounds(low=0), Key("asked for; else as many as there are", sparse=True)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetService:
    """A service. `scenarios`: itself on the whole inventory, one for each checkpoint that it may run. `shares`: names
    of services whose pools it may share (empty: none). `batch`: it takes what others leave (None: it has a demand).
    `rates`: of which its demand is the highest (None: its demand is all that is known)."""

    name: str
    scenarios: tuple[Scenario, ...]
    demand_rps: float
    weight: float = 1.0
    priority: int = 1
    shares: tuple[str, ...] = ()
    batch: BatchTerms | None = None
    rates: RateSeries | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """An ordinary scenario on the whole inventory, and the part of its requests that each service has."""

    scenario: Scenario
    parts: tuple[tuple[str, float], ...]

    @property
    def name(self) -> str:
        """The scenario's."""
        return self.scenario.name

    @property
    def promised(self) -> float:
        """Of its rate, what it promises."""
        return self.scenario.routing.margin


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetScenario:
    """Services on one inventory. `share_nodes`: whether servers of several deployments may lie on one node. `cluster`:
    whose nodes the plans are put on as `placement` says, where that judges divisions."""

    name: str
    inventory: Inventory
    services: tuple[FleetService, ...]
    objective: FleetObjective = field(default_factory=FleetObjective)
    share_nodes: bool = False
    inputs: tuple[InputHash, ...] = ()
    cluster: Cluster | None = None
    placement: PlacementSettings = field(default_factory=PlacementSettings)

    @property
    def interactive(self) -> tuple[FleetService, ...]:
        """Those with a demand."""
        return tuple(service for service in self.services if service.batch is None)

    @property
    def batches(self) -> tuple[FleetService, ...]:
        """Those that take what others leave."""
        return tuple(service for service in self.services if service.batch is not None)

    def service(self, name: str) -> FleetService:
        """The service of a name."""
        return next(service for service in self.services if service.name == name)

    def host(self, gpu: str) -> int:
        """GPUs of a type that go to one deployment together: a node's, or one where nodes are shared."""
        return 1 if self.share_nodes else self.inventory.item(gpu).gpu.gpus_per_host


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPart:
    """A deployment's GPUs and its plan on them."""

    deployment: Deployment
    gpus: tuple[tuple[str, int], ...]
    plan: Plan

    @property
    def name(self) -> str:
        """The deployment's."""
        return self.deployment.name

    @property
    def promise_rps(self) -> float:
        """What its plan promises."""
        return self.plan.throughput_rps * self.deployment.promised

    def promised_to(self, service: str) -> float:
        """Requests/s that it promises a service."""
        return self.promise_rps * dict(self.deployment.parts).get(service, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceShare:
    """What a service gets. `promised_rps` of `demand_rps`. `rent_usd_per_hour`: its part of the fleet's rent, by
    Shapley; `marginal_usd_per_hour`: what the rent of the others would be less without it. None where GPUs have no
    price, or nothing is rented. `request_worth`: what one more request/s promised to it takes of the objective's value.
    """

    service: str
    demand_rps: float
    promised_rps: float
    rent_usd_per_hour: float | None = None
    marginal_usd_per_hour: float | None = None
    request_worth: float = 0.0

    @property
    def share(self) -> float:
        """Of its demand."""
        return self.promised_rps / self.demand_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWorth:
    """What one more node of a type is worth, by the prices of the relaxation: the change of the objective's value, and
    `requests`: requests/s that each service alone would gain by it."""

    gpu: str
    gpus: int
    change: float
    requests: Annotated[tuple[tuple[str, float], ...], Mapped()] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFill:
    """Work that takes what others leave: its plan on those GPUs, and the tokens of a day (None: no server fits)."""

    service: str
    part: FleetPart | None
    tokens_a_day: float
    asked_tokens_a_day: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DivisionSearch:
    """How a division was searched for. `divisions`: how many were judged, the programme's among them. `exact`: what the
    programme's is worth by that judge, `value`: what the plan's is, both in the objective's unit. `rates_rps`: what the
    judge leaves each service of the plan, the margin of promises taken off.

    Of replays both are of `fresh_seeds`, with twice the `requests` (at most, of a deployment) of one on `search_seeds`,
    by which the plan's was chosen; all divisions meet the same ones.
    """

    judged: FleetJudge
    divisions: Annotated[int, Bounds(low=1)]
    exact: float
    value: float
    rates_rps: Annotated[tuple[tuple[str, float], ...], Mapped()]
    requests: int = 0
    search_seeds: tuple[int, ...] = ()
    fresh_seeds: tuple[int, ...] = ()

    @property
    def gain(self) -> float:
        """What the search gained over the programme's division, as a share of it: 0 where none was better."""
        return self.value / self.exact - 1 if self.exact > 0 else float(self.value > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """A plan for every deployment that has GPUs. `value` in the objective's unit, `bound`: no division of whole nodes
    among deployable pools has a better one, `note`: where it says less. None where nothing bounds it: replays may hold
    more than formulas allow. `searched`: how the division was, where it is not judged by formulas. `idle`: GPUs that
    nobody has, batches neither.
    """

    fleet: FleetScenario
    parts: tuple[FleetPart, ...]
    shares: tuple[ServiceShare, ...]
    value: float
    bound: float | None
    worths: tuple[NodeWorth, ...] = ()
    batches: tuple[BatchFill, ...] = ()
    note: str = ""
    searched: DivisionSearch | None = None

    @property
    def gap(self) -> float | None:
        """How far the value is from its bound, relative; None where there is none."""
        return None if self.bound is None else abs(self.bound - self.value) / max(abs(self.bound), 1e-12)

    @property
    def aim(self) -> FleetAim:
        """What the division is best at."""
        return self.fleet.objective.kind

    @property
    def promise_rps(self) -> float:
        """Requests/s that all services with a demand are promised together."""
        return sum(part.promise_rps for part in self.parts)

    @property
    def plans(self) -> tuple[FleetPart, ...]:
        """All parts, batches' too."""
        return (*self.parts, *(batch.part for batch in self.batches if batch.part is not None))

    def part(self, name: str) -> FleetPart:
        """The deployment of a name."""
        return next(part for part in self.plans if part.name == name)

    def serving(self, service: str) -> tuple[FleetPart, ...]:
        """The deployments that serve a service."""
        return tuple(part for part in self.plans if service in dict(part.deployment.parts))

    def gpus_of(self, service: str) -> tuple[tuple[str, int], ...]:
        """GPUs by type of the deployments that serve a service, those that it shares among them."""
        total: dict[str, int] = {}
        for part in self.serving(service):
            for gpu, count in part.gpus:
                total[gpu] = total.get(gpu, 0) + count
        return tuple((gpu, total[gpu]) for gpu, _ in self.fleet.inventory.counts if gpu in total)

    def waits(self, part: FleetPart) -> bool:
        """Whether a deployment is of work that waits."""
        return self.fleet.service(part.deployment.parts[0][0]).batch is not None

    def rent_of(self, part: FleetPart) -> float:
        """Of a deployment's GPUs, USD/hour."""
        prices = {item.gpu.name: item.rent_usd_per_gpu_hour for item in self.fleet.inventory.items}
        return sum(prices[gpu] * count for gpu, count in part.gpus)

    @property
    def idle(self) -> tuple[tuple[str, int], ...]:
        """GPUs that nobody has, by type."""
        used: dict[str, int] = {}
        for part in self.plans:
            for gpu, count in part.gpus:
                used[gpu] = used.get(gpu, 0) + count
        unused = ((gpu, count - used.get(gpu, 0)) for gpu, count in self.fleet.inventory.counts)
        return tuple((gpu, count) for gpu, count in unused if count)

    @property
    def rent_usd_per_hour(self) -> float:
        """Of all GPUs that deployments with a demand have."""
        return sum(self.rent_of(part) for part in self.parts)


def on_gpus(scenario: Scenario, gpus: Mapping[str, int]) -> Scenario:
    """A scenario on a part of its inventory; types of which it gets nothing are left out."""
    items = tuple(
        replace(item, count=gpus[item.gpu.name]) for item in scenario.inventory.items if gpus.get(item.gpu.name)
    )
    return replace(scenario, inventory=replace(scenario.inventory, items=items))


FleetPlanner = Callable[[FleetScenario], FleetPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPoint:
    """The least rent at which all demands are met `multiple` times, with which GPUs; no division of whole nodes costs
    less than the bound."""

    multiple: float
    rent_usd_per_hour: float
    bound_usd_per_hour: float
    gpus: Annotated[tuple[tuple[str, int], ...], Mapped()]

    @property
    def rent_per_multiple(self) -> float:
        """USD/hour for meeting the demands once."""
        return self.rent_usd_per_hour / self.multiple
