"""Where a fleet's deployments take requests, read from what their own exports wrote; and which service goes where.

A deployment is reached at the Service of its router, or where its target says; behind a gateway it is an InferencePool,
which the router's chart makes, or the target's controller. A service goes to its deployments by what each promises it,
and requests name it where engines answer to its name: else they name the model, and the service in a header.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from planner.domain.fleets import FleetPart, FleetPlan
from planner.errors import ExportError, InputError
from planner.export.checking.structure import read_manifests
from planner.export.objects.router_objects import of_router
from planner.export.routers.llm_d import FILE as PICKER_FILE
from planner.export.seams import Entry
from planner.export.targets import TARGETS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


_Ways = tuple[tuple[Entry, float], ...]
"""Deployments, each with what it promises (requests/s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRoute:
    """Requests of a service go to `entries`, each with what it promises them (requests/s): those that name the model
    by one of `names`, and those that name `headed` where the header names the service."""

    number: int
    service: str
    names: tuple[str, ...]
    headed: tuple[str, ...]
    entries: _Ways

    @property
    def rates(self) -> list[tuple[float, int]]:
        """As weights are made of."""
        return [(rate, 1) for _, rate in self.entries]

    @property
    def models(self) -> tuple[str, ...]:
        """Every name that leads here, with or without the header."""
        return tuple(dict.fromkeys((*self.names, *self.headed)))

    @property
    def words(self) -> str:
        """What a client has to send."""
        if self.names:
            return f"`model` {' or '.join(self.names)}"
        return f"`model` {' or '.join(self.headed)} with the header {HEADER}: {self.service}"


HEADER = "x-service"
"""Names the service, where its own name is none that engines answer to."""


def entry_of(part: FleetPart, files: Mapping[str, str], target: str, names: tuple[str, ...] = ()) -> Entry:
    """Where the deployment whose export wrote `files` takes requests; `names`: to which its engines answer, too.

    Raises:
        ExportError: nothing in them takes requests for all its islands.
    """
    known = Entry(deployment=part.name, model=TARGETS[target].model_name(part.plan.scenario.model), names=names)
    manifests = [manifest for manifest, _ in read_manifests(files).sound]
    if PICKER_FILE in files:
        return replace(known, pool=next(manifest.name for manifest in manifests if manifest.file == PICKER_FILE))
    find = TARGETS[target].entry
    if find is not None and (entry := find(known, manifests)) is not None:
        return entry
    services = [m for m in manifests if m.kind == "Service" and of_router(m)]
    if not services:
        raise ExportError(
            f"Deployment {part.name}, target {target}: must have a router that takes requests for all its islands, has "
            "none.",
            hint="Choose another target or router, or plan without forms that its router cannot serve.",
        )
    first = min(services, key=lambda service: len(service.name))
    port = int(first.body["spec"]["ports"][0]["port"])
    return replace(known, host=first.name, port=port)


def service_routes(fleet_plan: FleetPlan, entries: Mapping[str, Entry]) -> tuple[ServiceRoute, ...]:
    """The routes of every service that has a deployment; `entries`: of deployments by name. One by the service's name,
    to all of its deployments that answer to it, and one by the name of each model that it runs.

    Raises:
        InputError: a service has a name that no request can carry, or that is another's model.
    """
    ways = _ways(fleet_plan, entries)
    _check_names(fleet_plan, entries.values())
    routes: list[ServiceRoute] = []
    for service in ways:
        for names, headed, to in _named_ways(service, ways, waiting={each.name for each in fleet_plan.fleet.batches}):
            routes.append(ServiceRoute(number=len(routes), service=service, names=names, headed=headed, entries=to))
    return tuple(routes)


def _ways(fleet_plan: FleetPlan, entries: Mapping[str, Entry]) -> dict[str, _Ways]:
    """Where each service goes."""
    ways: dict[str, _Ways] = {}
    for service in fleet_plan.fleet.services:
        promised = ((entries[part.name], part.promised_to(service.name)) for part in fleet_plan.plans)
        if to := tuple((entry, rate) for entry, rate in promised if rate > 0):
            ways[service.name] = to
    return ways


def _named_ways(
    service: str, ways: Mapping[str, _Ways], waiting: Collection[str]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], _Ways]]:
    """Names, names beside the header, and deployments of each route of a service."""
    by_model: dict[str, list[tuple[Entry, float]]] = {}
    for entry, rate in ways[service]:
        by_model.setdefault(entry.model, []).append((entry, rate))
    answering = tuple((entry, rate) for entry, rate in ways[service] if service in entry.names)
    if answering and (len(by_model) > 1 or len(answering) < len(ways[service])):
        yield (service,), (), answering
        answering = ()
    for model, to in by_model.items():
        alone = _is_alone(service, model, ways, waiting)
        names = (*((service,) if answering else ()), *((model,) if alone else ()))
        yield tuple(dict.fromkeys(names)), (model,), tuple(to)


def _is_alone(service: str, model: str, ways: Mapping[str, _Ways], waiting: Collection[str]) -> bool:
    """Whether the model's name is enough: no other service has it elsewhere, but such as wait where this one does not.
    Of services that have the same deployments the first one takes it."""
    mine = _deployments(ways[service], model)
    others = [name for name in ways if name != service and (service in waiting or name not in waiting)]
    return all(_deployments(ways[name], model) in (frozenset(), mine) for name in others)


def _deployments(ways: _Ways, model: str) -> frozenset[str]:
    return frozenset(entry.deployment for entry, _ in ways if entry.model == model)


def _check_names(fleet_plan: FleetPlan, entries: Iterable[Entry]) -> None:
    models = {entry.model: entry for entry in entries}
    for service in fleet_plan.fleet.services:
        if not _NAME.fullmatch(service.name):
            raise InputError(
                f"Service {service.name!r}: must be letters, digits and ._- to be named in a request, 63 at most.",
                hint="Rename the service.",
            )
        known = models.get(service.name)
        if known is not None and service.name not in known.names:
            raise InputError(
                f"Service {service.name}: must not be called as the model of deployment {known.deployment} is, which "
                "requests name, too.",
                hint="Rename the service.",
            )
