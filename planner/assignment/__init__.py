"""The mathematical programmes: who serves which range on given islands, and which islands to form at all.

Doors: `assign` (one layout), `choose_roles` (its islands, where queues count), `best_layout` (the layout itself),
`relax` (what no layout can exceed), `rounded` (a layout near that, in milliseconds), `best_pools` (pools behind
buckets of prompt length), `doubted_pools` (chosen before it is known how fast servers are), `divide` (an inventory
among services), `pool_cells` (a finished table on a router's grid).
"""

from planner.assignment.buckets.doubted import DrawnOffer, doubted_pools
from planner.assignment.buckets.least_change import LeastChange, least_changed_pools
from planner.assignment.buckets.offer import (
    BucketAnswer,
    BucketOffer,
    BucketOption,
    ChangeTerms,
    DeployedServers,
    Halves,
    Partition,
    Place,
    PoolCount,
    Uplinks,
    undominated,
)
from planner.assignment.buckets.programme import (
    best_pools,
    better_pools,
    fastest_of_kinds,
    pools_of,
    proves,
    simplest_pools,
)
from planner.assignment.buckets.relaxed import RelaxedBuckets, relaxed_buckets, relaxed_values
from planner.assignment.cells.pools import CellPools, busy_times, pool_cells
from planner.assignment.fleets.offer import (
    DeploymentOffer,
    Division,
    FleetOffer,
    NodePrices,
    RateLimit,
    ServiceTerms,
)
from planner.assignment.fleets.programme import alternatives_of, cheapest_addition, divide, node_prices
from planner.assignment.inner_problem import assign, choose_roles, fractional_rps
from planner.assignment.layout_options import IslandKind, Offer, in_role
from planner.assignment.layout_programme import LayoutAnswer, best_layout
from planner.assignment.relaxation import Relaxation, relax
from planner.assignment.rounding import rounded
from planner.assignment.variables import Shares

__all__ = [
    "BucketAnswer",
    "BucketOffer",
    "BucketOption",
    "CellPools",
    "ChangeTerms",
    "DeployedServers",
    "DeploymentOffer",
    "Division",
    "DrawnOffer",
    "FleetOffer",
    "Halves",
    "IslandKind",
    "LayoutAnswer",
    "LeastChange",
    "NodePrices",
    "Offer",
    "Partition",
    "Place",
    "PoolCount",
    "RateLimit",
    "Relaxation",
    "RelaxedBuckets",
    "ServiceTerms",
    "Shares",
    "Uplinks",
    "alternatives_of",
    "assign",
    "best_layout",
    "best_pools",
    "better_pools",
    "busy_times",
    "cheapest_addition",
    "choose_roles",
    "divide",
    "doubted_pools",
    "fastest_of_kinds",
    "fractional_rps",
    "in_role",
    "least_changed_pools",
    "node_prices",
    "pool_cells",
    "pools_of",
    "proves",
    "relax",
    "relaxed_buckets",
    "relaxed_values",
    "rounded",
    "simplest_pools",
    "undominated",
]
