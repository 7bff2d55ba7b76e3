"""A new plan near the one that runs, and the change to it as steps that can be carried out one after the other."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.changes import ChangePoint, PlanChange, ServerChange
from planner.domain.keys import Key
from planner.domain.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan:
    """`plan`: the new one; `before`: the one that runs, less what was lost; `change`: from it to the new one.

    `frontier`: the best of so many GPUs touched, least first. In the objective's unit: `scratch_value` and
    `scratch_rps` of a plan that nothing runs before, `scratch_bound` of all plans (None: not solved for, as servers
    only turn), `bound` of plans that touch no more than the new one. `current_rps`: what the servers that run would
    serve of the new workload without any change (None: not all of it).
    """

    plan: Plan
    before: Plan
    change: PlanChange
    frontier: tuple[ChangePoint, ...]
    current_rps: float | None
    scratch_rps: float | None
    scratch_value: float | None
    scratch_bound: float | None
    bound: float | None


ServerCounts = tuple[tuple[str, int], ...]
"""(island, servers of it), those with some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOutStep:
    """What happens at once: the router's table for what serves meanwhile, servers that stop, then those that start.

    `during_rps`: capacity while the step lasts (servers that drain or load do nothing), `after_rps` once it is done, of
    the prompts that both plans take, as the new workload has them. `gpus`: in use while it lasts, by type. `seconds`:
    drain and load. `replayed`: whether the levels held in a replay at the stated share meanwhile; None: not replayed.
    `new_table`: whether the router has the new plan's buckets while the step lasts. `during`, `after`: servers that
    serve meanwhile and then.
    """

    number: int
    stops: tuple[ServerChange, ...]
    starts: tuple[ServerChange, ...]
    during_rps: float
    after_rps: float
    gpus: tuple[tuple[str, int], ...]
    seconds: float
    replayed: bool | None = None
    new_table: bool = False
    during: ServerCounts = ()
    after: ServerCounts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOut:
    """Steps in order; after the last the router has the new plan's table.

    `new_rps`: what the new plan serves of the same prompts. Shares are of the lower of both plans' rates: `least_share`
    is never undercut, as it was asked for. `old_load`: rates are of the deployed plan's workload and levels, as it
    serves nothing of the new one.
    `replayed_rps`: at which steps were replayed; None: they were not.
    """

    steps: tuple[RollOutStep, ...]
    current_rps: float
    least_share: float
    seconds: float
    new_rps: float = 0.0
    old_load: bool = False
    replayed_rps: float | None = None

    @property
    def lower_rps(self) -> float:
        """The lower of both plans' rates."""
        return min(self.current_rps, self.new_rps)

    @property
    def floor_rps(self) -> float:
        """Rate that no step undercuts."""
        return self.least_share * self.lower_rps

    @property
    def reached_share(self) -> float:
        """What the worst step leaves."""
        return self.share_of(min((step.during_rps for step in self.steps), default=self.lower_rps))

    def share_of(self, rate_rps: float) -> float:
        """Of the lower of both plans' rates; 0 of nothing."""
        return rate_rps / self.lower_rps if self.lower_rps else 0.0

    @property
    def holds(self) -> bool | None:
        """Whether the levels held in all replays; None where none was made."""
        verdicts = [step.replayed for step in self.steps if step.replayed is not None]
        return all(verdicts) if verdicts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuery:
    """A question to Prometheus whose every value must lie from `at_least` to `at_most` (None: no bound). No answer
    counts as 0 where things are counted, else as fine: nobody was served badly."""

    name: Annotated[str, Key("what it is about")]
    query: Annotated[str, Key("in PromQL")]
    at_least: Annotated[float | None, Key("of every value", sparse=True)] = None
    at_most: Annotated[float | None, Key("of every value", sparse=True)] = None
    counts: Annotated[bool, Key("no answer is 0", sparse=True)] = False

    def fault(self, values: tuple[float, ...]) -> str:
        """Why it does not hold; empty where it does."""
        values = values or ((0.0,) if self.counts else ())
        for value in values:
            if self.at_least is not None and value < self.at_least:
                return f"{self.name}: {value:.4g}, must be at least {self.at_least:.4g}"
            if self.at_most is not None and value > self.at_most:
                return f"{self.name}: {value:.4g}, must be at most {self.at_most:.4g}"
        return ""
