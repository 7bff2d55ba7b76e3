"""The mathematical programmes: who serves which range on given islands, and which islands to form at all.

Doors: `assign` (one layout), `best_layout` (the layout itself), `relax` (what no layout can exceed), `rounded` (a
layout near that, in milliseconds).
"""

from planner.assignment.inner_problem import assign
from planner.assignment.layout_options import Offer
from planner.assignment.layout_programme import LayoutAnswer, best_layout
from planner.assignment.relaxation import Relaxation, relax
from planner.assignment.rounding import rounded

__all__ = ["LayoutAnswer", "Offer", "Relaxation", "assign", "best_layout", "relax", "rounded"]
