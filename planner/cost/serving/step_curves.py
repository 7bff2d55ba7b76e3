"""Times of prefill steps over the tokens that a rank takes in."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array
from planner.cost.serving.buckets import Buckets

STEP_TOKENS = (64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Tokens of a rank and step at which step times are known; in between they are interpolated."""
_GRID = np.array(STEP_TOKENS, dtype=float)
_BENDS = _GRID[1:-1]
_WIDTHS = np.diff(_GRID)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCurves:
    """Step times (ms) over `STEP_TOKENS` of servers on buckets, laid end to end: `before` each cell of the grid, what
    it `rises` by in it, and where the curve of a server and bucket begins (`origin`, shape (o, b))."""

    before: Array
    rises: Array
    origin: NDArray[np.intp]

    @classmethod
    def of(cls, times: Array, shape: tuple[int, ...]) -> "StepCurves":
        """`times`: shape (o, b, tokens), or what spreads to it of `shape` (o, b)."""
        of_each = times.shape[:-1]
        origin = np.arange(math.prod(of_each), dtype=np.intp).reshape(of_each) * len(_WIDTHS)
        before, after = times[..., :-1], times[..., 1:]
        return cls(before=before.reshape(-1), rises=(after - before).reshape(-1), origin=np.broadcast_to(origin, shape))

    def at(self, tokens: Array) -> Array:
        """Step times at `tokens` (shape (..., o, b)); straight lines beyond the grid."""
        cell = _BENDS.searchsorted(tokens)
        place = self.origin + cell
        part = (tokens - _GRID.take(cell)) / _WIDTHS.take(cell)
        return np.asarray(self.before.take(place) + part * self.rises.take(place))


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedSteps:
    """What buckets ask of servers at any rate: t(n) (`step_ms`, shape (servers, buckets, tokens)), and m1 and m2 of
    their prompts' fresh tokens (shape (servers or 1, buckets))."""

    step_ms: Array
    m1: Array
    m2: Array

    @classmethod
    def of(cls, fresh: Array, squared: Array, step_ms: Array, buckets: Buckets) -> "MixedSteps":
        """`fresh`, `squared`: mean and mean square of the tokens of each range, shape (servers or 1, ranges);
        `step_ms`: shape (servers, ranges, tokens)."""
        work = buckets.weights * fresh[:, None]  # (servers or 1, buckets, ranges)
        mix = work / work.sum(axis=-1)[..., None]
        alike = len(mix) == 1
        return cls(
            step_ms=np.einsum("bj,ojt->obt" if alike else "obj,ojt->obt", mix[0] if alike else mix, step_ms),
            m1=np.stack([buckets.weights @ row for row in fresh]),
            m2=np.stack([buckets.weights @ row for row in squared]),
        )
