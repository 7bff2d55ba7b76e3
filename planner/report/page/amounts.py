"""Sums over a plan that several sections tell."""

import math
from collections import Counter
from collections.abc import Sequence

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


def nodes_of(plan: Plan, islands: Sequence[PlannedIsland], pool: BucketPool | None = None) -> int:
    """Nodes that islands of one GPU type take together: those that they lie on, else as few as can be, copies of the
    model side by side."""
    if plan.placement is not None:
        names = {island.id for island in islands}
        lie_on = {part.node for part in plan.placement.parts if part.island in names}
        if lie_on:
            return len(lie_on)
    copies = [size for island in islands for size in _copies(island, pool)]
    return _fewest_nodes(copies, plan.scenario.inventory.item(islands[0].gpu).gpu.gpus_per_host) if copies else 0


def _copies(island: PlannedIsland, pool: BucketPool | None) -> list[int]:
    """GPUs of each copy of the model."""
    if pool is not None:
        return [pool.server.parallel.devices] * pool.count
    if island.parallel is None:
        return [island.size]
    return [island.parallel.devices] * island.parallel.replicas


def _fewest_nodes(copies: Sequence[int], host: int) -> int:
    """Copies of more than a node have theirs alone; of the rest each goes where it fits best, the largest first."""
    alone = sum(math.ceil(size / host) for size in copies if size > host)
    room: Counter[int] = Counter()
    for size in sorted((size for size in copies if size <= host), reverse=True):
        left = min((gpus for gpus in room if gpus >= size), default=None)
        if left is None:
            alone, left = alone + 1, host
        else:
            room[left] -= 1
            room += Counter()  # drops what is 0
        room[left - size] += 1
    return alone
