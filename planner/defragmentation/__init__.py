"""Pods moved so that nodes come free.

Doors: `consolidate` (iterated partitions and ejection chains) and `replay` (moves carried out on a cluster, each
checked).
"""

from planner.defragmentation.consolidation import consolidate
from planner.defragmentation.replays import replay

__all__ = ["consolidate", "replay"]
