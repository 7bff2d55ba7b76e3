"""Where a fleet's deployments take requests, read from what their own exports wrote; and which service goes where.

A deployment is reached at the Service of its router, or of Dynamo's frontend; behind a gateway it is an InferencePool,
which the router's chart makes, or KServe. A service goes to its deployments by what each promises it.

Sources: Dynamo's operator (a component's Service is GRAPH-COMPONENT, the frontend's port 8000); KServe's controller of
LLMInferenceServices (pool NAME-inference-pool where it starts a picker).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.domain.fleets import FleetPart, FleetPlan
from planner.errors import ExportError, InputError
from planner.export.checking.structure import read_manifests
from planner.export.found import Manifest
from planner.export.objects.names import weights_location
from planner.export.objects.router_objects import of_router
from planner.export.routers.haproxy import HEALTH
from planner.export.routers.llm_d import FILE as PICKER_FILE

_FRONTEND_PORT, _FRONTEND = 8000, "-frontend"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Where a deployment takes requests: `host` and `port` of a Service, or an InferencePool. `model`: the name by
    which its engines know the model."""

    deployment: str
    model: str
    host: str = ""
    port: int = 0
    health_path: str = HEALTH
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRoute:
    """Requests of a service for `model` go to `entries`, each with what it promises them (requests/s). `by_model`: the
    name of the model is enough, as no other service has it elsewhere, unless its work waits and theirs does not."""

    number: int
    service: str
    model: str
    entries: tuple[tuple[Entry, float], ...]
    by_model: bool

    @property
    def rates(self) -> list[tuple[float, int]]:
        """As weights are made of."""
        return [(rate, 1) for _, rate in self.entries]


def entry_of(part: FleetPart, files: Mapping[str, str], target: str) -> Entry:
    """Where the deployment whose export wrote `files` takes requests.

    Raises:
        ExportError: nothing in them takes requests for all its islands.
    """
    model = part.plan.scenario.model
    known_as = model.name if target == "kserve" else weights_location(model.name, model.uri)
    manifests = [manifest for manifest, _ in read_manifests(files).sound]
    pool = _pool(files, manifests)
    if pool:
        return Entry(deployment=part.name, model=known_as, pool=pool)
    graphs = [m for m in manifests if m.kind == "DynamoGraphDeployment" and m.file.startswith("00-")]
    if graphs:
        host = min((graph.name for graph in graphs), key=len) + _FRONTEND
        return Entry(deployment=part.name, model=known_as, host=host, port=_FRONTEND_PORT)
    services = [m for m in manifests if m.kind == "Service" and of_router(m)]
    if not services:
        raise ExportError(
            f"Deployment {part.name}, target {target}: must have a router that takes requests for all its islands, has "
            "none.",
            hint="Choose another target or router, or plan without forms that its router cannot serve.",
        )
    first = min(services, key=lambda service: len(service.name))
    port = int(first.body["spec"]["ports"][0]["port"])
    return Entry(deployment=part.name, model=known_as, host=first.name, port=port)


def _pool(files: Mapping[str, str], manifests: Sequence[Manifest]) -> str:
    """The InferencePool of all islands; empty where there is none."""
    if PICKER_FILE in files:
        return next(manifest.name for manifest in manifests if manifest.file == PICKER_FILE)
    services = [m for m in manifests if m.kind == "LLMInferenceService" and "router" in m.body["spec"]]
    return f"{services[0].name}-inference-pool" if services else ""


def service_routes(fleet_plan: FleetPlan, entries: Mapping[str, Entry]) -> tuple[ServiceRoute, ...]:
    """The routes of every service that has a deployment; `entries`: of deployments by name.

    Raises:
        InputError: a service has a name that no header can carry.
    """
    waiting = {service.name for service in fleet_plan.fleet.batches}
    groups: dict[tuple[str, str], list[tuple[Entry, float]]] = {}
    for service in fleet_plan.fleet.services:
        if not _NAME.fullmatch(service.name):
            raise InputError(
                f"Service {service.name!r}: must be letters, digits and ._- to be named in a request, 63 at most.",
                hint="Rename the service.",
            )
        for part in fleet_plan.plans:
            rate = part.promised_to(service.name)
            if rate > 0:
                entry = entries[part.name]
                groups.setdefault((service.name, entry.model), []).append((entry, rate))

    def by_model(service: str, model: str) -> bool:
        return not any(
            other_model == model and _hosts(other_ways) != _hosts(groups[service, model])
            for (other, other_model), other_ways in groups.items()
            if service in waiting or other not in waiting
        )

    return tuple(
        ServiceRoute(number=n, service=service, model=model, entries=tuple(ways), by_model=by_model(service, model))
        for n, ((service, model), ways) in enumerate(groups.items())
    )


def _hosts(ways: Sequence[tuple[Entry, float]]) -> set[str]:
    return {entry.deployment for entry, _ in ways}
