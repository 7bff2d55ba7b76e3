"""The outer loop: which islands to cut the inventory into. Door: `optimize`."""

from planner.search.communication import Ground
from planner.search.fidelities import Judgement, most_promising
from planner.search.outer_loop import Aim, Seeds, given, optimize
from planner.search.proposers import space_of
from planner.search.results import Retold, SearchResult

__all__ = [
    "Aim",
    "Ground",
    "Judgement",
    "Retold",
    "SearchResult",
    "Seeds",
    "given",
    "most_promising",
    "optimize",
    "space_of",
]
