"""A plan's islands on the nodes of a cluster.

Doors: `place`; `Fleet` prepares a cluster that is placed on many times; `violations` looks at a placement from outside.
"""

from typing import TYPE_CHECKING

from planner.doors import door

if TYPE_CHECKING:
    from planner.placement.islands.fleet import Fleet
    from planner.placement.islands.placer import place
    from planner.placement.islands.validation import violations

__all__ = ["Fleet", "place", "violations"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
