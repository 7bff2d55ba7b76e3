"""How many copies an autoscaler may run of an island.

| symbol | meaning | source |
|---|---|---|
| n | copies of the plan | PodGrouping.groups |
| d | demand: requests/s of the whole mix | the scenario's, else the plan's promise |
| c | what one copy serves of the whole mix | throughput x capacity_rps of a server / rate of the island |
| s, l | share of the rate that must remain; copies that are lost with nodes | SurvivalSettings, BucketPlan.losses |
| g | GPUs of the type that no island of the plan serves with | the inventory less the serving islands |

least = max(1, ceil(d / c), ceil(s d / c) + l), at most n; most = n + floor(g / GPUs of a copy), n where pods are pinned
to the plan's nodes. Islands of one type share g: not all can have their most at once.
"""

import math
from dataclasses import dataclass

from planner.domain import Plan
from planner.export.islands import ServingIsland

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBounds:
    """At least and at most so many copies; `planned` lies between."""

    least: int
    planned: int
    most: int


def copy_bounds(plan: Plan, island: ServingIsland, *, pinned: bool = False) -> CopyBounds:
    """The bounds of one island; `pinned`: its pods may only go to the nodes of the plan's placement."""
    planned = island.grouping.groups
    spare = 0 if pinned else spare_gpus(plan, island.gpu.name)
    return CopyBounds(
        least=min(planned, max(1, _least(plan, island))),
        planned=planned,
        most=planned + spare // island.parallel.devices,
    )


def demand_rps(plan: Plan) -> float:
    """What is asked of the whole mix; the promise where nothing is said."""
    wanted = plan.scenario.objective.demand_rps or plan.scenario.workload.arrival_rps or 0.0
    promise = plan.outlook.promise_rps
    return wanted or promise


def spare_gpus(plan: Plan, gpu: str) -> int:
    """GPUs of a type that no island serves with; of a fleet whose size was chosen, those that may be rented yet."""
    count = plan.scenario.inventory.item(gpu).count
    return max(0, count - sum(island.size for island in plan.islands if island.gpu == gpu and island.phase is not None))


def _least(plan: Plan, island: ServingIsland) -> int:
    if not island.rate_rps or not plan.throughput_rps:
        return 1
    plan_rps_a_copy = plan.throughput_rps * _of_one_copy(plan, island) / island.rate_rps
    demand, survive = demand_rps(plan), plan.scenario.survive
    needed = _copies(demand, plan_rps_a_copy)
    if not survive.share:
        return needed
    lost = max((loss.servers for loss in plan.outlook.losses if loss.island == island.id), default=0)
    return max(needed, _copies(survive.share * demand, plan_rps_a_copy) + lost)


def _copies(rate: float, of_one: float) -> int:
    return math.ceil(rate / of_one - _ROUNDING)


def _of_one_copy(plan: Plan, island: ServingIsland) -> float:
    """Requests/s of one copy: a server's within the levels, else what is planned of it."""
    pools = plan.outlook.pools
    capacity = next((pool.capacity_rps for pool in pools if pool.island == island.id), 0.0)
    return capacity or island.rate_rps / island.grouping.groups
