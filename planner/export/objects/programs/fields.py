"""By what the programs of routers are told from the islands' workloads in finished manifests."""

from planner.export.found import Manifest

COMPONENT_LABEL = "app.kubernetes.io/component"
COMPONENT = "router"
ROUTER_LABEL = "planner/router"
PROGRAM_LABEL = "planner/router-program"
SCRIPT_KIND = "router script"
CONFIG_KIND = "router configuration"


def of_router(manifest: Manifest) -> bool:
    """Whether an object belongs to a router, and to no island."""
    return manifest.labels.get(COMPONENT_LABEL) == COMPONENT


def is_program(manifest: Manifest) -> bool:
    """Whether a Deployment runs a router's program and no island's."""
    return manifest.kind == "Deployment" and of_router(manifest)
