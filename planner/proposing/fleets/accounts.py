"""What a fleet's services get and pay, and what one more node would be worth to each of them."""

from collections.abc import Sequence
from functools import cache

from planner.domain.fleets import FleetAim, NodeWorth, ServiceShare
from planner.errors import InfeasibleError
from planner.proposing.fleets.dividing import DividedFleet, FleetPricing
from planner.proposing.fleets.paying import shapley_shares


def shares_of(divided: DividedFleet, promised_rps: Sequence[float], rent: float, seed: int) -> tuple[ServiceShare, ...]:
    """What every service with a demand is promised, and its part of the fleet's rent."""
    fleet, pricing = divided.pricing.fleet, divided.pricing
    services = fleet.interactive
    scale = divided.value if fleet.objective.kind is FleetAim.MULTIPLE else 1.0
    sought = [min(rps, scale * s.demand_rps) for rps, s in zip(promised_rps, services, strict=True)]
    rents, marginal = _rents(pricing, sought, rent, seed)
    worths = divided.prices.demands
    return tuple(
        ServiceShare(
            service=service.name,
            demand_rps=service.demand_rps,
            promised_rps=rps,
            rent_usd_per_hour=part,
            marginal_usd_per_hour=less,
            request_worth=worth,
        )
        for service, rps, part, less, worth in zip(services, promised_rps, rents, marginal, worths, strict=True)
    )


def _rents(
    pricing: FleetPricing, sought_rps: Sequence[float], rent: float, seed: int
) -> tuple[list[float | None], list[float | None]]:
    """(shares of the rent that sum to it, what it would be less without each service); None where nothing has a
    price."""
    nothing: list[float | None] = [None] * len(sought_rps)
    if not all(stock.charge for stock in pricing.stocks):
        return nothing, nothing

    @cache
    def least_rent(coalition: frozenset[int]) -> float:
        return pricing.least_rent(sought_rps, coalition) if coalition else 0.0

    everybody = frozenset(range(len(sought_rps)))
    try:
        total = least_rent(everybody)
        scale = rent / total
        shares = [scale * share for share in shapley_shares(len(sought_rps), least_rent, seed)]
        marginal = [scale * (total - least_rent(everybody - {s})) for s in sorted(everybody)]
    except (InfeasibleError, ZeroDivisionError):
        return nothing, nothing
    return list(shares), list(marginal)


def node_worths(divided: DividedFleet) -> tuple[NodeWorth, ...]:
    """What one more node of each type would add, by the relaxation's prices."""
    fleet, prices = divided.pricing.fleet, divided.prices
    worths = []
    for stock, toll in zip(divided.pricing.stocks, prices.gpus, strict=True):
        host = fleet.host(stock.gpu)
        requests = tuple(
            (service.name, toll * host / worth)
            for service, worth in zip(fleet.interactive, prices.demands, strict=True)
            if worth
        )
        worths.append(NodeWorth(gpu=stock.gpu, gpus=host, change=toll * host, requests=requests))
    return tuple(worths)
