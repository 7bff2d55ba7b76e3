"""Pods moved so that nodes come free, jobs come together, or an island finds room; and what that is worth over time.

Doors: `consolidate` (iterated partitions and ejection chains; every order of moves where nodes are few), `gather`
(scattered jobs under one switch or NVLink domain), `moves_for` (room for an island), `replay` (moves carried out on a
cluster, each checked), `fewest_nodes` (the exact optimum of up to 100 nodes), `turnover_of` and `simulate_churn` (a
cluster's pods that come and go, and defragmentation every so often).
"""

from planner.defragmentation.churn import simulate_churn
from planner.defragmentation.consolidation import consolidate
from planner.defragmentation.exact import fewest_nodes
from planner.defragmentation.gathering import gather
from planner.defragmentation.hosting import moves_for
from planner.defragmentation.replays import replay
from planner.defragmentation.turnover import turnover_of

__all__ = ["consolidate", "fewest_nodes", "gather", "moves_for", "replay", "simulate_churn", "turnover_of"]
