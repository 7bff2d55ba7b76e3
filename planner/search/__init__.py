"""The outer loop: which islands to cut the inventory into. Door: `optimize`."""

from planner.search.fidelities import Judgement, most_promising
from planner.search.outer_loop import Aim, Seed, Seeds, given, optimize
from planner.search.results import SearchResult
from planner.search.space import space_of

__all__ = ["Aim", "Judgement", "SearchResult", "Seed", "Seeds", "given", "most_promising", "optimize", "space_of"]
