"""The outer loop: which islands to cut the inventory into. Door: `optimize`."""

from planner.proposing.search.communication import Ground
from planner.proposing.search.divisions import DivisionCounts, DivisionSpace
from planner.proposing.search.fidelities import Judgement, most_promising
from planner.proposing.search.outer_loop import Aim, Seeds, given, optimize
from planner.proposing.search.proposers import space_of
from planner.proposing.search.results import Retold, SearchResult

__all__ = [
    "Aim",
    "DivisionCounts",
    "DivisionSpace",
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
