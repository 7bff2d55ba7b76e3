"""The outer loop: which islands to cut the inventory into. Door: `optimize`."""

from planner.search.outer_loop import SearchResult, given, optimize
from planner.search.space import space_of

__all__ = ["SearchResult", "given", "optimize", "space_of"]
