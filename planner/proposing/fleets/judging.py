"""What a division of a fleet is worth where formulas do not judge it: on the nodes of a cluster, or replayed.

A deployment's plan on so many GPUs is made once, and placed once on the same nodes, replayed once with the same
requests: divisions share most of their deployments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from planner.domain import ObjectiveSettings, Plan, Scenario
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleets import Deployment, FleetPart, FleetScenario, on_gpus
from planner.errors import InfeasibleError
from planner.evaluation.replay.pooled import Ladder, arrivals_of
from planner.evaluation.replay.replaying import PlanReplay
from planner.evaluation.replay.services import replay_part
from planner.processes.interrupts import check
from planner.proposing.feasibility import posed
from planner.proposing.fleets.dividing import Gpus, worth_of_rates
from planner.proposing.fleets.placing import PlaceOne, placed_parts

SHORTEST_S = 30.0
"""Of a stream of requests: each stays for seconds, and an overload shows once as many have come as stay at once."""

Division = tuple[Gpus, ...]
"""GPUs: a row a deployment, a column a type of the inventory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDivision:
    """A division with its plans, a place each deployment (None: it has no GPUs, or nothing serves on them, or there is
    no room), and the rates (requests/s) that the judge leaves them. `rank`, `value`: as of `worth_of_rates`."""

    division: Division
    parts: tuple[FleetPart | None, ...]
    rates_rps: tuple[float, ...]
    rank: tuple[float, ...]
    value: float

    @property
    def sparing(self) -> tuple[tuple[float, ...], int]:
        """By which it is compared: its worth, then how many GPUs it leaves to work that waits."""
        return self.rank, -sum(map(sum, self.division))


class PlannedDeployments:
    """Plans of a fleet's deployments on their GPUs, each made once."""

    def __init__(
        self, fleet: FleetScenario, deployments: Sequence[Deployment], plan_one: Callable[[Scenario], Plan]
    ) -> None:
        self.fleet, self.deployments = fleet, tuple(deployments)
        self._plan_one = plan_one
        self._parts: dict[tuple[int, Gpus], FleetPart | None] = {}

    def parts(self, division: Division) -> tuple[FleetPart | None, ...]:
        """Of every deployment, None where it has nothing or nothing serves there."""
        return tuple(self._part(j, gpus) for j, gpus in enumerate(division))

    def _part(self, j: int, gpus: Gpus) -> FleetPart | None:
        if (j, gpus) not in self._parts:
            check()
            self._parts[j, gpus] = self._planned(j, gpus) if any(gpus) else None
        return self._parts[j, gpus]

    def _planned(self, j: int, gpus: Gpus) -> FleetPart | None:
        names = (item.gpu.name for item in self.fleet.inventory.items)
        scenario = on_gpus(self.deployments[j].scenario, dict(zip(names, gpus, strict=True)))
        counts = tuple((item.gpu.name, item.count) for item in scenario.inventory.items)
        try:
            return FleetPart(deployment=self.deployments[j], gpus=counts, plan=self._plan_one(scenario))
        except InfeasibleError:
            return None

    def judged(
        self, division: Division, parts: tuple[FleetPart | None, ...], rates_rps: tuple[float, ...]
    ) -> JudgedDivision:
        """A division whose deployments have these rates."""
        rank, value = worth_of_rates(self.fleet, self.deployments, rates_rps, 0.0)
        return JudgedDivision(division=division, parts=parts, rates_rps=rates_rps, rank=rank, value=value)


class DivisionJudge(Protocol):
    """What divisions are judged by."""

    def judge(self, division: Division) -> JudgedDivision:
        """A division, with its plans as they would be handed over."""

    def judge_again(self, division: Division) -> JudgedDivision:
        """The same on what the search has not seen, where there is chance in it."""


class PlacedDivisions:
    """Rates of plans where they lie: all on one cluster, each on nodes of its own."""

    def __init__(self, planned: PlannedDeployments, place_one: PlaceOne) -> None:
        self._planned, self._place_one = planned, place_one
        self._placed: dict[tuple[int, tuple[str, ...]], tuple[Plan, Plan | InfeasibleError]] = {}

    def judge(self, division: Division) -> JudgedDivision:
        """A division on nodes; a deployment without room has no part."""
        parts = self._planned.parts(division)
        outcome = placed_parts(self._planned.fleet, [part for part in parts if part is not None], self._once)
        plans = iter(outcome.plans)
        placed = tuple(None if part is None else _placed(part, next(plans)) for part in parts)
        rates = tuple(0.0 if part is None else part.plan.throughput_rps for part in placed)
        return self._planned.judged(division, placed, rates)

    judge_again = judge

    def _once(self, plan: Plan, scenario: Scenario) -> Plan:
        assert scenario.cluster is not None, "there are nodes to lie on"
        key = (id(plan), tuple(node.name for node in scenario.cluster.nodes))  # plans are kept, so ids stay theirs
        if key not in self._placed:
            check()
            try:
                self._placed[key] = plan, self._place_one(plan, scenario)
            except InfeasibleError as error:
                self._placed[key] = plan, error
        _, placed = self._placed[key]
        if isinstance(placed, InfeasibleError):
            raise placed
        return placed


def _placed(part: FleetPart, plan: Plan | InfeasibleError) -> FleetPart | None:
    return None if isinstance(plan, InfeasibleError) else replace(part, plan=plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStreams:
    """Requests of a replay of each deployment, and the seeds that each rate is replayed with: those of all
    divisions."""

    seeds: tuple[int, ...]
    requests: tuple[int, ...]


class ReplayedDivisions:
    """The highest rates at which replays hold the levels of all services. `streams`: of the search, and fresh ones."""

    def __init__(self, planned: PlannedDeployments, streams: ReplayStreams, fresh: ReplayStreams) -> None:
        self._planned, self._streams, self._fresh = planned, streams, fresh
        self._rates: dict[tuple[int, Gpus, ReplayStreams], float] = {}

    def judge(self, division: Division) -> JudgedDivision:
        """A division with the requests of the search."""
        return self._with(division, self._streams)

    def judge_again(self, division: Division) -> JudgedDivision:
        """The same with fresh requests."""
        return self._with(division, self._fresh)

    def _with(self, division: Division, streams: ReplayStreams) -> JudgedDivision:
        parts = self._planned.parts(division)
        rates = tuple(
            0.0 if part is None else self._rate(j, gpus, part, streams)
            for j, (gpus, part) in enumerate(zip(division, parts, strict=True))
        )
        return self._planned.judged(division, parts, rates)

    def _rate(self, j: int, gpus: Gpus, part: FleetPart, streams: ReplayStreams) -> float:
        if (j, gpus, streams) not in self._rates:
            requests = streams.requests[j]
            self._rates[j, gpus, streams] = replayed_rps(self._planned.fleet, part, streams.seeds, requests)
        return self._rates[j, gpus, streams]


def replayed_rps(fleet: FleetScenario, part: FleetPart, seeds: tuple[int, ...], requests: int) -> float:
    """The highest rate (requests/s) of a deployment at which the levels of each of its services seem to hold; 0 where
    none does. Rates of all deployments stand on the same rungs."""
    scenario = part.deployment.scenario
    settings = ReplaySettings(
        router=scenario.router,
        arrivals=arrivals_of(replace(scenario, objective=ObjectiveSettings(arrivals=fleet.objective.arrivals))),
        seeds=seeds,
        requests=requests,
        length_spread=scenario.router.length_spread,
    )
    replaying = PlanReplay(part.plan, posed(part.plan.scenario).workload, scenario.workload, settings)

    def holds(rate_rps: float) -> bool:
        check()
        result, services = replay_part(fleet, part, replaying, rate_rps, {})
        levels = tuple(level for service in services for level in service.levels)
        return replace(result, levels=levels).seems_to_hold

    capacity_rps = part.plan.throughput_rps
    return Ladder.around(capacity_rps).highest(holds, capacity_rps)
