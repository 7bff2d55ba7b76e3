"""Pods moved so that nodes come free.

Doors: `consolidate` (iterated partitions and ejection chains) and `replay` (moves carried out on a cluster, each
checked), `fewest_nodes` (the exact optimum of up to 100 nodes).
"""

from planner.defragmentation.consolidation import consolidate
from planner.defragmentation.exact import fewest_nodes
from planner.defragmentation.replays import replay

__all__ = ["consolidate", "fewest_nodes", "replay"]
