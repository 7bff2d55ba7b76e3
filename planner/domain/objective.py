"""What a plan is to be best at, and how good it is proven to be."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from planner.domain.arrivals import ArrivalProcess
from planner.domain.keys import Bounds, Key
from planner.domain.layout import ParallelConfig, Phase
from planner.domain.serving.doubt import RiskMeasure

_MOST_GPUS = 10_000_000
_Figure = Annotated[float, Bounds(above=0, high=1e12)]


class ObjectiveKind(StrEnum):
    """`rate`: most requests/s of the inventory. `budget`: most for a rent. `target`: cheapest fleet for a rate.

    `per_dollar`: most requests per USD. `watts`: least watts for a rate. `pareto`: several goals, a frontier. `placed`:
    most requests/s once the islands are put on a cluster's nodes. `replayed`: most requests/s that hold the levels when
    requests are replayed through the pools. `robust`: the best of a measure of the rates in draws of how fast servers
    are. All but `rate`, `placed`, `replayed` and `robust` (and `pareto` without price and watts) choose how many GPUs
    to rent.
    """

    RATE = "rate"
    BUDGET = "budget"
    TARGET = "target"
    PER_DOLLAR = "per_dollar"
    WATTS = "watts"
    PARETO = "pareto"
    PLACED = "placed"
    REPLAYED = "replayed"
    ROBUST = "robust"

    @property
    def row(self) -> "ObjectiveRow":
        """What the objective says of itself."""
        return OBJECTIVES[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveRow:
    """An objective. `value`: of a plan of so many requests/s, USD/hour and W, in `unit`. `best`: what it asks for.

    `needs`, `may`: keys of the section that must and that may be given. `rents`: the number of GPUs is chosen (of
    several goals the goals decide). `priced`: GPUs must cost something; `in_watts`: they are charged by watts, else by
    rent; `per_charge`: the value is a rate per charge. `plain`: the rate of all that is offered, and nothing else.
    `solvable`: the layout's programme takes it; else it is solved for the rate. `several`: there is a frontier.
    `placed`: layouts are put on nodes before they are judged; `replayed`: the best of them are replayed; `robust`: they
    are judged in draws of how fast servers are. `surely`: it can be planned for with a promise that is so sure.
    """

    unit: str = "requests/s"
    value: Callable[[float, float, float], float] = lambda rate_rps, _price, _watts: rate_rps
    best: str = ""
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    rents: bool = True
    minimises: bool = False
    priced: bool = False
    in_watts: bool = False
    per_charge: bool = False
    plain: bool = False
    solvable: bool = True
    several: bool = False
    placed: bool = False
    replayed: bool = False
    robust: bool = False
    surely: bool = False

    @property
    def budgeted(self) -> bool:
        """Whether the rent is limited."""
        return "budget_usd_per_hour" in self.needs


OBJECTIVES: Mapping[ObjectiveKind, ObjectiveRow] = MappingProxyType(
    {
        ObjectiveKind.RATE: ObjectiveRow(rents=False, plain=True, surely=True, may=("demand_rps",)),
        ObjectiveKind.BUDGET: ObjectiveRow(
            best="The most requests/s for a rent of at most {budget} USD/hour",
            needs=("budget_usd_per_hour",),
            may=("demand_rps",),
            priced=True,
        ),
        ObjectiveKind.TARGET: ObjectiveRow(
            unit="USD/hour",
            value=lambda _rate, price_usd_per_hour, _watts: price_usd_per_hour,
            best="The cheapest fleet for {target} requests/s",
            needs=("target_rps",),
            may=("demand_rps",),
            minimises=True,
            priced=True,
            surely=True,
        ),
        ObjectiveKind.PER_DOLLAR: ObjectiveRow(
            unit="requests/s per USD/hour",
            value=lambda rate_rps, price_usd_per_hour, _watts: rate_rps / price_usd_per_hour,
            best="The most requests per USD",
            may=("target_rps",),
            priced=True,
            per_charge=True,
        ),
        ObjectiveKind.WATTS: ObjectiveRow(
            unit="W",
            value=lambda _rate, _price, watts: watts,
            best="The least watts for {target} requests/s",
            needs=("target_rps",),
            minimises=True,
            in_watts=True,
        ),
        ObjectiveKind.PARETO: ObjectiveRow(
            needs=("goals",), may=("pick", "within", "demand_rps", "current"), solvable=False, several=True
        ),
        ObjectiveKind.PLACED: ObjectiveRow(rents=False, solvable=False, placed=True, may=("demand_rps",)),
        ObjectiveKind.REPLAYED: ObjectiveRow(
            rents=False,
            solvable=False,
            replayed=True,
            may=("demand_rps", "arrivals", "drawn_from", "requests", "replays"),
        ),
        ObjectiveKind.ROBUST: ObjectiveRow(
            rents=False, solvable=False, robust=True, surely=True, may=("demand_rps", "measure")
        ),
    }
)


class Goal(StrEnum):
    """One of several goals of a search, in its unit.

    `rate`: requests/s (more is better). `price`: USD/hour of the GPUs in islands. `watts`: their highest draw (W).
    `headroom`: what the slowest range leaves of its service level at the demanded rate, as a share (more is better);
    where more is demanded than is served, the share not served, negative.
    `changes`: islands to set up, tear down or turn round, measured against those that run now. `change_cost`: rent of
    the GPUs that drain and load meanwhile (USD), servers of the same GPU type, phase and degrees running on.
    """

    RATE = "rate"
    PRICE = "price"
    WATTS = "watts"
    HEADROOM = "headroom"
    CHANGES = "changes"
    CHANGE_COST = "change_cost"

    @property
    def maximised(self) -> bool:
        """Whether more is better."""
        return self in (Goal.RATE, Goal.HEADROOM)

    @property
    def of_changes(self) -> bool:
        """Whether it is measured against what runs now."""
        return self in (Goal.CHANGES, Goal.CHANGE_COST)


class Pick(StrEnum):
    """Which layout of a frontier becomes the plan.

    `knee`: the one nearest to the best of every goal, each goal scaled to its span over the frontier. `within`: of
    those within a share of the best of the first goal, the best in the second, ties by those that follow.
    """

    KNEE = "knee"
    WITHIN = "within"


class DrawnFrom(StrEnum):
    """What the requests of a replay are drawn from. `lengths`: the workload's probabilities of prompt lengths, each
    with its mean answer. `trace`: the requests of the workload's trace file."""

    LENGTHS = "lengths"
    TRACE = "trace"


ServerKind = tuple[str, Phase, ParallelConfig]
"""Servers alike: GPU type, phase, and the degrees of one copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentIsland:
    """Islands that run now. Degrees of 0: they are not known, which `change_cost` needs."""

    gpu: Annotated[str, Key("type")]
    size: Annotated[int, Bounds(low=1, high=_MOST_GPUS), Key("of each", unit="GPUs")]
    phase: Phase
    count: Annotated[int, Bounds(low=1, high=_MOST_GPUS), Key("how many there are")] = 1
    tp: Annotated[int, Bounds(low=1, high=_MOST_GPUS), Key("of a server; for change_cost", sparse=True)] = 0
    dp: Annotated[int, Bounds(low=1, high=_MOST_GPUS), Key("of a server", sparse=True)] = 1
    pp: Annotated[int, Bounds(low=1, high=_MOST_GPUS), Key("stages of a server", sparse=True)] = 1

    @property
    def server(self) -> ParallelConfig:
        """One of its servers."""
        return ParallelConfig(tp=self.tp, dp=self.dp, pp=self.pp)

    @property
    def servers(self) -> int:
        """Servers of all such islands."""
        return self.count * self.size // self.server.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveSettings:
    """What is asked for; `demand_rps` of 0 stands for the workload's own arrival rate."""

    kind: Annotated[ObjectiveKind, Key("what a plan is to be best at")] = ObjectiveKind.RATE
    budget_usd_per_hour: Annotated[_Figure, Key("of budget", sparse=True)] = 0.0
    target_rps: Annotated[_Figure, Key("of target and watts; may bind per_dollar", sparse=True)] = 0.0
    goals: Annotated[tuple[Goal, ...], Key("of pareto: two or more, rate among them")] = ()
    pick: Annotated[Pick, Key("of pareto: the rule that picks the plan")] = Pick.KNEE
    within: Annotated[float, Bounds(low=0, below=1), Key("share of the best first goal, of pick: within")] = 0.05
    demand_rps: Annotated[_Figure, Key("where headroom is measured; else the workload's own rate", sparse=True)] = 0.0
    current: Annotated[tuple[CurrentIsland, ...], Key("islands that run now, or their run; of changes")] = ()
    arrivals: Annotated[ArrivalProcess, Key("of replayed: poisson, gamma or trace")] = ArrivalProcess.POISSON
    drawn_from: Annotated[DrawnFrom, Key("of replayed: the workload's lengths, or its trace")] = DrawnFrom.LENGTHS
    requests: Annotated[int, Bounds(low=1000, high=1_000_000), Key("of replayed: of one replay")] = 10_000
    replays: Annotated[int, Bounds(low=1, high=1000), Key("of replayed: candidates of a round that are replayed")] = 4
    measure: Annotated[RiskMeasure, Key("of robust: p10, cvar or regret of the rates in all draws")] = RiskMeasure.P10

    @property
    def rents(self) -> bool:
        """Whether the number of GPUs is chosen, up to the inventory."""
        return Goal.PRICE in self.goals or Goal.WATTS in self.goals if self.kind.row.several else self.kind.row.rents

    @property
    def running_servers(self) -> Counter[ServerKind]:
        """The servers of `current`, whose degrees are known."""
        servers: Counter[ServerKind] = Counter()
        for island in self.current:
            servers[island.gpu, island.phase, island.server] += island.servers
        return servers

    @property
    def minimises(self) -> bool:
        """Whether smaller values are better."""
        return self.kind.row.minimises


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How far a plan is from the best possible, under the cost model.

    `objective_bound`: no layout of the offered GPUs (of the sizes chosen) has a better objective, in its own unit;
    `objective_gap`: how far the plan is from it, relative. Of pools whose form was free they are of the form chosen, as
    `note` says; what the other may do is `FormChoice.other_bound`. Pages say these alone, but of several goals, where
    only the rate has a bound: `bound_rps`, no layout of the GPUs that the plan has serves the mix faster, and `gap` =
    1 - throughput / bound. Each is None where no bound is known; `note` then says why.
    """

    bound_rps: float | None
    gap: float | None
    objective_value: float
    objective_bound: float | None
    objective_gap: float | None
    note: str = ""
