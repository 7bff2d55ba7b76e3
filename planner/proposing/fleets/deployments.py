"""The deployments that a fleet may have: one a service and checkpoint, and one for services that may share pools."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from planner.domain import ObjectiveKind, ObjectiveSettings, Scenario, SloSettings
from planner.domain.fleets import Deployment, FleetAim, FleetScenario, FleetService
from planner.errors import InputError
from planner.workload import mixed_profile

MOST_SHARING = 4
"""Services that share the pools of one: all of their combinations are looked at."""


def deployments_of(fleet: FleetScenario) -> tuple[Deployment, ...]:
    """Every deployment that services with a demand may have, on the whole inventory. Raises InputError where services
    cannot share pools."""
    alone = [
        Deployment(scenario=_posed(fleet, scenario, service.demand_rps), parts=((service.name, 1.0),))
        for service in fleet.interactive
        for scenario in service.scenarios
    ]
    deployments = (*alone, *(_shared(fleet, group) for group in _groups(fleet)))
    waiting = (deployment for service in fleet.batches for deployment in batch_deployments(service))
    _require_names_apart(fleet, [deployment.name for deployment in (*deployments, *waiting)])
    return deployments


def batch_deployments(service: FleetService) -> tuple[Deployment, ...]:
    """Those of work that waits."""
    return tuple(Deployment(scenario=scenario, parts=((service.name, 1.0),)) for scenario in service.scenarios)


def _require_names_apart(fleet: FleetScenario, names: Sequence[str]) -> None:
    """A deployment's name is that of its folder, its objects and its route."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"fleet {fleet.name}: services: {twice}: must not be called as the deployment of another service, its "
            "second checkpoint or the pools that several share, is.",
            hint="Rename the service.",
        )


def _groups(fleet: FleetScenario) -> list[tuple[FleetService, ...]]:
    """Services that may serve each other's requests: one whose pools are shared, with any of those that share them."""
    groups: list[tuple[FleetService, ...]] = []
    for service in fleet.interactive:
        guests = [other for other in fleet.interactive if service.name in other.shares]
        if len(guests) > MOST_SHARING:
            raise InputError(
                f"fleet {fleet.name}: services: at most {MOST_SHARING} may share the pools of {service.name}, got "
                f"{len(guests)}.",
                hint="Let fewer of them share, or share the pools of another.",
            )
        for size in range(1, len(guests) + 1):
            groups += [(service, *chosen) for chosen in combinations(guests, size)]
    return groups


def _shared(fleet: FleetScenario, group: Sequence[FleetService]) -> Deployment:
    """One queue with the requests of all, within the stricter of their levels."""
    host = group[0].scenarios[0]
    for other in group[1:]:
        _require_alike(fleet, group[0], other)
    demand_rps = math.fsum(service.demand_rps for service in group)
    name = "-and-".join(service.name for service in group)
    streams = [(service.scenarios[0].workload, service.demand_rps) for service in group]
    scenario = replace(
        host,
        name=name,
        workload=mixed_profile(name, streams),
        slo=_stricter([service.scenarios[0].slo for service in group]),
        trace=None,
        inputs=tuple(dict.fromkeys(item for service in group for item in service.scenarios[0].inputs)),
    )
    parts = tuple((service.name, service.demand_rps / demand_rps) for service in group)
    return Deployment(scenario=_posed(fleet, scenario, demand_rps), parts=parts)


def _require_alike(fleet: FleetScenario, host: FleetService, guest: FleetService) -> None:
    ours, theirs = host.scenarios[0], guest.scenarios[0]
    unlike = [
        key
        for key, alike in (
            ("model", ours.model == theirs.model and len(host.scenarios) == len(guest.scenarios) == 1),
            ("engine", ours.engine == theirs.engine),
            ("cost", ours.cost == theirs.cost),
            ("serving", ours.serving is theirs.serving),
            ("survive", ours.survive == theirs.survive),
            ("deploy", ours.deploy == theirs.deploy),
            ("kind of slo.percentile", (ours.slo.percentile is None) is (theirs.slo.percentile is None)),
            ("slo.ranges (none)", not (ours.slo.ranges or theirs.slo.ranges)),
        )
        if not alike
    ]
    if unlike:
        raise InputError(
            f"fleet {fleet.name}: services: {guest.name}: shares: must be of a service with the same "
            f"{' and '.join(unlike)}, {host.name} has another.",
            hint=f"Leave out shares, or give {guest.name} what {host.name} has.",
        )


def _stricter(levels: Sequence[SloSettings]) -> SloSettings:
    """Bounds that keep all of these: the least of each, of the most requests."""

    def tightest(bounds: Sequence[float | None]) -> float | None:
        return min((bound for bound in bounds if bound is not None), default=None)

    first = levels[0]
    growing = [slo.ttft_ms_per_1k_tokens for slo in levels if slo.ttft_ms is not None]
    return replace(
        first,
        ttft_ms=tightest([slo.ttft_ms for slo in levels]),
        ttft_ms_per_1k_tokens=min(growing, default=0.0),
        tpot_ms=tightest([slo.tpot_ms for slo in levels]),
        percentile=max((slo.percentile for slo in levels if slo.percentile is not None), default=None),
    )


def _posed(fleet: FleetScenario, scenario: Scenario, demand_rps: float) -> Scenario:
    """The scenario with what its share of the fleet is planned for."""
    if fleet.objective.kind is not FleetAim.TARGET:
        return scenario
    target = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=demand_rps / scenario.routing.margin)
    return replace(scenario, objective=target)
