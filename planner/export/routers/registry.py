"""The routers by name. A new one is a module of this package, and a row here."""

from collections.abc import Mapping
from types import MappingProxyType

from planner.domain import DeploySettings
from planner.domain.serving.programs import router_of
from planner.errors import ExportError, InputError
from planner.export.options import ExportOptions
from planner.export.routers.aibrix import AIBRIX
from planner.export.routers.llm_d import LLM_D
from planner.export.routers.programs import HAPROXY, MODEL_GATEWAY, VLLM
from planner.export.routers.ray import RAY
from planner.export.routers.sglang import SGLANG
from planner.export.seams import Router, Target
from planner.export.targets.dynamo.router import DYNAMO

_ROUTERS: tuple[Router, ...] = (LLM_D, HAPROXY, VLLM, MODEL_GATEWAY, SGLANG, RAY, AIBRIX, DYNAMO)
ROUTERS: Mapping[str, Router] = MappingProxyType({router.name: router for router in _ROUTERS})
NO_ROUTER = "none"
"""Said instead of a router's name: the routing table alone, for a router of one's own."""


def chosen_router(target: Target, name: str = "") -> str:
    """The name of the router that `target`'s exports come with where `name` asks for none of its own."""
    router = router_of(DeploySettings(target=target.name))
    return name or (router if target.name in ROUTERS[router].targets else NO_ROUTER)


def check_counts(options: ExportOptions, router: Router | None) -> None:
    """Refuse what the router cannot count.

    Raises:
        ExportError: it counts requests alone, or nobody executes the routing.
    """
    if options.router_counts != ExportOptions().router_counts and not (router and router.counts_bytes):
        able = " or ".join(name for name, row in ROUTERS.items() if row.counts_bytes)
        raise ExportError(
            f"deploy.router_counts: must be left out unless the router is {able}, got {options.router_counts} with "
            f"router {router.name if router else NO_ROUTER}.",
            hint="Take --router haproxy, or leave it out.",
        )


def router_named(name: str, target: Target, engine: str) -> Router | None:
    """The router called `name`, or where that is empty the target's own; None: no router.

    Raises:
        InputError: there is none of that name.
        ExportError: it cannot reach what the target starts, or does not know the engine's hand-over.
    """
    chosen = chosen_router(target, name)
    if chosen == NO_ROUTER:
        return None
    if chosen not in ROUTERS:
        raise InputError(
            f"Router {chosen!r}: must be one of {', '.join((*ROUTERS, NO_ROUTER))}.", hint="Choose one of them."
        )
    router = ROUTERS[chosen]
    if target.name not in router.targets:
        raise ExportError(
            f"Router {chosen}, target: must be {' or '.join(router.targets)}, whose servers it reaches, got "
            f"{target.name}.",
            hint="Choose another router or target, or --router none for the routing table alone.",
        )
    if engine not in router.engines:
        raise ExportError(
            f"Router {chosen}, engine: must be {' or '.join(router.engines)}, whose hand-over of KV caches it knows, "
            f"got {engine}.",
            hint="Choose another router or engine, or --router none for the routing table alone.",
        )
    return router
