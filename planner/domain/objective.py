"""What a plan is to be best at, and how good it is proven to be."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import Phase

_MOST_GPUS = 10_000_000
_Figure = Annotated[float, Bounds(above=0, high=1e12)]


class ObjectiveKind(StrEnum):
    """`rate`: most requests/s of the inventory. `budget`: most for a rent. `target`: cheapest fleet for a rate.

    `per_dollar`: most requests per USD. `watts`: least watts for a rate. `pareto`: several goals, a frontier. `placed`:
    most requests/s once the islands are put on a cluster's nodes. All but `rate` and `placed` (and `pareto` without
    price and watts) choose how many GPUs to rent.
    """

    RATE = "rate"
    BUDGET = "budget"
    TARGET = "target"
    PER_DOLLAR = "per_dollar"
    WATTS = "watts"
    PARETO = "pareto"
    PLACED = "placed"


class Goal(StrEnum):
    """One of several goals of a search, in its unit.

    `rate`: requests/s (more is better). `price`: USD/hour of the GPUs in islands. `watts`: their highest draw (W).
    `headroom`: what the slowest range leaves of its service level at the demanded rate, as a share (more is better);
    where more is demanded than is served, the share not served, negative.
    `changes`: islands to set up, tear down or turn round, measured against those that run now.
    """

    RATE = "rate"
    PRICE = "price"
    WATTS = "watts"
    HEADROOM = "headroom"
    CHANGES = "changes"

    @property
    def maximised(self) -> bool:
        """Whether more is better."""
        return self in (Goal.RATE, Goal.HEADROOM)


class Pick(StrEnum):
    """Which layout of a frontier becomes the plan.

    `knee`: the one nearest to the best of every goal, each goal scaled to its span over the frontier. `within`: of
    those within a share of the best of the first goal, the best in the second, ties by those that follow.
    """

    KNEE = "knee"
    WITHIN = "within"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentIsland:
    """Islands that run now."""

    gpu: Annotated[str, Key("type")]
    size: Annotated[int, Bounds(low=1, high=_MOST_GPUS), Key("of each", unit="GPUs")]
    phase: Phase
    count: Annotated[int, Bounds(low=1, high=_MOST_GPUS), Key("how many there are")] = 1


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
    current: Annotated[tuple[CurrentIsland, ...], Key("islands that run now, or the run of them; of changes")] = ()

    @property
    def rents(self) -> bool:
        """Whether the number of GPUs is chosen, up to the inventory."""
        if self.kind is ObjectiveKind.PARETO:
            return Goal.PRICE in self.goals or Goal.WATTS in self.goals
        return self.kind not in (ObjectiveKind.RATE, ObjectiveKind.PLACED)

    @property
    def minimises(self) -> bool:
        """Whether smaller values are better."""
        return self.kind in (ObjectiveKind.TARGET, ObjectiveKind.WATTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How far a plan is from the best possible, under the cost model.

    `objective_bound`: no layout of the offered GPUs (of the sizes chosen) has a better objective, in its own unit;
    `objective_gap`: how far the plan is from it, relative. Pages say these alone, but of several goals, where only the
    rate has a bound: `bound_rps`, no layout of the GPUs that the plan has serves the mix faster, and `gap` = 1 -
    throughput / bound. Each is None where no bound is known; `note` then says why.
    """

    bound_rps: float | None
    gap: float | None
    objective_value: float
    objective_bound: float | None
    objective_gap: float | None
    note: str = ""
