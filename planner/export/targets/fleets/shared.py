"""What takes a fleet's requests: a proxy of its own, or a gateway's routes where deployments are InferencePools."""

from collections.abc import Mapping

from planner.domain.fleets import FleetPlan
from planner.export.objects.names import plan_slug
from planner.export.seams import Entry
from planner.export.targets.fleets.entries import service_routes
from planner.export.targets.fleets.front import front_files
from planner.export.targets.fleets.gateway_routes import gateway_files

_SUFFIXES = ("front", "priority-100", "nobodys", "route-1000")


def fleet_label(fleet_plan: FleetPlan) -> str:
    """What the names of shared objects begin with."""
    names = (*_SUFFIXES, *(part.name for part in fleet_plan.plans))
    return plan_slug(fleet_plan.fleet.name, (*names, *(i.gpu.name for i in fleet_plan.fleet.inventory.items)))


def fleet_front_files(
    fleet_plan: FleetPlan, entries: Mapping[str, Entry], fleet: str, gateway: str
) -> Mapping[str, str]:
    """File name -> text; `entries`: of all deployments, by name.

    Raises:
        InputError: a name that no request or configuration can hold.
    """
    routes = service_routes(fleet_plan, entries)
    if any(entry.pool for entry in entries.values()):
        return gateway_files(routes, fleet, gateway)
    return front_files(fleet_plan, routes, fleet)
