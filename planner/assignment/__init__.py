"""The mathematical programmes: who serves which range on given islands, and which islands to form at all.

Doors: `assign` (one layout), `choose_roles` (its islands, where queues count), `best_layout` (the layout itself),
`relax` (what no layout can exceed), `rounded` (a layout near that, in milliseconds), `pool_cells` (a finished table on
a router's grid).
"""

from planner.assignment.cell_pools import CellPools, busy_times, pool_cells
from planner.assignment.inner_problem import assign
from planner.assignment.layout_options import IslandKind, Offer, in_role
from planner.assignment.layout_programme import LayoutAnswer, best_layout
from planner.assignment.relaxation import Relaxation, relax
from planner.assignment.role_programme import choose_roles, fractional_rps
from planner.assignment.rounding import rounded
from planner.assignment.variables import Shares

__all__ = [
    "CellPools",
    "IslandKind",
    "LayoutAnswer",
    "Offer",
    "Relaxation",
    "Shares",
    "assign",
    "best_layout",
    "busy_times",
    "choose_roles",
    "fractional_rps",
    "in_role",
    "pool_cells",
    "relax",
    "rounded",
]
