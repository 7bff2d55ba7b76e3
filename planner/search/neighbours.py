"""Candidates near good points: small changes of one GPU type, or of all, at several scales.

GPU types share the work but little else, so most changes keep all types but one as they are. A step of a hundredth of an
axis moves a few GPUs between islands, a step of a seventh makes other islands of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain import Layout
from planner.search.space import Point, Space

STEPS = (0.15, 0.05, 0.015)  # standard deviations, as shares of an axis
EVERY_TYPE = 4  # every fourth set changes all types at once
NEXT_PARENT = 0.6  # geometric: how likely a change starts from the best parent, then from the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A canonical point and its layout."""

    point: dict[str, float]
    layout: Layout


def neighbours(
    space: Space,
    parents: Sequence[Point],
    known: set[Layout],
    *,
    sets: int,
    size: int,
    rng: np.random.Generator,
) -> list[list[Neighbour]]:
    """`sets` lists of at most `size` points whose layouts are not `known`; `parents` come best first."""
    types = tuple(dict.fromkeys(axis.gpu for axis in space.parameters))
    turn = int(rng.integers(len(types)))
    found: list[list[Neighbour]] = []
    for place in range(sets):
        changed = None if place % EVERY_TYPE == EVERY_TYPE - 1 else types[(turn + place) % len(types)]
        drawn = (_changed(space, parents, changed, rng) for _ in range(size))
        fresh = {one.layout: one for one in drawn if one.layout not in known}
        found.append(list(fresh.values()))
    return found


def _changed(space: Space, parents: Sequence[Point], gpu: str | None, rng: np.random.Generator) -> Neighbour:
    point = dict(parents[min(len(parents), int(rng.geometric(NEXT_PARENT))) - 1])
    step = float(rng.choice(STEPS))
    for axis in space.parameters:
        if gpu in (None, axis.gpu):
            moved = point[axis.name] + float(rng.normal()) * step * (axis.high - axis.low)
            point[axis.name] = min(max(moved, axis.low), axis.high)
    canonical = space.canonical(point)
    return Neighbour(point=canonical, layout=space.layout(canonical))
