"""Several plans on one cluster: who chooses nodes first, and what is left for whom comes after."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from planner.domain import Cluster, PlacementSettings, Plan, Scenario
from planner.domain.fleets import FleetPart, FleetPlan, ServiceShare
from planner.errors import InfeasibleError, InputError
from planner.proposing.fleets.dividing import promised_rps, worth_of_rates

PlaceOne = Callable[[Plan, Scenario], Plan]


def placed_fleet(saved: FleetPlan, cluster: Cluster, settings: PlacementSettings, place_one: PlaceOne) -> FleetPlan:
    """The plans of a fleet on the nodes of a cluster. Services that go first have the first choice, and of equals those
    whose deployments have most GPUs, which find it hardest to lie close together; batches come last. `place_one` places
    a plan on the cluster of its scenario, and raises as it does where a deployment finds no room."""
    if saved.fleet.share_nodes:
        raise InputError(
            f"fleet {saved.fleet.name}: share_nodes: must be false where its plans are placed: each chooses nodes "
            "that no other has, got true.",
            hint="Plan it without share_nodes, or place each run by itself.",
        )
    placed: dict[str, Plan] = {}
    busy: set[str] = set()
    for part in sorted(saved.plans, key=lambda part: _turn(saved, part)):
        scenario = replace(part.plan.scenario, cluster=without_nodes(cluster, busy), placement=settings)
        placed[part.name] = place_one(part.plan, scenario)
        placement = placed[part.name].placement
        busy |= set() if placement is None else {piece.node for piece in placement.parts}
    parts = tuple(replace(part, plan=placed[part.name]) for part in saved.parts)
    shares, value = _worth(saved, parts)
    return replace(
        saved,
        parts=parts,
        shares=shares,
        value=value,
        batches=tuple(
            batch if batch.part is None else replace(batch, part=replace(batch.part, plan=placed[batch.part.name]))
            for batch in saved.batches
        ),
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


def _turn(saved: FleetPlan, part: FleetPart) -> tuple[int, int, str]:
    """Who chooses before whom."""
    services = [saved.fleet.service(name) for name, _ in part.deployment.parts]
    priority = min(1000 if service.batch else service.priority for service in services)
    return priority, -sum(count for _, count in part.gpus), part.name


def without_nodes(cluster: Cluster, nodes: Collection[str]) -> Cluster:
    """A cluster without some of its nodes, and without the pods on them."""
    return replace(
        cluster,
        nodes=tuple(node for node in cluster.nodes if node.name not in nodes),
        pods=tuple(pod for pod in cluster.pods if pod.node not in nodes),
    )
