"""A fleet's front: HAProxy, which reads the model in an OpenAI request's body, a service's name or its model's, and
sends it to a deployment's router.

A service with several deployments is split by weights, which are the rates that they promise it. An unknown model is
refused with 404 and JSON as engines answer it. Clients may write the model last, so that a buffer holds a whole body:
that of the longest context, twice.

Source: HAProxy's configuration manual 2.6 (json_query, http-buffer-request, http-request return).
"""

import math
from collections.abc import Mapping, Sequence

from planner.domain import Plan
from planner.domain.fleets import FleetPlan
from planner.errors import ExportError
from planner.export.objects.documents import yaml_text
from planner.export.objects.router_objects import program_objects
from planner.export.objects.security.policies import FILE, front_policy
from planner.export.options import chosen_image, pinned
from planner.export.routers.haproxy import (
    CONFIG_FILE,
    COPIES,
    CPUS,
    HEALTH,
    IMAGE,
    PORT,
    address,
    address_in_cluster,
    body_bytes,
    envelope_bytes,
)
from planner.export.routers.intervals_served import answer_timeout_s, server_weights
from planner.export.seams import RouterProcess
from planner.export.targets.fleets.entries import HEADER, ServiceRoute
from planner.export.templating import configuration_of

ROUTER = "fleet"
_KIB, _MIB = 1024, 1024 * 1024
_HEADERS, _LEAST_BUFFER = 4 * _KIB, 16 * _KIB
_CONNECTIONS, _BUFFERING = 20_000, 200


def front_config(fleet_plan: FleetPlan, routes: Sequence[ServiceRoute], *, cluster: bool = True) -> str:
    """The text of haproxy.cfg; `cluster`: deployments are found by the names of Services.

    Raises:
        ExportError: a deployment is an InferencePool, which a gateway reaches and no proxy.
        InputError: a name that a configuration cannot hold.
    """
    for route in routes:
        for entry, _ in route.entries:
            if not entry.host:
                raise ExportError(
                    f"Deployment {entry.deployment}: must answer at a Service, is InferencePool {entry.pool}.",
                    hint="Take the routes of a gateway.",
                )
    plans = [part.plan for part in fleet_plan.plans]
    most_bytes = max(map(_longest_body, plans))
    return configuration_of(
        "fleet-front",
        fleet=fleet_plan.fleet.name,
        header=HEADER,
        routes=routes,
        models=sorted({name for route in routes for name in route.models}),
        cluster=cluster,
        address=address_in_cluster if cluster else address,
        weights=server_weights,
        most_bytes=most_bytes,
        buffer=_buffer_bytes(most_bytes),
        connections=_CONNECTIONS,
        cpus=CPUS,
        timeout=max(map(answer_timeout_s, plans)),
        port=PORT,
        health=HEALTH,
    )


def _longest_body(plan: Plan) -> int:
    """Bytes from which on no engine takes a prompt."""
    scenario = plan.scenario
    return 2 * body_bytes(scenario.model.max_context, scenario.deploy.bytes_per_token, envelope_bytes(plan))


def _buffer_bytes(most_bytes: int) -> int:
    return max(_LEAST_BUFFER, _KIB * math.ceil((most_bytes + _HEADERS) / _KIB))


def front_process(
    fleet_plan: FleetPlan, routes: Sequence[ServiceRoute], name: str, *, cluster: bool = True
) -> RouterProcess:
    """The program with its configuration; `cluster`, and what it raises: as of `front_config`."""
    plans = [part.plan for part in fleet_plan.plans]
    images = [chosen_image(plan.scenario.deploy, "HAPROXY", None) for plan in plans]
    pins = [pinned(plan.scenario.deploy, IMAGE) for plan in plans]
    buffers = _BUFFERING * _buffer_bytes(max(map(_longest_body, plans)))
    return RouterProcess(
        name=name,
        image=next(filter(None, images), max(pins, key=len)),
        command=("haproxy", "-db", "-f", f"{{config}}/{CONFIG_FILE}"),
        port=PORT,
        health_path=HEALTH,
        config=((CONFIG_FILE, front_config(fleet_plan, routes, cluster=cluster)),),
        replicas=COPIES,
        cpus=CPUS,
        memory_mib=512 + math.ceil(2 * buffers / _MIB),
        grace_s=max(map(answer_timeout_s, plans)),
    )


def front_files(fleet_plan: FleetPlan, routes: Sequence[ServiceRoute], fleet: str) -> Mapping[str, str]:
    """`front.yaml`: Deployment, Service, budget and configuration; `fleet`: the label of the fleet."""
    process = front_process(fleet_plan, routes, f"{fleet}-front")
    comments = (
        f"Fleet {fleet_plan.fleet.name}: requests of all services go to {process.name}:{process.port}.",
        *(
            f"{route.service}: {route.words}, to {', '.join(entry.deployment for entry, _ in route.entries)}."
            for route in routes
            if route.models
        ),
    )
    namespaces = [plan.plan.scenario.deploy.client_namespaces for plan in fleet_plan.plans]
    named = {name for row in namespaces for name in row} if all(namespaces) else set[str]()
    policy = front_policy(process.name, fleet, process.port, named)
    return {
        "front.yaml": yaml_text(comments, program_objects(process, part_of=fleet, router=ROUTER)),
        FILE: yaml_text(("Who may speak to the front, and to whom it speaks.",), [policy]),
    }
