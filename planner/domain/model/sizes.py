"""Bounds of what a model may have."""

from typing import Annotated

from planner.domain.keys import Bounds

LARGEST_SIZE = 10**7
"""Of a size, a head count, experts, a vocabulary: a hundred times the largest there is."""
MOST_LAYERS = 10_000

Size = Annotated[int, Bounds(low=1, high=LARGEST_SIZE)]
SizeOrNone = Annotated[int, Bounds(low=0, high=LARGEST_SIZE)]
