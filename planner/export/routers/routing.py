"""The routing table as a ConfigMap: which Service takes which share of which range, in each phase."""

import json
from collections.abc import Sequence
from typing import Any

from planner.domain import RouterPolicy
from planner.errors import ExportError
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import ROUTING, workload_name
from planner.export.routers.coverage import covering_routes
from planner.export.seams import Deployment, Endpoint
from planner.export.summary import balanced, plan_head

ROUTING_KEY = "routing.json"
_CONFIG_MAP_BYTES = 1024 * 1024 - 4096  # Kubernetes' limit on a ConfigMap's data, less room for its metadata


def routing_file(deployment: Deployment, endpoints: Sequence[Endpoint]) -> dict[str, str]:
    """`routing.yaml` with the ConfigMap.

    Raises:
        ExportError: the table is larger than a ConfigMap may be.
    """
    table = table_text(deployment, endpoints)
    if len(table.encode()) > _CONFIG_MAP_BYTES:
        raise ExportError(
            f"Plan {deployment.plan.scenario.name}, routing table: must fit a ConfigMap's "
            f"{_CONFIG_MAP_BYTES} bytes, got {len(table.encode())}.",
            hint="Use wider ranges (ranges.width).",
        )
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": workload_name(deployment.name, ROUTING), "labels": _labels(deployment)},
        "data": {ROUTING_KEY: table},
    }
    comments = (
        f"Routing table of plan {deployment.plan.scenario.name}, for a router to read.",
        "A request of range_start <= tokens < range_end goes to `service` with probability `share`, "
        "once for each phase; `probability` of all requests are in the range.",
        *((f"WARNING: {deployment.unrouted}",) if deployment.unrouted else ()),
        *_policy_words(deployment),
        *_mixed_words(deployment),
        "Lengths that the plan knows no requests of go with the range above them; the last goes up to the context.",
    )
    return {"routing.yaml": yaml_text(comments, [config_map])}


def _policy_words(deployment: Deployment) -> tuple[str, ...]:
    """What a router does instead of drawing shares."""
    if not balanced(deployment.plan):
        return ()
    policy = deployment.plan.scenario.routing.policy
    if policy is not RouterPolicy.LEAST_WORK:
        return (
            f"The plan's promise rests on a router of policy {policy.value} among the services of a length; `share` is "
            "what that comes to.",
        )
    return (
        "The plan's promise rests on a router that sends each request to the service of its length with the least",
        "outstanding work for its speed; `share` is what that comes to.",
    )


def _mixed_words(deployment: Deployment) -> tuple[str, ...]:
    """What a router does with islands that stand in both phases."""
    if not any(island.mixed for island in deployment.islands):
        return ()
    return (
        "A service of phase mixed does both: a request that comes to it in prefill stays there, and goes to it once;",
        "the others share out what is left of the range in decode.",
    )


def _labels(deployment: Deployment) -> dict[str, str]:
    return {"app.kubernetes.io/part-of": deployment.name, "app.kubernetes.io/managed-by": "planner"}


def table_file(deployment: Deployment, endpoints: Sequence[Endpoint]) -> dict[str, str]:
    """`routing.json`, for targets whose files nobody applies."""
    return {ROUTING_KEY: table_text(deployment, endpoints)}


def table_text(deployment: Deployment, endpoints: Sequence[Endpoint]) -> str:
    """The routing table as JSON, one row a line, so that two plans can be compared line by line."""
    services = {endpoint.island.id: endpoint.service for endpoint in endpoints}
    routes = sorted(covering_routes(deployment.plan), key=lambda r: (r.phase, r.range_start, services[r.island]))
    rows = [
        {
            "phase": route.phase.value,
            "range_start": route.range_start,
            "range_end": route.range_end,
            "service": services[route.island],
            "share": route.share,
            "probability": route.probability,
        }
        for route in routes
    ]
    services_text = _lines([_service_row(endpoint) for endpoint in endpoints])
    plan = json.dumps(plan_head(deployment))
    return f'{{"plan": {plan},\n"services": [\n{services_text}\n],\n"routes": [\n{_lines(rows)}\n]}}\n'


def _service_row(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "service": endpoint.service,
        "island": endpoint.island.id,
        "phase": endpoint.island.phase.value,
        "port": endpoint.port,
        "leaders": list(endpoint.leaders),
    }


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return ",\n".join(json.dumps(row) for row in rows)
