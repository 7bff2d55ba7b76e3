"""The outer loop: which islands to cut the inventory into. Door: `optimize`."""

from planner.search.fidelities import Judgement, by_improvement
from planner.search.outer_loop import Aim, Seed, Seeds, given, optimize
from planner.search.results import SearchResult
from planner.search.space import space_of

__all__ = ["Aim", "Judgement", "SearchResult", "Seed", "Seeds", "by_improvement", "given", "optimize", "space_of"]
