"""The mathematical programmes: who serves which range on given islands, and which islands to form at all.

Doors: `assign` (one layout), `best_layout` (the layout itself), `relax` (what no layout can exceed), `rounded` (a
layout near that, in milliseconds), `pool_cells` (a finished table on a router's grid).
"""

from planner.assignment.cell_pools import CellPools, busy_times, pool_cells
from planner.assignment.inner_problem import assign
from planner.assignment.layout_options import Offer
from planner.assignment.layout_programme import LayoutAnswer, best_layout
from planner.assignment.relaxation import Relaxation, relax
from planner.assignment.rounding import rounded

__all__ = [
    "CellPools",
    "LayoutAnswer",
    "Offer",
    "Relaxation",
    "assign",
    "best_layout",
    "busy_times",
    "pool_cells",
    "relax",
    "rounded",
]
