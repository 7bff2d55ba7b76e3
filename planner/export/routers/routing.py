"""The routing table as ConfigMaps: which Service takes which share of which range, in each phase.

A table that is longer than `MOST_BYTES` comes in parts, a ConfigMap each. All parts have the table's head; services and
routes of the table are those of all parts, in the order of their numbers:

    {"part": {"number": 2, "of": 3}, "plan": {...}, "services": [...], "routes": [...]}

bound      bytes      source
annotation 262,144    `kubectl apply` keeps the whole object in an annotation of itself; Kubernetes' limit on all of
                      them together (TotalAnnotationSizeLimitB)
ConfigMap  1,048,576  Kubernetes' limit on a ConfigMap's data
"""

import json
from collections.abc import Sequence
from typing import Any

from planner.domain.serving.routers import LEAST_WORK
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import ROUTING, workload_name
from planner.export.routers.intervals import covering_routes
from planner.export.seams import Deployment, Endpoint
from planner.export.summary import balanced, plan_head
from planner.export.templating import object_of

ROUTING_KEY = "routing.json"
PART_KEY = "part"
MOST_BYTES = 240_000
"""Of a part as JSON quotes it: less than the annotation takes, and so than a ConfigMap may hold."""


def routing_file(deployment: Deployment, endpoints: Sequence[Endpoint]) -> dict[str, str]:
    """`routing.yaml` with the table's ConfigMaps: one, or as many as it takes for each to stay below `MOST_BYTES`."""
    texts = _part_texts(deployment, endpoints)
    name = workload_name(deployment.name, ROUTING)
    config_maps = [
        object_of(
            "config-map",
            name=name if number == 1 else f"{name}-{number}",
            part_of=deployment.name,
            data={ROUTING_KEY: text},
        )
        for number, text in enumerate(texts, start=1)
    ]
    parts = (
        f"In {len(texts)} parts, a ConfigMap each; services and routes are those of all parts, in the order of "
        "part.number."
    )
    comments = (
        f"Routing table of plan {deployment.plan.scenario.name}, for a router to read.",
        "A request of range_start <= tokens < range_end goes to `service` with probability `share`, "
        "once for each phase; `probability` of all requests are in the range.",
        *_rank_words(endpoints),
        *((parts,) if len(texts) > 1 else ()),
        *((f"WARNING: {deployment.unrouted}",) if deployment.unrouted else ()),
        *_policy_words(deployment),
        *_mixed_words(deployment),
        "Lengths that the plan knows no requests of go with the range above them; the last goes up to the context.",
    )
    return {"routing.yaml": yaml_text(comments, config_maps)}


def _rank_words(endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    if not any(endpoint.rank_ports for endpoint in endpoints):
        return ()
    return ("A service with `rank_ports` has an attention rank behind each, in every pod: choose among these.",)


def _policy_words(deployment: Deployment) -> tuple[str, ...]:
    """What a router does instead of drawing shares."""
    if not balanced(deployment.plan):
        return ()
    router = deployment.plan.scenario.router
    chooses = router.words([island.phase for island in deployment.islands])
    if router != LEAST_WORK:
        return (
            f"The plan's promise rests on router {router.name} among the services of a length ({chooses});",
            "`share` is what that comes to.",
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


def table_file(deployment: Deployment, endpoints: Sequence[Endpoint]) -> dict[str, str]:
    """`routing.json`, for targets whose files nobody applies."""
    return {ROUTING_KEY: table_text(deployment, endpoints)}


def table_text(deployment: Deployment, endpoints: Sequence[Endpoint]) -> str:
    """The routing table as JSON, one row a line, so that two plans can be compared line by line."""
    return _text("", deployment, *_rows(deployment, endpoints))


def _part_texts(deployment: Deployment, endpoints: Sequence[Endpoint]) -> list[str]:
    """The table as texts of at most `MOST_BYTES` as JSON quotes them: itself, or parts with as many rows as fit."""
    services, routes = _rows(deployment, endpoints)
    text = _text("", deployment, services, routes)
    if len(json.dumps(text)) <= MOST_BYTES:
        return [text]
    room = MOST_BYTES - len(json.dumps(_text(_part_head(len(routes), len(routes)), deployment, [], [])))
    parts: list[tuple[list[str], list[str]]] = [([], [])]
    room_left = room
    for kind, row in [*((0, row) for row in services), *((1, row) for row in routes)]:
        size = len(json.dumps(f"{row},\n")) - len('""')
        if size > room_left and any(parts[-1]):
            parts.append(([], []))
            room_left = room
        parts[-1][kind].append(row)
        room_left -= size
    return [_text(_part_head(number, len(parts)), deployment, *rows) for number, rows in enumerate(parts, start=1)]


def _part_head(number: int, count: int) -> str:
    return f'"{PART_KEY}": {json.dumps({"number": number, "of": count})},\n'


def _text(part: str, deployment: Deployment, services: Sequence[str], routes: Sequence[str]) -> str:
    """One row a line; `part`: which part of the table this is, empty for all of it."""
    plan = json.dumps(plan_head(deployment))
    lines = [",\n".join(rows) for rows in (services, routes)]
    return f'{{{part}"plan": {plan},\n"services": [\n{lines[0]}\n],\n"routes": [\n{lines[1]}\n]}}\n'


def _rows(deployment: Deployment, endpoints: Sequence[Endpoint]) -> tuple[list[str], list[str]]:
    """Services and routes, a line each."""
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
    return [json.dumps(_service_row(endpoint)) for endpoint in endpoints], [json.dumps(row) for row in rows]


def _service_row(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "service": endpoint.service,
        "island": endpoint.island.id,
        "phase": endpoint.island.phase.value,
        "port": endpoint.port,
        "leaders": list(endpoint.leaders),
        **_ranks(endpoint),
    }


def _ranks(endpoint: Endpoint) -> dict[str, Any]:
    """Where each attention rank answers, if by itself: ports of a pod, and all ranks where pods have names."""
    if not endpoint.rank_ports:
        return {}
    return {"rank_ports": list(endpoint.rank_ports), **({"ranks": list(endpoint.ranks)} if endpoint.ranks else {})}
