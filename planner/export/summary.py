"""The plan in a few words on its manifests, for machines to read back: annotations of every workload, and the head of
the routing table.

annotation                  meaning                                         unit
planner/plan, planner/model names of scenario and model
planner/target              kind of manifests
planner/island-id           the island's id in the plan
planner/gpu-type            its GPU type
planner/size                its GPUs = replicas x pp x dp x tp
planner/tp, dp, pp          degrees of one copy of the model
planner/replicas            copies
planner/batch-size          as in the plan
planner/longest-prompt      longest prompt routed to it                     tokens
planner/rate-rps            rate at the plan's throughput                   requests/s
planner/utilisation         busy share of its time
planner/price-usd-per-hour  rent of its GPUs                                USD/h
planner/host-cache-gb       of each GPU's caches in host memory, where      GB
                            the plan has some there
planner/disk-cache-gb       the same on local disk                          GB
planner/load-seconds        how long its pods take to start (`load_time`)   s

They stand on the object that runs the island, never on its pods: there a changed price would replace them. An object
that runs several islands has one annotation for each, planner/island.<part of the object>, whose JSON holds these rows.

Floats are written so that they read back to the same value.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from planner.domain import (
    DeployedIsland,
    DeployedPlan,
    DeployedRoute,
    ParallelConfig,
    Phase,
    Placement,
    Plan,
    PlannedIsland,
)
from planner.domain.serving.caches.tiers import HOST, SSD
from planner.export.islands import ServingIsland, island_tiers
from planner.export.objects.documents import json_document
from planner.export.objects.names import one_line
from planner.export.objects.operating.probes import load_time_annotation
from planner.export.objects.scheduling import node_annotations
from planner.export.routers.intervals import covering_routes
from planner.export.seams import Deployment

PREFIX = "planner/"
ISLAND_ID = f"{PREFIX}island-id"
UNROUTED = "unrouted"
"""In the head of the routing table: why the target's own router does not execute it."""
_ISLAND_OF = f"{PREFIX}island."


def deployed_island(island: PlannedIsland, plan: Plan, placement: Placement | None = None) -> DeployedIsland:
    """An island of `plan` that serves, as its manifests carry it, and the nodes that `placement` gives it."""
    assert island.phase is not None
    assert island.parallel is not None
    tiers = {tier.name: tier.gb_per_gpu for tier in island_tiers(plan, island)}
    return DeployedIsland(
        id=island.id,
        phase=island.phase,
        gpu=island.gpu,
        parallel=island.parallel,
        batch_size=island.batch_size,
        longest_prompt=island.longest_prompt,
        rate_rps=island.rate_rps,
        utilisation=island.utilisation,
        price_usd_per_hour=island.price_usd_per_hour,
        host_cache_gb=tiers.get(HOST, 0.0),
        disk_cache_gb=tiers.get(SSD, 0.0),
        nodes=tuple(sorted({part.node for part in placement.parts if part.island == island.id})) if placement else (),
    )


def deployed_plan(plan: Plan, *, engine: str = "", target: str = "") -> DeployedPlan:
    """What the manifests of `plan` must say of it: its routes cover every length."""
    return DeployedPlan(
        name=one_line(plan.scenario.name),
        model=one_line(plan.scenario.model.name),
        engine=engine,
        target=target,
        islands=tuple(
            deployed_island(island, plan, plan.placement) for island in plan.islands if island.phase is not None
        ),
        routes=tuple(
            DeployedRoute(
                phase=route.phase,
                range_start=route.range_start,
                range_end=route.range_end,
                island=route.island,
                share=route.share,
                probability=route.probability,
            )
            for route in covering_routes(plan)
        ),
        inventory=tuple(plan.fleet.items()),
    )


def island_annotations(island: ServingIsland, deployment: Deployment, *, probed: bool = True) -> dict[str, str]:
    """Annotations of the object, or of the part of one, that runs `island`. `probed`: somebody waits for its start."""
    planned = next(placed for placed in deployment.plan.islands if placed.id == island.id)
    scenario = deployment.plan.scenario
    head = {"plan": one_line(scenario.name), "model": one_line(scenario.model.name), "target": deployment.target.name}
    return (
        {f"{PREFIX}{key}": value for key, value in head.items()}
        | island_rows(deployed_island(planned, deployment.plan))
        | node_annotations(island, deployment)
        | (load_time_annotation(island, deployment) if probed else {})
    )


def part_annotations(parts: Mapping[str, ServingIsland], deployment: Deployment) -> dict[str, str]:
    """Annotations of an object whose `parts` (by name) run an island each."""
    return {f"{_ISLAND_OF}{part}": json.dumps(island_annotations(island, deployment)) for part, island in parts.items()}


def read_part(annotations: Mapping[str, str], part: str) -> dict[str, str]:
    """What `part_annotations` wrote of one part; empty where that is not there or not readable."""
    try:
        rows = json_document(annotations.get(f"{_ISLAND_OF}{part}", ""))
    except ValueError:
        return {}
    sound = isinstance(rows, dict) and all(isinstance(value, str) for value in rows.values())
    return dict(rows) if sound else {}


def part_path(part: str) -> str:
    """The field of the object that describes a part."""
    return f"metadata.annotations.{_ISLAND_OF}{part}"


def island_rows(island: DeployedIsland) -> dict[str, str]:
    """The annotations that describe the island alone; `read_island` reads them back."""
    rows: dict[str, str | int | float] = {
        "island-id": island.id,
        "gpu-type": island.gpu,
        "size": island.size,
        "tp": island.parallel.tp,
        "dp": island.parallel.dp,
        "pp": island.parallel.pp,
        "replicas": island.parallel.replicas,
        "batch-size": island.batch_size,
        "longest-prompt": island.longest_prompt,
        "rate-rps": float(island.rate_rps),
        "utilisation": float(island.utilisation),
        "price-usd-per-hour": float(island.price_usd_per_hour),
        **{key: value for key, value in _caches(island).items() if value},
    }
    return {f"{PREFIX}{key}": value if isinstance(value, str) else repr(value) for key, value in rows.items()}


def _caches(island: DeployedIsland) -> dict[str, float]:
    return {"host-cache-gb": float(island.host_cache_gb), "disk-cache-gb": float(island.disk_cache_gb)}


def read_island(annotations: Mapping[str, str], phase: str) -> DeployedIsland:
    """The island that `island_annotations` wrote; `phase` is its label.

    Raises:
        KeyError: an annotation is missing.
        ValueError: one is no number, the phase is none, or the size is not what the degrees multiply to.
    """
    island = DeployedIsland(
        id=annotations[ISLAND_ID],
        phase=Phase(phase),
        gpu=annotations[f"{PREFIX}gpu-type"],
        parallel=ParallelConfig(**{key: int(annotations[f"{PREFIX}{key}"]) for key in ("tp", "dp", "pp", "replicas")}),
        batch_size=int(annotations[f"{PREFIX}batch-size"]),
        longest_prompt=int(annotations[f"{PREFIX}longest-prompt"]),
        rate_rps=float(annotations[f"{PREFIX}rate-rps"]),
        utilisation=float(annotations[f"{PREFIX}utilisation"]),
        price_usd_per_hour=float(annotations[f"{PREFIX}price-usd-per-hour"]),
        host_cache_gb=float(annotations.get(f"{PREFIX}host-cache-gb", 0)),
        disk_cache_gb=float(annotations.get(f"{PREFIX}disk-cache-gb", 0)),
    )
    parallel = island.parallel
    if min(parallel.tp, parallel.dp, parallel.pp, parallel.replicas) < 1 or island.batch_size < 0:
        raise ValueError(f"{PREFIX}tp, dp, pp and replicas must be at least 1, batch-size at least 0")
    if not all(map(math.isfinite, (island.rate_rps, island.utilisation, island.price_usd_per_hour))):
        raise ValueError(f"{PREFIX}rate-rps, utilisation and price-usd-per-hour must be finite")
    if not all(0 <= size < math.inf for size in _caches(island).values()):
        raise ValueError(f"{PREFIX}host-cache-gb and disk-cache-gb must be at least 0 and finite")
    if island.size != int(annotations[f"{PREFIX}size"]):
        raise ValueError(f"{PREFIX}size must be replicas x pp x dp x tp = {island.size}")
    return island


def plan_head(deployment: Deployment) -> dict[str, Any]:
    """The head of the routing table: whose plan this is, and the GPUs there are."""
    scenario = deployment.plan.scenario
    return {
        "name": one_line(scenario.name),
        "model": one_line(scenario.model.name),
        "engine": deployment.engine.name,
        "target": deployment.target.name,
        "inventory": deployment.plan.fleet,
        **_balancing(deployment.plan),
        **({UNROUTED: one_line(deployment.unrouted)} if deployment.unrouted else {}),
    }


def balanced(plan: Plan) -> bool:
    """Whether a router balances among the islands of a length, and the shares only say what that comes to."""
    return plan.form.row.balanced


def _balancing(plan: Plan) -> dict[str, Any]:
    if not balanced(plan):
        return {}
    return {"routing": {"form": plan.form.value, "router": plan.scenario.router.name}}
