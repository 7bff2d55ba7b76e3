"""Bayesian search over the division of a fleet, where no programme knows what a division is worth.

The programme's division by formulas comes first, then its neighbours, one node moved; a model of all that was judged
proposes the others. What is chosen on the requests of a search has to be better on fresh ones, too, or the programme's
division stays: the plan is never worse than that.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain import Evaluation, Layout, Plan, Proposal, Scenario, SearchMethod, Stock, WarmStart
from planner.domain.fleets import Deployment, DivisionSearch, FleetAim, FleetJudge, FleetScenario
from planner.errors import InfeasibleError
from planner.proposing.fleets.dividing import DividedFleet, Tell, promised_rps
from planner.proposing.fleets.judging import (
    SHORTEST_S,
    Division,
    DivisionJudge,
    JudgedDivision,
    PlacedDivisions,
    PlannedDeployments,
    ReplayedDivisions,
    ReplayStreams,
)
from planner.proposing.fleets.placing import PlaceOne
from planner.proposing.replayed.choice import LONGER, fresh_seeds, search_seeds
from planner.proposing.search import DivisionCounts, DivisionSpace, optimize

NEIGHBOUR = "neighbour"
NEAR_SHARE = 0.75
"""Of the first round: the programme's division and its neighbours. The others are a first look at all divisions, which
the model needs to leave the programme's neighbourhood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedDivision:
    """The division that was chosen, and how."""

    chosen: JudgedDivision
    search: DivisionSearch


class FleetDivisions:
    """Divisions of a fleet's whole nodes as points of a space. GPUs that make no whole node stay with whom the
    programme gave them to."""

    def __init__(
        self, fleet: FleetScenario, deployments: Sequence[Deployment], solved: Sequence[Mapping[str, int]]
    ) -> None:
        items = fleet.inventory.items
        self._hosts = [fleet.host(item.gpu.name) for item in items]
        self._gpus = [[gpus.get(item.gpu.name, 0) for item in items] for gpus in solved]
        self.space = DivisionSpace(
            stocks=tuple(
                Stock(gpu=item.gpu.name, units=item.count // host, unit=host)
                for item, host in zip(items, self._hosts, strict=True)
            ),
            deployments=tuple(deployment.name for deployment in deployments),
        )

    @property
    def solved(self) -> DivisionCounts:
        """Whole nodes of the programme's division."""
        return tuple(tuple(n // host for n, host in zip(row, self._hosts, strict=True)) for row in self._gpus)

    def division(self, counts: DivisionCounts) -> Division:
        """The GPUs of so many nodes, with what makes no whole node."""
        return tuple(
            tuple(nodes * host + n % host for nodes, n, host in zip(row, gpus, self._hosts, strict=True))
            for row, gpus in zip(counts, self._gpus, strict=True)
        )

    def layout(self, counts: DivisionCounts) -> Layout:
        """The point's of a division."""
        return self.space.layout(self.space.point(counts))

    def neighbours(self, tightness: Sequence[float]) -> Iterator[DivisionCounts]:
        """The programme's division with one node moved: to deployments that have nodes first, of these to the one that
        is shortest by `tightness`, its share of a demand; from nobody first, else from the one with the most."""
        counts = self.solved
        receivers = sorted(range(len(counts)), key=lambda j: (not any(counts[j]), tightness[j], j))
        givers = sorted(range(len(counts)), key=lambda j: (-tightness[j], j))
        for receiver in receivers:
            for giver in (None, *givers):
                for t, stock in enumerate(self.space.stocks):
                    idle = stock.units - sum(row[t] for row in counts)
                    if giver != receiver and (idle if giver is None else counts[giver][t]):
                        yield _moved(counts, t, giver, receiver)


def _moved(counts: DivisionCounts, t: int, giver: int | None, receiver: int) -> DivisionCounts:
    """One node of a type from a deployment, or nobody, to another."""
    change = {receiver: 1} if giver is None else {receiver: 1, giver: -1}
    return tuple(
        tuple(n + (change.get(j, 0) if place == t else 0) for place, n in enumerate(row))
        for j, row in enumerate(counts)
    )


class _Judgements:
    """What was judged, each division once."""

    def __init__(self, divisions: FleetDivisions, judge: DivisionJudge) -> None:
        self._divisions, self._judge = divisions, judge
        self.by_layout: dict[Layout, JudgedDivision] = {}

    def of(self, layout: Layout) -> JudgedDivision:
        """A division's."""
        if layout not in self.by_layout:
            counts = self._divisions.space.counts(self._divisions.space.encode(layout))
            self.by_layout[layout] = self._judge.judge(self._divisions.division(counts))
        return self.by_layout[layout]

    def evaluations(self, layouts: Sequence[Layout]) -> Iterable[Evaluation]:
        """What a search learns of divisions: a value of 0 where a service or a floor is not served."""
        for layout in layouts:
            yield Evaluation(layout=layout, throughput_rps=max(0.0, self.of(layout).value), assignment=None)


def search_division(
    divided: DividedFleet, plan_one: Callable[[Scenario], Plan], place_one: PlaceOne, tell: Tell
) -> SearchedDivision:
    """The best division by the fleet's judge. Raises InfeasibleError where none that was judged serves every service,
    or meets the floors, KeyboardInterrupt where the search was cut short."""
    fleet, deployments = divided.pricing.fleet, divided.pricing.deployments
    seed = deployments[0].scenario.search.seed
    planned = PlannedDeployments(fleet, deployments, plan_one)
    judge, search = _judge_of(divided, planned, place_one, seed)
    divisions = FleetDivisions(fleet, deployments, divided.gpus)
    judgements = _Judgements(divisions, judge)
    best = _best(divisions, judgements, fleet, deployments, tell)
    tell("holding the best division against the programme's")
    solved = judge.judge_again(divisions.division(divisions.solved))
    chosen = max(solved, judge.judge_again(best.division), key=lambda judged: judged.rank)  # of equal ones the first
    _require_served(fleet, chosen, len(judgements.by_layout))
    rates = promised_rps(fleet, deployments, chosen.rates_rps)
    names = (service.name for service in fleet.interactive)
    search = replace(
        search,
        divisions=len(judgements.by_layout),
        exact=max(0.0, solved.value),
        value=chosen.value,
        rates_rps=tuple(zip(names, rates, strict=True)),
    )
    return SearchedDivision(chosen=chosen, search=search)


def _judge_of(
    divided: DividedFleet, planned: PlannedDeployments, place_one: PlaceOne, seed: int
) -> tuple[DivisionJudge, DivisionSearch]:
    """The fleet's judge, and what there is to tell of it before it has judged."""
    objective = planned.fleet.objective
    search = DivisionSearch(judged=objective.judged, divisions=1, exact=0.0, value=0.0, rates_rps=())
    if objective.judged is FleetJudge.PLACED:
        return PlacedDivisions(planned, place_one), search
    # a stream of so many requests is over too soon where it comes at a high rate
    rates = divided.pricing.needed(divided.value)
    requests = tuple(max(objective.requests, math.ceil(SHORTEST_S * rate)) for rate in rates)
    streams = ReplayStreams(seeds=search_seeds(seed), requests=requests)
    fresh = ReplayStreams(seeds=fresh_seeds(seed), requests=tuple(LONGER * number for number in requests))
    search = replace(search, requests=max(requests), search_seeds=streams.seeds, fresh_seeds=fresh.seeds)
    return ReplayedDivisions(planned, streams, fresh), search


def _best(
    divisions: FleetDivisions,
    judgements: _Judgements,
    fleet: FleetScenario,
    deployments: Sequence[Deployment],
    tell: Tell,
) -> JudgedDivision:
    """The best division that a search judges: of equal ones the programme's, else the one with the fewest GPUs."""
    objective, space = fleet.objective, divisions.space
    settings = replace(
        deployments[0].scenario.search,
        method=SearchMethod.DIRECT,
        iterations=min(objective.rounds, -(-space.size // objective.divisions)),
        batch_size=objective.divisions,
        timings=False,
    )

    def seeds() -> Sequence[Proposal]:
        solved = divisions.layout(divisions.solved)
        near = divisions.neighbours(_tightness(fleet, deployments, judgements.of(solved)))
        layouts = [solved, *map(divisions.layout, near)][: max(2, round(NEAR_SHARE * objective.divisions))]
        names = [WarmStart.EXACT.value, *[NEIGHBOUR] * (len(layouts) - 1)]
        return [
            Proposal(parameters=(), layout=layout, generator=name) for layout, name in zip(layouts, names, strict=True)
        ]

    def progress(_done: int, _total: int, best: float, /) -> None:
        number = len(judgements.by_layout)
        tell(f"judged {number} divisions, the best is worth {best:.4g} {objective.kind.row.unit}")

    result = optimize(space, settings, judgements.evaluations, progress, seeds=seeds)
    if result.record.interrupted:
        raise KeyboardInterrupt
    solved = judgements.of(divisions.layout(divisions.solved))
    best = max(judgements.by_layout.values(), key=lambda judged: judged.sparing)
    return best if best.rank > solved.rank else solved


def _tightness(fleet: FleetScenario, deployments: Sequence[Deployment], judged: JudgedDivision) -> list[float]:
    """Of each deployment the least share of a demand, among those that it serves, that the judge leaves a service."""
    rates = promised_rps(fleet, deployments, judged.rates_rps)
    shares = {s.name: rps / s.demand_rps for s, rps in zip(fleet.interactive, rates, strict=True)}
    return [min(shares[name] for name, _ in deployment.parts) for deployment in deployments]


def _require_served(fleet: FleetScenario, chosen: JudgedDivision, number: int) -> None:
    """InfeasibleError where the best division leaves a service with nothing, or below its floor."""
    floor, judged = fleet.objective.floor, fleet.objective.judged.value
    if chosen.value > 0:
        return
    sought = f"floors of {100 * floor:g} %" if fleet.objective.kind is FleetAim.WEIGHTED else "services"
    hint = "with more room" if fleet.objective.judged is FleetJudge.PLACED else "with more GPUs"
    raise InfeasibleError(
        f"fleet {fleet.name}: services: the {sought} cannot be met together where divisions are judged {judged}: the "
        f"best of {number} leaves a service {100 * max(0.0, chosen.rank[-1]):.3g} % of its demand.",
        hint=f"Lower a demand or objective.floor, plan {hint}, or set objective.judged to formula.",
    )
