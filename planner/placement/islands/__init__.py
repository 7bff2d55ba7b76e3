"""A plan's islands on the nodes of a cluster.

Doors: `place`; `Fleet` prepares a cluster that is placed on many times; `violations` looks at a placement from outside.
"""

from planner.placement.islands.fleet import Fleet
from planner.placement.islands.placer import place
from planner.placement.islands.validation import violations

__all__ = ["Fleet", "place", "violations"]
