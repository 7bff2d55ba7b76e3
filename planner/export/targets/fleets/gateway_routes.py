"""A fleet behind a gateway: an HTTPRoute for each service and model, by the headers that name them.

The gateway's body-based router puts the model of a request's body into a header; requests for no model of the fleet
match no route, and the gateway refuses them with 404.

Sources: gateway.networking.k8s.io/v1 (HTTPRoute: header matches, weights of backendRefs); kubernetes-sigs/
gateway-api-inference-extension (body-based routing: header X-Gateway-Model-Name; InferencePool v1 as a backend).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.export.objects.documents import yaml_text
from planner.export.objects.names import plan_labels
from planner.export.routers.intervals_served import server_weights
from planner.export.seams import Entry
from planner.export.targets.fleets.entries import HEADER, ServiceRoute
from planner.export.templating import object_of

API_VERSION, KIND = "gateway.networking.k8s.io/v1", "HTTPRoute"
MODEL_HEADER = "X-Gateway-Model-Name"
_POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool"}


def gateway_files(routes: Sequence[ServiceRoute], fleet: str, gateway: str) -> Mapping[str, str]:
    """`routes.yaml`: every service's HTTPRoute on a Gateway of that name."""
    comments = (
        f"Requests of fleet {fleet} by the model that they name, on Gateway {gateway}.",
        f"Install the body-based router of the inference extension, which writes {MODEL_HEADER} from the body.",
        *(f"{route.service}: {route.words}." for route in routes),
    )
    return {"routes.yaml": yaml_text(comments, [_route(route, fleet, gateway) for route in routes])}


def _route(route: ServiceRoute, fleet: str, gateway: str) -> dict[str, Any]:
    by_name = [[_exact(MODEL_HEADER, name)] for name in route.names]
    by_header = [[_exact(MODEL_HEADER, name), _exact(HEADER, route.service)] for name in route.headed]
    weights = server_weights(route.rates)
    return object_of(
        "gateway-route",
        name=f"{fleet}-route-{route.number}",
        labels=plan_labels(fleet),
        gateway=gateway,
        matches=[*by_header, *by_name],
        backends=[_backend(entry, weight) for (entry, _), weight in zip(route.entries, weights, strict=True)],
    )


def _exact(name: str, value: str) -> dict[str, str]:
    return {"type": "Exact", "name": name, "value": value}


def _backend(entry: Entry, weight: int) -> dict[str, Any]:
    if entry.pool:
        return {**_POOL, "name": entry.pool, "weight": weight}
    return {"name": entry.host, "port": entry.port, "weight": weight}
