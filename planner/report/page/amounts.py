"""Sums over a plan that several sections tell."""

import math

from planner.domain import BucketPool, Phase, Plan, PlannedIsland


def used_gpus(plan: Plan) -> dict[str, int]:
    """GPUs in islands that serve, by type."""
    counts = {item.gpu.name: 0 for item in plan.scenario.inventory.items}
    for island in plan.islands:
        counts[island.gpu] += island.size if island.phase is not None else 0
    return counts


def gpus_by_phase(plan: Plan) -> dict[Phase, dict[str, int]]:
    """GPUs of islands by phase and type."""
    counts = {phase: dict.fromkeys(plan.fleet, 0) for phase in plan.phases}
    for island in plan.islands:
        if island.phase is not None:
            counts[island.phase][island.gpu] += island.size
    return counts


def most_watts(plan: Plan) -> dict[str, float]:
    """What the fleet's GPUs draw at most by their data sheets, by type (W); hosts and cooling are not among it."""
    return {item.gpu.name: plan.fleet[item.gpu.name] * item.gpu.max_w for item in plan.scenario.inventory.items}


def nodes_of(plan: Plan, island: PlannedIsland, pool: BucketPool | None = None) -> int:
    """Nodes that an island takes: those that it lies on, else as few as can be, copies of the model side by side."""
    if plan.placement is not None:
        lies_on = {part.node for part in plan.placement.parts if part.island == island.id}
        if lies_on:
            return len(lies_on)
    devices = pool.server.parallel.devices if pool else island.parallel.devices if island.parallel else island.size
    copies = pool.count if pool else island.parallel.replicas if island.parallel else 1
    host = plan.scenario.inventory.item(island.gpu).gpu.gpus_per_host
    if devices > host:
        return copies * math.ceil(devices / host)
    return math.ceil(copies / max(1, host // devices))
