"""What growth costs: the least rent at which all demands are met so many times, up to what all GPUs do."""

from collections.abc import Callable
from dataclasses import replace

from planner.domain.fleets import FleetAim, FleetObjective, FleetPoint, FleetScenario
from planner.errors import InfeasibleError, InputError
from planner.proposing.fleets.deployments import deployments_of
from planner.proposing.fleets.dividing import MET, divided

FEWEST_POINTS, MOST_POINTS = 2, 100


def grown(fleet: FleetScenario, points: int, listen: Callable[[FleetPoint], None] = lambda _: None) -> list[FleetPoint]:
    """The least rents at `points` multiples of all demands, evenly spread up to the largest that is promised.

    Raises InputError for a number of points outside 2..100, a fleet of one deployment, or GPUs without a price;
    InfeasibleError where the services cannot all be served at once.
    """
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise InputError(
            f"--points: must be {FEWEST_POINTS} to {MOST_POINTS} of a fleet, got {points}.", hint="Try --points 8."
        )
    if fleet.inventory.without_price or not fleet.inventory.price_usd_per_hour:
        raise InputError(
            f"fleet {fleet.name}: prices_usd_per_gpu_hour: must have a price for every type, has none of "
            f"{', '.join(fleet.inventory.without_price) or 'any'}.",
            hint="Write what a GPU costs an hour.",
        )
    largest = _division(fleet, FleetAim.MULTIPLE, 1.0)
    rows = []
    for number in range(1, points + 1):
        multiple = largest.multiple * number / points * (1 - MET)
        row = _division(fleet, FleetAim.TARGET, multiple)
        rows.append(row)
        listen(row)
    return rows


def _division(fleet: FleetScenario, aim: FleetAim, multiple: float) -> FleetPoint:
    services = tuple(
        replace(
            service,
            demand_rps=service.demand_rps * multiple,
            scenarios=tuple(
                replace(s, objective=replace(s.objective, demand_rps=s.objective.demand_rps * multiple))
                for s in service.scenarios
            ),
        )
        for service in fleet.services
    )
    posed = replace(fleet, services=services, objective=FleetObjective(kind=aim))
    deployments = deployments_of(posed)
    if len(deployments) == 1:
        raise InputError(
            f"fleet {fleet.name}: services: must be several for a curve of all demands, got one deployment.",
            hint="Plan the service by itself, and take the frontier of that scenario.",
        )
    try:
        division = divided(posed, deployments)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"fleet {fleet.name}: {multiple:.3g} times the demands: {error.message}", hint=error.hint
        ) from None
    used: dict[str, int] = {}
    for row in division.gpus:
        for gpu, count in row.items():
            used[gpu] = used.get(gpu, 0) + count
    prices = {item.gpu.name: item.rent_usd_per_gpu_hour for item in fleet.inventory.items}
    return FleetPoint(
        multiple=multiple if aim is FleetAim.TARGET else division.value,
        rent_usd_per_hour=sum(prices[gpu] * count for gpu, count in used.items()),
        bound_usd_per_hour=division.bound if aim is FleetAim.TARGET else 0.0,
        gpus=tuple((gpu, used[gpu]) for gpu, _ in fleet.inventory.counts if used.get(gpu)),
    )
