"""Pods moved so that nodes come free, jobs come together, or an island finds room.

Doors: `consolidate` (iterated partitions and ejection chains), `gather` (scattered jobs under one switch or NVLink
domain), `moves_for` (room for an island), `replay` (moves carried out on a cluster, each checked), `fewest_nodes` (the
exact optimum of up to 100 nodes).
"""

from planner.defragmentation.consolidation import consolidate
from planner.defragmentation.exact import fewest_nodes
from planner.defragmentation.gathering import gather
from planner.defragmentation.hosting import moves_for
from planner.defragmentation.replays import replay

__all__ = ["consolidate", "fewest_nodes", "gather", "moves_for", "replay"]
