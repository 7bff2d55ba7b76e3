"""Several plans on one cluster: who chooses nodes first, and what is left for whom comes after."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from planner.domain import Cluster, PlacementSettings, Plan, Scenario
from planner.domain.fleets import FleetPart, FleetPlan, FleetScenario, ServiceShare
from planner.errors import InfeasibleError, InputError
from planner.proposing.fleets.dividing import promised_rps, worth_of_rates

PlaceOne = Callable[[Plan, Scenario], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedParts:
    """Parts on nodes of their own, in the order in which they were given: the plan there, or why there is no room.
    `busy`: nodes that they have."""

    plans: tuple[Plan | InfeasibleError, ...]
    busy: frozenset[str]


def placed_fleet(saved: FleetPlan, cluster: Cluster, settings: PlacementSettings, place_one: PlaceOne) -> FleetPlan:
    """The plans of a fleet on the nodes of a cluster, in the order of `placed_parts`. `place_one` places a plan on the
    cluster of its scenario, and raises as it does where a deployment finds no room."""
    if saved.fleet.share_nodes:
        raise InputError(
            f"fleet {saved.fleet.name}: share_nodes: must be false where its plans are placed: each chooses nodes "
            "that no other has, got true.",
            hint="Plan it without share_nodes, or place each run by itself.",
        )
    outcome = placed_parts(replace(saved.fleet, cluster=cluster, placement=settings), saved.plans, place_one)
    placed = []
    for part, plan in zip(saved.plans, outcome.plans, strict=True):
        if isinstance(plan, InfeasibleError):
            raise plan
        placed.append(replace(part, plan=plan))
    fills, parts = iter(placed[len(saved.parts) :]), tuple(placed[: len(saved.parts)])
    shares, value = _worth(saved, parts)
    return replace(
        saved,
        parts=parts,
        shares=shares,
        value=value if saved.searched is None else saved.value,
        batches=tuple(batch if batch.part is None else replace(batch, part=next(fills)) for batch in saved.batches),
    )


def _worth(saved: FleetPlan, parts: Sequence[FleetPart]) -> tuple[tuple[ServiceShare, ...], float]:
    """What placed plans promise each service, and what they are worth together. Raises InfeasibleError where a demand
    that was met is not met where they lie."""
    deployments, rates = [part.deployment for part in parts], [part.plan.throughput_rps for part in parts]
    promised = promised_rps(saved.fleet, deployments, rates)
    _, value = worth_of_rates(saved.fleet, deployments, rates, saved.rent_usd_per_hour)
    shares = tuple(replace(row, promised_rps=rps) for row, rps in zip(saved.shares, promised, strict=True))
    if not math.isfinite(value):
        short = min(shares, key=lambda row: row.share)
        raise InfeasibleError(
            f"fleet {saved.fleet.name}: services: {short.service}: is promised {100 * short.share:.3g} % of its demand "
            "where its servers lie on these nodes, less than was planned.",
            hint="Plan for a higher demand, or place the fleet on nodes under one switch.",
        )
    return shares, value


def placed_parts(
    fleet: FleetScenario, parts: Sequence[FleetPart], place_one: PlaceOne, busy: frozenset[str] = frozenset()
) -> PlacedParts:
    """Parts of a fleet on its cluster's nodes that are not `busy`. Services that go first have the first choice, and of
    equals those whose deployments have most GPUs, which find it hardest to lie close together; batches come last."""
    assert fleet.cluster is not None, "there are nodes to lie on"
    plans: dict[int, Plan | InfeasibleError] = {}
    for place in sorted(range(len(parts)), key=lambda place: _turn(fleet, parts[place])):
        plan = parts[place].plan
        scenario = replace(plan.scenario, cluster=without_nodes(fleet.cluster, busy), placement=fleet.placement)
        try:
            placed = place_one(plan, scenario)
        except InfeasibleError as error:
            plans[place] = error
            continue
        plans[place] = placed
        busy |= set() if placed.placement is None else {piece.node for piece in placed.placement.parts}
    return PlacedParts(plans=tuple(plans[place] for place in range(len(parts))), busy=busy)


def _turn(fleet: FleetScenario, part: FleetPart) -> tuple[int, int, str]:
    """Who chooses before whom."""
    services = [fleet.service(name) for name, _ in part.deployment.parts]
    priority = min(1000 if service.batch else service.priority for service in services)
    return priority, -sum(count for _, count in part.gpus), part.name


def without_nodes(cluster: Cluster, nodes: Collection[str]) -> Cluster:
    """A cluster without some of its nodes, and without the pods on them."""
    return replace(
        cluster,
        nodes=tuple(node for node in cluster.nodes if node.name not in nodes),
        pods=tuple(pod for pod in cluster.pods if pod.node not in nodes),
    )
