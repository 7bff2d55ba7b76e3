"""The Service of an island, the same for every Kubernetes target."""

from collections.abc import Mapping
from typing import Any

from planner.export.engines.seam import Launch
from planner.export.islands import ServingIsland
from planner.export.objects.pods import labels
from planner.export.seams import Deployment


def island_service(
    name: str, island: ServingIsland, deployment: Deployment, selector: Mapping[str, str], ports: list[dict[str, Any]]
) -> dict[str, Any]:
    """A Service called `name` over the pods of `island` that `selector` chooses."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels(island, deployment)},
        "spec": {"type": "ClusterIP", "selector": dict(selector), "ports": ports},
    }


def launch_ports(launch: Launch) -> list[dict[str, Any]]:
    """The leader's ports under their own names and numbers."""
    return [{"name": port.name, "port": port.number, "targetPort": port.name} for port in launch.ports]


def http_port(number: int) -> list[dict[str, Any]]:
    """One port, called http."""
    return [{"name": "http", "port": number, "targetPort": number}]
